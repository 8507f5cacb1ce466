/**
 * Changes single settings of config.yaml and leaves every other byte as it is: comments, order, blank lines. A new
 * value replaces the commented default of a seeded file, so that it is below its explanation.
 *
 * The result of every change is parsed and compared: it sets the requested values and
 * nothing else, or the change is refused.
 */

import { type Document, isMap, isScalar, parseDocument, stringify } from "yaml";
import { TaskdError } from "../../lib/errors.ts";
import { canonicalJson, type JsonLike } from "../../lib/text/canonical_json.ts";
import type { SettingPath } from "../../broker/settings/settings.ts";

export type PlainValue = string | number | boolean;

export type ConfigChanges = ReadonlyMap<SettingPath, PlainValue>;

/**
 * The text with other values.
 *
 * @param file Path, for messages.
 * @throws {TaskdError} `invalid_config` when the text is not YAML, or has a form that cannot be changed safely.
 */
export function changeConfig(file: string, text: string, changes: ConfigChanges): string {
  let changed = text;
  for (const [path, value] of changes) changed = changeOne(file, changed, path.split("."), value);
  return changed;
}

function changeOne(file: string, text: string, path: readonly string[], value: PlainValue): string {
  const before = parse(file, text);
  if (before.getIn(path) === value) return text;
  const requested = withValue(before.toJS() ?? {}, path, value);
  for (const way of [replaceValue, uncommentDefault, insertLine, rewrite]) {
    const changed = way(text, { document: parse(file, text), path, value });
    if (changed !== undefined && means(file, changed, requested)) return changed;
  }
  throw new TaskdError("invalid_config", `Cannot set ${path.join(".")} in ${file}: its form is not understood`, {
    hint: `Write ${path.join(".")}: ${JSON.stringify(value)} into it by hand`,
  });
}

interface Change {
  document: Document;
  path: readonly string[];
  value: PlainValue;
}

function replaceValue(text: string, { document, path, value }: Change): string | undefined {
  const node = document.getIn(path, true);
  if (!isScalar(node) || !node.range || node.value === null) return undefined;
  return text.slice(0, node.range[0]) + scalarText(value) + text.slice(node.range[1]);
}

/** The line `#name: default` that `init` wrote. */
function uncommentDefault(text: string, { path, value }: Change): string | undefined {
  const lines = text.split("\n");
  const from = sectionStart(lines, path);
  if (from === undefined) return undefined;
  const indent = path.length === 1 ? "" : "  ";
  const name = path.at(-1)!;
  for (let index = from; index < lines.length && !isNextSection(lines[index]!, path); index++) {
    if (!lines[index]!.startsWith(`${indent}#${name}:`)) continue;
    lines[index] = `${indent}${name}: ${scalarText(value)}`;
    return lines.join("\n");
  }
  return undefined;
}

/** A new line: at the end, or right under the key of its group. */
function insertLine(text: string, { path, value }: Change): string | undefined {
  const lines = text.split("\n");
  const [group, name] = path.length === 1 ? [undefined, path[0]!] : [path[0]!, path[1]!];
  const line = `${name}: ${scalarText(value)}`;
  const ended = text === "" || text.endsWith("\n") ? text : `${text}\n`;
  if (group === undefined) return `${ended}${line}\n`;
  const start = sectionStart(lines, path);
  if (start === undefined) return `${ended}${group}:\n  ${line}\n`;
  const sibling = lines.slice(start).find((text) => /^\s+[^\s#]/.test(text));
  const indent = sibling === undefined ? "  " : /^\s+/.exec(sibling)![0];
  return lines.toSpliced(start, 0, indent + line).join("\n");
}

/** Anything else, such as a group in braces: the library writes the file again. Comments stay, line breaks may move. */
function rewrite(_text: string, { document, path, value }: Change): string | undefined {
  if (path.length > 1 && !isMap(document.get(path[0]!, true))) return undefined;
  document.setIn(path, value);
  return document.toString({ lineWidth: 0 });
}

/** Index of the first line after the group's key; of the file for a setting without one. */
function sectionStart(lines: readonly string[], path: readonly string[]): number | undefined {
  if (path.length === 1) return 0;
  const key = lines.findIndex((line) => new RegExp(`^${path[0]}:\\s*(?:#.*)?$`).test(line));
  return key < 0 ? undefined : key + 1;
}

function isNextSection(line: string, path: readonly string[]): boolean {
  return path.length > 1 && /^[^\s#]/.test(line);
}

function scalarText(value: PlainValue): string {
  // A block scalar would need the indentation of its place.
  if (typeof value === "string" && value.includes("\n")) return JSON.stringify(value);
  return stringify(value, { lineWidth: 0 }).trimEnd();
}

function parse(file: string, text: string): Document {
  const document = parseDocument(text, { prettyErrors: false });
  const [error] = document.errors;
  if (error === undefined) return document;
  throw new TaskdError("invalid_config", `Cannot change ${file}: it is not YAML (${error.code})`, {
    hint: "Run taskd doctor, which names the place",
  });
}

function withValue(root: Record<string, JsonLike>, path: readonly string[], value: PlainValue): JsonLike {
  const [first, second] = path;
  if (second === undefined) return { ...root, [first!]: value };
  return { ...root, [first!]: { ...root[first!] as Record<string, JsonLike> | null, [second]: value } };
}

/** Whether the text has exactly these values, in any order of keys. */
function means(file: string, text: string, requested: JsonLike): boolean {
  try {
    return canonicalJson(parse(file, text).toJS()) === canonicalJson(requested);
  } catch {
    return false;
  }
}
