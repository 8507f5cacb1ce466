/**
 * Writes the reference part of docs/reference/store_protocol.md from the tables that the daemon runs
 * on. `deno run -A tests/daemon/reference.ts` brings the page up to date; a test fails
 * while it is not.
 */

import type { ErrorCode } from "../../lib/errors.ts";
import { EVENT_TYPES } from "../../lib/protocol/events.ts";
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
  return [
    "## Operations",
    "An optional field may be missing, from a request or from an answer. `db` is the database and `branch` the " +
    "branch, in a request optional and then `main`; they are described only where they mean something else.",
    ...ops.map(renderOp),
    "## Objects",
    ...objectsOf(ops.map((op) => OPS[op].answer as AnyFields)),
    "## Error codes",
    `Any request can fail with: ${codes(COMMON_ERRORS)}. What else an operation can fail with stands with it; ` +
    "[errors](errors.md) says what each means.",
    "## Event types",
    EVENT_TYPES.map((type) => `\`${type}\``).join(", "),
  ].join("\n\n") + "\n";
}

function renderOp(op: OpName): string {
  const { summary, fields, answer, errors } = OPS[op];
  return [
    `### ${op}`,
    summary,
    Object.keys(fields).length === 0 ? "No fields." : fieldList("Fields", fields as AnyFields),
    Object.keys(answer).length === 0 ? "Answers nothing but `ok`." : fieldList("Answer", answer as AnyFields),
    ...(errors.length === 0 ? [] : [`Errors of its own: ${codes(errors)}.`]),
  ].join("\n\n");
}

/** The objects in answers, each once, those within others after them. */
function objectsOf(answers: AnyFields[]): string[] {
  const found = new Map<string, string>();
  const add = (fields: AnyFields) => {
    for (const { type, object } of Object.values(fields)) {
      const name = type.replace(/^array of (.*) objects$/, "$1");
      if (object === undefined || found.has(name)) continue;
      found.set(name, `### ${name} object\n\n${fieldList("Fields", object)}`);
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

function fieldList(head: string, fields: AnyFields): string {
  const usual = Object.keys(fields).filter((name) => USUAL[name]?.includes(fields[name]!.doc));
  const code = (name: string) => `\`${name}\``;
  const rest = Object.keys(fields).filter((name) => !usual.includes(name)).map((name) => {
    const { type, object, required, doc } = fields[name]!;
    const shape = object === undefined || type.startsWith("array") ? type : `${type} object`;
    return `- ${code(name)} (${shape}${required ? "" : ", optional"}): ${doc}`;
  });
  const first = usual.length === 0 ? "" : ` ${usual.map(code).join(", ")}${rest.length === 0 ? "." : ", and"}`;
  return [`${head}:${first}`, ...(rest.length === 0 ? [] : ["", ...rest])].join("\n");
}

function codes(list: readonly ErrorCode[]): string {
  return list.map((code) => `\`${code}\``).join(", ");
}

if (import.meta.main) {
  await Deno.writeTextFile(PAGE, withReference(await Deno.readTextFile(PAGE)));
  await new Deno.Command(Deno.execPath(), { args: ["fmt", "--quiet", PAGE.pathname] }).output();
}
