/**
 * Writes the reference part of docs/reference/store_protocol.md from the tables that the daemon runs
 * on. `deno run -A tests/daemon/reference.ts` brings the page up to date; a test fails
 * while it is not.
 */

import type { ErrorCode } from "../../lib/errors.ts";
import type { OpName } from "../../lib/protocol/messages.ts";
import { type AnyFields, COMMON_ERRORS, OPS } from "../../lib/protocol/operations.ts";

const BEGIN = "<!-- reference: written by tests/daemon/reference.ts -->";
const END = "<!-- end of reference -->";

/** The page. */
export const PAGE = new URL("../../docs/reference/store_protocol.md", import.meta.url);

/** The page with its reference brought up to date. */
export function withReference(page: string): string {
  const begin = page.indexOf(BEGIN);
  const end = page.indexOf(END);
  if (begin < 0 || end < begin) throw new Error("docs/reference/store_protocol.md has lost the marks of its reference");
  return `${page.slice(0, begin + BEGIN.length)}\n\n${renderReference()}\n${page.slice(end)}`;
}

function renderReference(): string {
  const ops = Object.keys(OPS) as OpName[];
  const first = new Map<string, string>();
  return [
    "## Operations",
    "An optional field may be missing, from a request or from an answer. `db` is the database and `branch` the " +
    "branch, in a request optional and then `main`; they are described only where they mean something else.",
    `_Deleting_ stands for the errors ${codes(SETS.Deleting)}, _capture_ for ${codes(SETS.capture)}.`,
    ...ops.map((op) => renderOp(op, first)),
    "## Objects",
    ...objectsOf(ops.map((op) => OPS[op].answer as AnyFields), first),
    "## Error codes",
    `Any request can fail with: ${codes(COMMON_ERRORS)}. What else an operation can fail with stands with it; ` +
    "[errors](errors.md) says what each means.",
  ].join("\n\n") + "\n";
}

function renderOp(op: OpName, first: Map<string, string>): string {
  const { summary, fields, answer, errors } = OPS[op];
  return [
    `### ${op}`,
    summary,
    ...(Object.keys(fields).length === 0 ? [] : [fieldList("Fields", fields as AnyFields, op, first)]),
    ...(Object.keys(answer).length === 0 ? [] : [fieldList("Answer", answer as AnyFields, op, first)]),
    ...(errors.length === 0 ? [] : [`Errors: ${errorList(errors)}.`]),
  ].join("\n\n");
}

/** The objects in answers, each once, those within others after them. */
function objectsOf(answers: AnyFields[], first: Map<string, string>): string[] {
  const found = new Map<string, string>();
  const add = (fields: AnyFields) => {
    for (const { type, object } of Object.values(fields)) {
      const name = type.replace(/^array of (.*) objects$/, "$1");
      if (object === undefined || found.has(name)) continue;
      found.set(name, `### ${name} object\n\n${fieldList("Fields", object, `${name} object`, first)}`);
      add(object);
    }
  };
  answers.forEach(add);
  return [...found.values()];
}

/** What `db` and `branch` mean in most operations; rows that say so are left out. */
const USUAL: Readonly<Record<string, readonly string[]>> = {
  db: ["the database"],
  branch: ["the branch", "the branch; `main` when absent"],
};

/**
 * The fields of an operation or object, `owner`. `first` has the owner that described a field before, for each
 * field with its type and meaning.
 */
function fieldList(head: string, fields: AnyFields, owner: string, first: Map<string, string>): string {
  const usual = Object.keys(fields).filter((name) => USUAL[name]?.includes(fields[name]!.doc));
  const code = (name: string) => `\`${name}\``;
  const alike = new Map<string, string[]>();
  const rest = Object.keys(fields).filter((name) => !usual.includes(name)).flatMap((name) => {
    const { type, object, required, doc } = fields[name]!;
    const shape = object === undefined || type.startsWith("array") ? type : `${type} object`;
    const row = `- ${code(name)} (${shape}${required ? "" : ", optional"}): ${doc}`;
    const earlier = first.get(`${head} ${row}`);
    if (earlier === undefined) first.set(`${head} ${row}`, owner);
    if (earlier === undefined) return [row];
    alike.set(earlier, [...alike.get(earlier) ?? [], code(name)]);
    return [];
  });
  for (const [earlier, names] of alike) rest.push(`- ${names.join(", ")}: as in ${earlier}`);
  const begin = usual.length === 0 ? "" : ` ${usual.map(code).join(", ")}${rest.length === 0 ? "." : ", and"}`;
  return [`${head}:${begin}`, ...(rest.length === 0 ? [] : ["", ...rest])].join("\n");
}

/** Errors that come together, under one name. */
const SETS = {
  Deleting: ["branch_deleting", "branch_reaping"],
  capture: ["session_failed", "fenced", "capture_failed"],
} satisfies Record<string, ErrorCode[]>;

function errorList(errors: readonly ErrorCode[]): string {
  const whole = Object.entries(SETS).filter(([, set]) => set.every((code) => errors.includes(code)));
  const named = whole.flatMap(([, set]): ErrorCode[] => set);
  const single = errors.filter((code) => !named.includes(code));
  return [...single.map((code) => `\`${code}\``), ...whole.map(([name]) => `_${name.toLowerCase()}_`)].join(", ");
}

function codes(list: readonly ErrorCode[]): string {
  return list.map((code) => `\`${code}\``).join(", ");
}

if (import.meta.main) {
  await Deno.writeTextFile(PAGE, withReference(await Deno.readTextFile(PAGE)));
  await new Deno.Command(Deno.execPath(), { args: ["fmt", "--quiet", PAGE.pathname] }).output();
}
