/**
 * Files of `KEY=value` lines, as shells and other tools read them: comments, `export`
 * before a name, single and double quotes. Nothing is expanded: a `$` in a key is a `$`.
 *
 * Errors name the line and never show its text.
 */

import { InvalidConfig } from "./invalid_config.ts";

interface Assignment {
  index: number;
  name: string;
  value: string;
}

const ASSIGNMENT = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$/;
const SINGLE_QUOTED = /^'([^']*)'\s*(?:#.*)?$/;
const DOUBLE_QUOTED = /^"((?:[^"\\]|\\.)*)"\s*(?:#.*)?$/;
const BARE = /^([^\s'"\\]*)\s*(?:\s#.*)?$/;

/** Reads the variables; a name that is given twice is refused, since readers differ on which counts. */
export function parseEnvFile(file: string, text: string): Map<string, string> {
  const values = new Map<string, string>();
  for (const { index, name, value } of assignments(file, text.split("\n"))) {
    if (values.has(name)) throw new InvalidConfig(name, { file, line: index + 1, column: 1 }, "must be given once");
    values.set(name, value);
  }
  return values;
}

function assignments(file: string, lines: readonly string[]): Assignment[] {
  return lines.flatMap((line, index) => {
    const bare = line.replace(/\r$/, "").replace(/^\ufeff/, "");
    if (/^\s*(?:#|$)/.test(bare)) return [];
    const [, name, rest] = ASSIGNMENT.exec(bare) ?? [];
    const value = rest === undefined ? undefined : readValue(rest.trim());
    if (name !== undefined && value !== undefined) return [{ index, name, value }];
    throw new InvalidConfig("the line", { file, line: index + 1, column: 1 }, "must be NAME=value", {
      hint: "Put a value with spaces, quotes or backslashes in single quotes",
    });
  });
}

function readValue(text: string): string | undefined {
  const single = SINGLE_QUOTED.exec(text)?.[1];
  if (single !== undefined) return single;
  const double = DOUBLE_QUOTED.exec(text)?.[1];
  // The escapes that a shell knows between double quotes.
  if (double !== undefined) return double.replace(/\\(["\\$`])/g, "$1");
  return text.startsWith("#") ? "" : BARE.exec(text)?.[1];
}

/**
 * The text with other values: an existing line is replaced in its place, a new one appended; null removes the
 * line. Comments and all other lines stay as they are.
 *
 * @throws {InvalidConfig} when the text is not such a file, or a value has control characters.
 */
export function changeEnvFile(file: string, text: string, changes: ReadonlyMap<string, string | null>): string {
  const lines = text.split("\n");
  const open = new Map(changes);
  for (const { index, name } of assignments(file, lines).reverse()) {
    const value = changes.get(name);
    if (value === undefined) continue;
    if (value === null || !open.has(name)) lines.splice(index, 1);
    else lines[index] = formatLine(file, name, value);
    open.delete(name);
  }
  if (lines.at(-1) === "") lines.pop();
  for (const [name, value] of open) if (value !== null) lines.push(formatLine(file, name, value));
  return lines.length === 0 ? "" : `${lines.join("\n")}\n`;
}

function formatLine(file: string, name: string, value: string): string {
  // deno-lint-ignore no-control-regex
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) || /[\u0000-\u001f\u007f]/.test(value) || !value.isWellFormed()) {
    throw new InvalidConfig("a key", { file, line: 1, column: 1 }, "must be one line of text under a variable's name");
  }
  if (/^[\w./:@+=-]*$/.test(value)) return `${name}=${value}`;
  return value.includes("'") ? `${name}="${value.replace(/["\\$`]/g, "\\$&")}"` : `${name}='${value}'`;
}
