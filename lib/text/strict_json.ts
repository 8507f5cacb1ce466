/**
 * JSON that can be read in one way only. Two parsers may pick different values of a duplicate key, and what one checked
 * would not be what the other does; so duplicates are refused at any depth, however the keys are escaped. So are numbers
 * that no float holds, and strings that are no text: half of a surrogate pair.
 */

import { beyondLimits, stringEnd } from "./json_marks.ts";

/** Nesting that is accepted; deeper than any request of a client. */
export const MAX_JSON_DEPTH = 100;

/** What is wrong, to be put behind a subject: `has the key "a" twice`. It quotes no value, which may be a secret. */
export class InvalidJson extends Error {
  override name = "InvalidJson";
  /** The key that stands twice, with those above it. */
  readonly field: string | undefined;

  constructor(problem: string, field?: string) {
    super(problem);
    this.field = field;
  }
}

export interface StrictJsonOptions {
  /** Takes halves of surrogate pairs: programs that cut text where they like send them. */
  any_text?: boolean;
  /** The most marks `{`, `[`, `,` and `:` outside of strings; any number where it is left out. */
  max_marks?: number;
}

/**
 * The value of JSON in UTF-8, or of JSON text.
 *
 * @throws {InvalidJson}
 */
export function parseStrictJson(json: Uint8Array | string, options: StrictJsonOptions = {}): unknown {
  const text = typeof json === "string" ? json : decode(json);
  // Before anything is made of it.
  const { max_marks = Infinity } = options;
  switch (beyondLimits(text, { max_marks, max_depth: MAX_JSON_DEPTH })) {
    case "depth":
      throw new InvalidJson(`is nested deeper than ${MAX_JSON_DEPTH} levels`);
    case "marks":
      throw new InvalidJson(`has more than ${max_marks} opening brackets, commas and colons`);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    // V8's message would quote the text.
    const at = /position (\d+)/.exec(error instanceof Error ? error.message : "")?.[1];
    throw new InvalidJson(`is not JSON${at === undefined ? "" : `, at character ${at}`}`);
  }
  check(text, options);
  return value;
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new InvalidJson("is not UTF-8");
  }
}

const [QUOTE, COMMA, COLON] = [0x22, 0x2c, 0x3a];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Walks over the text once; it is valid JSON by now, so that a string is known for a key by the mark before it. */
function check(text: string, { any_text = false }: StrictJsonOptions): void {
  // The keys of the open objects; undefined for an open array.
  const open: (Set<string> | undefined)[] = [];
  let keys: Set<string> | undefined;
  let before = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    switch (code) {
      case QUOTE: {
        const end = stringEnd(text, at);
        const is_key = keys !== undefined && before !== COLON;
        if (is_key || !any_text) {
          const raw = text.slice(at + 1, end);
          const string = raw.includes("\\") ? String(JSON.parse(`"${raw}"`)) : raw;
          if (!any_text && !string.isWellFormed()) throw new InvalidJson("has half of a surrogate pair in a string");
          if (is_key && keys!.has(string)) throw twice(open, string);
          if (is_key) keys!.add(string);
        }
        at = end;
        break;
      }
      case COMMA:
      case COLON:
        before = code;
        break;
      case OPEN_OBJECT:
      case OPEN_LIST:
        keys = code === OPEN_OBJECT ? new Set() : undefined;
        open.push(keys);
        before = code;
        break;
      case CLOSE_OBJECT:
      case CLOSE_LIST:
        open.pop();
        keys = open.at(-1);
        break;
      default:
        if (isDigit(code)) at = numberEnd(text, at);
    }
  }
}

function twice(open: readonly (Set<string> | undefined)[], key: string): InvalidJson {
  const above = open.slice(0, -1).map((keys) => keys === undefined ? "[]" : [...keys].at(-1));
  const field = [...above, key].join(".").slice(0, 200);
  return new InvalidJson(`has the key ${JSON.stringify(field)} twice`, field);
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

/** Index of the last character of the number that begins at `at`. */
function numberEnd(text: string, at: number): number {
  let end = at;
  let has_exponent = false;
  for (let code = text.charCodeAt(end + 1); isPartOfNumber(code); code = text.charCodeAt(++end + 1)) {
    if (code === 0x65 || code === 0x45) has_exponent = true;
  }
  // A float holds every number of 300 digits.
  if ((has_exponent || end - at > 300) && !Number.isFinite(Number(text.slice(at, end + 1)))) {
    throw new InvalidJson("has a number that is too large");
  }
  return end;
}

function isPartOfNumber(code: number): boolean {
  return isDigit(code) || code === 0x2e || code === 0x65 || code === 0x45 || code === 0x2b || code === 0x2d;
}
