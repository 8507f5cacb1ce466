/**
 * JSON that can be read in one way only. Two parsers may pick different values of a duplicate key, and what one checked
 * would not be what the other does; so duplicates are refused at any depth, however the keys are escaped. So are numbers
 * that no float holds, and strings that are no text: half of a surrogate pair.
 */

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
}

/**
 * The value of JSON in UTF-8, or of JSON text.
 *
 * @throws {InvalidJson}
 */
export function parseStrictJson(json: Uint8Array | string, options: StrictJsonOptions = {}): unknown {
  const text = typeof json === "string" ? json : decode(json);
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

/** A number behind its sign. */
const NUMBER = /\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

function check(text: string, { any_text = false }: StrictJsonOptions): void {
  // The keys of the open objects; undefined for an open array.
  const open: (Set<string> | undefined)[] = [];
  const path: string[] = [];
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x22: {
        const end = stringEnd(text, at);
        const keys = open.at(-1);
        const is_key = keys !== undefined && isKey(text, end);
        if (is_key || !any_text) {
          const raw = text.slice(at + 1, end);
          const string = raw.includes("\\") ? String(JSON.parse(`"${raw}"`)) : raw;
          if (!any_text && !string.isWellFormed()) throw new InvalidJson("has half of a surrogate pair in a string");
          if (is_key) addKey(string, keys, path, open.length);
        }
        at = end;
        break;
      }
      case 0x7b:
        open.push(new Set());
        path.push("");
        break;
      case 0x5b:
        open.push(undefined);
        path.push("[]");
        break;
      case 0x7d:
      case 0x5d:
        open.pop();
        path.pop();
        break;
      default:
        if (isDigit(text.charCodeAt(at))) at = numberEnd(text, at);
    }
    if (open.length > MAX_JSON_DEPTH) throw new InvalidJson(`is nested deeper than ${MAX_JSON_DEPTH} levels`);
  }
}

function addKey(key: string, keys: Set<string>, path: string[], depth: number): void {
  path[depth - 1] = key;
  if (keys.has(key)) {
    const field = path.slice(0, depth).join(".").slice(0, 200);
    throw new InvalidJson(`has the key ${JSON.stringify(field)} twice`, field);
  }
  keys.add(key);
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

/** Index of the last character of the number that begins at `at`. */
function numberEnd(text: string, at: number): number {
  NUMBER.lastIndex = at;
  const [number = "0"] = NUMBER.exec(text) ?? [];
  if (!Number.isFinite(Number(number))) throw new InvalidJson("has a number that is too large");
  return at + number.length - 1;
}

/** Index of the quote that closes the string that opens at `at`. */
function stringEnd(text: string, at: number): number {
  for (let end = text.indexOf('"', at + 1);; end = text.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(end - 1 - backslashes) === 0x5c) backslashes++;
    if (backslashes % 2 === 0) return end;
  }
}

/** Whether the string that closes at `end` is followed by a colon: in valid JSON, only keys are. */
function isKey(text: string, end: number): boolean {
  let next = end + 1;
  while (text.charCodeAt(next) <= 0x20) next++;
  return text.charCodeAt(next) === 0x3a;
}
