/**
 * Writes docs/conformance.md: every statement of the contract and the tests that name it.
 *
 * A test names statements in a comment directly above it, `// conformance: 5.1 7.unauthorized`.
 *
 * @module
 */

import { SECTIONS } from "../conformance/branch_store.ts";
import type { Statement } from "../conformance/contract.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
/** The page. */
export const PAGE = new URL("docs/conformance.md", `file://${ROOT}`);

const FOLDERS = ["cli", "daemon", "lib", "tests"];
const MARKER = /^\s*\/\/ conformance: (\S+(?: \S+)*)$/;
/** How many lines below its marker a test's name begins, at most. */
const NAME_WITHIN_LINES = 6;

/** One naming of one statement by one test. */
export interface Proof {
  id: string;
  /** Path from the root of the project. */
  file: string;
  /** The test's name, or the expression that makes it. */
  test: string;
}

/** Every marker in the project's tests. */
export function collectProofs(): Proof[] {
  const proofs: Proof[] = [];
  for (const path of FOLDERS.flatMap((folder) => [...testFiles(ROOT + folder)]).sort()) {
    const lines = Deno.readTextFileSync(path).split("\n");
    lines.forEach((line, index) => {
      const ids = MARKER.exec(line)?.[1];
      if (ids === undefined) return;
      const file = path.slice(ROOT.length);
      const test = nameBelow(lines.slice(index + 1, index + 1 + NAME_WITHIN_LINES), `${file}:${index + 1}`);
      for (const id of ids.split(" ")) proofs.push({ id, file, test });
    });
  }
  return proofs;
}

function* testFiles(directory: string): Generator<string> {
  for (const entry of Deno.readDirSync(directory)) {
    const path = `${directory}/${entry.name}`;
    if (entry.isDirectory) yield* testFiles(path);
    // Helpers under tests/ hold suites that several servers or file systems run.
    else if (entry.name.endsWith("_test.ts") || (entry.name.endsWith(".ts") && path.startsWith(`${ROOT}tests/`))) {
      yield path;
    }
  }
}

/** The first text in these lines: the name of the test that begins there. */
function nameBelow(lines: string[], where: string): string {
  const match = /"((?:[^"\\]|\\.)+)"|`([^`]+)`/.exec(lines.join("\n"));
  const name = match?.[1] ?? match?.[2];
  if (name === undefined) throw new Error(`${where}: no test stands below the marker`);
  // What a template adds says which tool is missing, or which case it is.
  return name.replace(/\$\{[^}]*\}/g, "").replace(/^[:, ]+/, "").trim();
}

/** The page's text. */
export function renderPage(proofs: Proof[]): string {
  const sections = SECTIONS.map(({ name, title, statements }) =>
    [`## ${name}. ${title}`, ...statements.map((statement) => entry(statement, proofs))].join("\n\n")
  );
  return `# Conformance

Every statement of the branch-store daemon's contract and the tests that prove it. This page is written from
\`tests/conformance/branch_store.ts\` and from the comments above the tests; a test fails when a statement has no proof,
when a comment names none, or when this page is not up to date: \`deno run -A tests/tools/conformance.ts\`.

What does not hold as it is written says so, and [limitations.md](limitations.md) says why.

${sections.join("\n\n")}
`;
}

function entry({ id, text, unmet }: Statement, proofs: Proof[]): string {
  const own = proofs.filter((proof) => proof.id === id);
  const lines = own.map(({ file, test }) => `- \`${file}\`: ${test.replaceAll(/[*_<>`]/g, "\\$&")}`);
  return [`**${id}** ${text}`, ...(unmet === undefined ? [] : [`Not as written: ${unmet}`]), lines.join("\n")].join(
    "\n\n",
  );
}

if (import.meta.main) {
  await Deno.writeTextFile(PAGE, renderPage(collectProofs()));
  await new Deno.Command(Deno.execPath(), { args: ["fmt", "--quiet", PAGE.pathname] }).output();
}
