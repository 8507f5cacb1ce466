/**
 * A YAML file as plain nodes that know where they stand, so that every error can point
 * at a line and a column.
 *
 * Only what configuration needs is let through: one document of maps with text keys,
 * lists and scalars of YAML 1.2. Aliases, tags, merge keys and duplicate keys are
 * refused, since they let one line mean something far away from it.
 *
 * @module
 */

import {
  type Document,
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Node as YamlNode,
  parseDocument,
} from "yaml";
import { InvalidConfig, type Place, quoteText } from "./invalid.ts";

/** A value of a file, of the environment or of the table. */
export type Node = ScalarNode | ListNode | MapNode;

/** A single value. */
export interface ScalarNode {
  kind: "scalar";
  /** Dotted path, with indices: `profiles.repos.github.com/o/r.setup[0][1]`. */
  name: string;
  place: Place;
  /** As the file's syntax makes it; from the environment always text. */
  value: string | number | boolean | null;
  /** As it is written. */
  source: string;
}

/** Several values. */
export interface ListNode {
  kind: "list";
  name: string;
  place: Place;
  items: Node[];
}

/** Values with names, in the order of the file; no name twice. */
export interface MapNode {
  kind: "map";
  name: string;
  place: Place;
  entries: MapEntry[];
}

/** One name of a map. */
export interface MapEntry {
  key: string;
  key_place: Place;
  value: Node;
}

/** Name of the outermost node. */
export const ROOT = "the file";

/** The longest file that is read, in UTF-16 units. */
const MAX_FILE_LENGTH = 1_048_576;
/** The deepest nesting; the deepest setting needs seven levels. */
const MAX_DEPTH = 16;
/** The most values in one file. */
const MAX_NODES = 20_000;

/** Reads YAML text. An empty file is an empty map. Throws {@linkcode InvalidConfig}. */
export function parseNodes(file: string, text: string): Node {
  const at = (line: number, column: number): Place => ({ file, line, column });
  if (text.length > MAX_FILE_LENGTH) {
    throw new InvalidConfig(ROOT, at(1, 1), `must have at most ${MAX_FILE_LENGTH} characters`);
  }
  const lines = new LineCounter();
  const document = parseText(file, text, lines);
  const placeOf = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    // Line 0 is what the library says of an offset before the first line's start.
    return at(Math.max(1, line), Math.max(1, col));
  };
  const fault = document.errors[0] ?? document.warnings[0];
  // The library's words without what it quotes, which may be a secret in the wrong file.
  const words = fault?.message.replace(/["'`].*["'`]/s, "…").replace(/: .*$/s, "") ?? "";
  const rule = /call stack/.test(words) ? "must be nested less deeply" : `must be YAML: ${words}`;
  if (fault) throw new InvalidConfig("the text", placeOf(fault.pos[0]), rule);
  const { contents } = document;
  if (contents === null || isScalar(contents) && contents.value === null) {
    return { kind: "map", name: ROOT, place: at(1, 1), entries: [] };
  }
  return new Reader(text, placeOf).read(contents, ROOT, 0);
}

function parseText(file: string, text: string, lineCounter: LineCounter): Document.Parsed {
  try {
    return parseDocument(text, {
      version: "1.2",
      schema: "core",
      strict: true,
      uniqueKeys: true,
      stringKeys: true,
      prettyErrors: false,
      lineCounter,
    });
  } catch (cause) {
    // It recurses: a file of brackets alone exhausts the stack.
    if (!(cause instanceof RangeError)) throw cause;
    throw new InvalidConfig("the text", { file, line: 1, column: 1 }, "must be nested less deeply");
  }
}

class Reader {
  readonly #text: string;
  readonly #placeOf: (offset: number) => Place;
  #count = 0;

  constructor(text: string, placeOf: (offset: number) => Place) {
    this.#text = text;
    this.#placeOf = placeOf;
  }

  read(node: YamlNode, name: string, depth: number): Node {
    const place = this.#place(node);
    const refuse = (rule: string) => new InvalidConfig(name, place, rule);
    if (++this.#count > MAX_NODES) throw refuse(`must have at most ${MAX_NODES} values`);
    if (depth > MAX_DEPTH) throw refuse(`must be nested at most ${MAX_DEPTH} levels deep`);
    if (isAlias(node)) throw refuse("must be written out, without an alias");
    if (node.anchor !== undefined) throw refuse("must be written without an anchor");
    if (node.tag !== undefined) throw refuse("must be written without a tag");
    if (isMap(node)) return { kind: "map", name, place, entries: this.#entries(node.items, name, depth) };
    if (isSeq(node)) {
      const items = node.items.map((item, index) => this.read(item as YamlNode, `${name}[${index}]`, depth + 1));
      return { kind: "list", name, place, items };
    }
    if (!isScalar(node)) throw refuse("must be a value, a list or a map");
    const { value } = node;
    const isPlain = value === null || ["string", "number", "boolean"].includes(typeof value);
    if (!isPlain) throw refuse("must be text, a number, true or false");
    const source = node.range ? this.#text.slice(node.range[0], node.range[1]) : String(value);
    return { kind: "scalar", name, place, value: value as ScalarNode["value"], source };
  }

  #entries(items: readonly unknown[], name: string, depth: number): MapEntry[] {
    return items.map((item) => {
      // stringKeys makes every key of a map a scalar of text; anything else was an error of the parser.
      if (!isPair(item) || !isScalar(item.key) || typeof item.key.value !== "string") {
        throw new InvalidConfig(name, this.#placeOf(0), "must have text as its keys");
      }
      const key = item.key.value;
      const key_place = this.#place(item.key);
      if (item.key.anchor !== undefined || item.key.tag !== undefined) {
        throw new InvalidConfig(quoteText(key), key_place, "must be written without an anchor or a tag");
      }
      const path = name === ROOT ? key : `${name}.${key}`;
      const missing: Node = { kind: "scalar", name: path, place: key_place, value: null, source: "" };
      return {
        key,
        key_place,
        value: item.value === null ? missing : this.read(item.value as YamlNode, path, depth + 1),
      };
    });
  }

  #place(node: YamlNode): Place {
    return this.#placeOf(node.range?.[0] ?? 0);
  }
}

/** The text of a variable as a node; `name` is the setting. */
export function envNode(name: string, variable: string, text: string): ScalarNode {
  return { kind: "scalar", name, place: { env: variable }, value: text, source: text };
}

/** A default as the file would have it; lists and maps are empty. */
export type BuiltIn = string | number | boolean | readonly never[] | Readonly<Record<string, never>>;

/** A default of the table as a node. */
export function builtInNode(name: string, value: BuiltIn): Node {
  const place: Place = { built_in: true };
  if (typeof value !== "object") return { kind: "scalar", name, place, value, source: String(value) };
  return Array.isArray(value) ? { kind: "list", name, place, items: [] } : { kind: "map", name, place, entries: [] };
}
