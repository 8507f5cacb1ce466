/**
 * Writes the reference part of docs/reference/store_protocol.md from the tables that the daemon runs
 * on. `deno run -A tests/daemon/reference.ts` brings the page up to date; a test fails
 * while it is not.
 *
 * @module
 */

import { ERROR_CODES, type ErrorCode } from "../../lib/errors.ts";
import { EVENT_TYPES } from "../../lib/protocol/events.ts";
import type { OpName } from "../../lib/protocol/messages.ts";
import { COMMON_ERRORS, type Field, OPS } from "../../lib/protocol/ops.ts";

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
  const operations = (Object.keys(OPS) as OpName[]).map(renderOp);
  return [
    "## Operations",
    "A field marked * is required.",
    ...operations,
    "## Error codes",
    `Any request can fail with: ${codes(COMMON_ERRORS)}. What else an operation can fail with stands with it.`,
    rows(["Code", "Meaning"], Object.entries(ERROR_CODES).map(([code, meaning]) => [`\`${code}\``, meaning])),
    "## Event types",
    EVENT_TYPES.map((type) => `\`${type}\``).join(", "),
  ].join("\n\n") + "\n";
}

function renderOp(op: OpName): string {
  const { summary, fields, answer, errors } = OPS[op];
  const given = Object.entries(fields as Record<string, Field<unknown>>).map(([name, { required, type, doc }]) => [
    `\`${name}\`${required ? " *" : ""}`,
    type,
    doc,
  ]);
  const answered = Object.entries(answer as Record<string, string>).map(([name, doc]) => [`\`${name}\``, doc]);
  return [
    `### ${op}`,
    summary,
    given.length === 0 ? "No fields." : rows(["Field", "Type", "Meaning"], given),
    answered.length === 0 ? "Answers nothing but `ok`." : rows(["Answer", "Meaning"], answered),
    ...(errors.length === 0 ? [] : [`Errors of its own: ${codes(errors)}.`]),
  ].join("\n\n");
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
