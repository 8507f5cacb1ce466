/**
 * Writes the reference part of docs/reference/store_protocol.md from the tables that the daemon runs
 * on. `deno run -A tests/daemon/reference.ts` brings the page up to date; a test fails
 * while it is not.
 */

import { ERROR_CODES, type ErrorCode } from "../../lib/errors.ts";
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
    "A field marked * is required in a request, or always there in an answer.",
    ...ops.map(renderOp),
    "## Objects",
    ...objectsOf(ops.map((op) => OPS[op].answer as AnyFields)),
    "## Error codes",
    `Any request can fail with: ${codes(COMMON_ERRORS)}. What else an operation can fail with stands with it.`,
    rows(["Code", "Meaning"], Object.entries(ERROR_CODES).map(([code, meaning]) => [`\`${code}\``, meaning])),
    "## Event types",
    EVENT_TYPES.map((type) => `\`${type}\``).join(", "),
  ].join("\n\n") + "\n";
}

function renderOp(op: OpName): string {
  const { summary, fields, answer, errors } = OPS[op];
  return [
    `### ${op}`,
    summary,
    Object.keys(fields).length === 0 ? "No fields." : fieldRows("Field", fields as AnyFields),
    Object.keys(answer).length === 0 ? "Answers nothing but `ok`." : fieldRows("Answer", answer as AnyFields),
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
      found.set(name, `### ${name} object\n\n${fieldRows("Field", object)}`);
      add(object);
    }
  };
  answers.forEach(add);
  return [...found.values()];
}

function fieldRows(head: string, fields: AnyFields): string {
  const cells = Object.entries(fields).map(([name, { required, type, object, doc }]) => [
    `\`${name}\`${required ? " *" : ""}`,
    object === undefined || type.startsWith("array") ? type : `${type} object`,
    doc,
  ]);
  return rows([head, "Type", "Meaning"], cells);
}

function codes(list: readonly ErrorCode[]): string {
  return list.map((code) => `\`${code}\``).join(", ");
}

function rows(head: string[], body: string[][]): string {
  const line = (cells: string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...body.map(line)].join("\n");
}

if (import.meta.main) {
  await Deno.writeTextFile(PAGE, withReference(await Deno.readTextFile(PAGE)));
  await new Deno.Command(Deno.execPath(), { args: ["fmt", "--quiet", PAGE.pathname] }).output();
}
