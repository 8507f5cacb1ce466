/**
 * Writes tests/conformance/README.md: every statement of the two contracts and the tests that name it.
 *
 * A test names statements in a comment directly above it, `// conformance: 5.1 7.unauthorized`; `b2.setting.*` names all
 * that begin so, for a test that is itself held to the list of them.
 */

import { SECTIONS } from "../conformance/branch_store.ts";
import type { Section, Statement } from "../conformance/contract.ts";
import { BROKER_SECTIONS } from "../conformance/task_broker.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
/** The page. */
export const PAGE = new URL("tests/conformance/README.md", `file://${ROOT}`);

/** The contracts, in the order of the page. */
const CONTRACTS: readonly { title: string; sections: readonly Section[] }[] = [
  { title: "The branch store", sections: SECTIONS },
  { title: "The task broker", sections: BROKER_SECTIONS },
];
/** Every statement of every contract. */
export const STATEMENTS: readonly Statement[] = CONTRACTS.flatMap(({ sections }) =>
  sections.flatMap(({ statements }) => statements)
);

const FOLDERS = ["broker", "cli", "daemon", "lib", "tests"];
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
      for (const id of ids.split(" ").flatMap(expand)) proofs.push({ id, file, test });
    });
  }
  return proofs;
}

/** The statements that a word of a marker names; one that names none is kept, to be reported. */
function expand(word: string): string[] {
  if (!word.endsWith("*")) return [word];
  const ids = STATEMENTS.map(({ id }) => id).filter((id) => id.startsWith(word.slice(0, -1)));
  return ids.length === 0 ? [word] : ids;
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
  const parts = CONTRACTS.map(({ title, sections }) =>
    [`## ${title}`, ...sections.map((section) => sectionText(section, proofs))].join("\n\n")
  );
  return `# Conformance

Every statement of the contracts of the branch-store daemon and of the task broker, and the tests that prove it. This
page is written from \`tests/conformance/branch_store.ts\`, from \`tests/conformance/task_broker.ts\` and from the
comments above the tests; a test fails when a statement has no proof, when a comment names none, or when this page is
not up to date: \`deno run -A tests/tools/conformance.ts\`.

What does not hold as it is written says so, and [limitations](../../docs/limitations.md) says why.

${parts.join("\n\n")}
`;
}

function sectionText({ name, title, statements }: Section, proofs: Proof[]): string {
  return [`### ${name}. ${title}`, ...statements.map((statement) => entry(statement, proofs))].join("\n\n");
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
