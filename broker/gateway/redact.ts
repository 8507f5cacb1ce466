/**
 * Replaces a secret by asterisks in bytes that pass, wherever it stands, however the bytes are cut and whatever writes
 * its characters: as they are, as escapes of JSON, URLs or HTML and one over the other, all of it in base64 or hex, in
 * lines or with blanks too. The length stays, so that lengths that were announced stay true. Only what could be the beginning of the secret is held back until the next
 * bytes decide.
 */

import { Buffer } from "node:buffer";
import { concat } from "../../lib/concat.ts";

const BLOT = 0x2a;
const NOTHING = Buffer.alloc(0);
const [BACKSLASH, PERCENT, AMPERSAND, SLASH, SMALL_U, SEMICOLON] = [0x5c, 0x25, 0x26, 0x2f, 0x75, 0x3b];
/** Escapes that are themselves escaped gather backslashes. */
const MAX_BACKSLASHES = 16;
/** Times that an escape of URLs or HTML is escaped in its own way once more. */
const MAX_LAYERS = 3;
/** An entity may have zeros before its number. */
const MAX_ENTITY = 16;
const MAX_ESCAPE = MAX_BACKSLASHES + 5 + MAX_LAYERS * 4 + MAX_ENTITY;
/** Characters between two of a packed secret, in the mean, up to which it is waited for. */
const MAX_APART = 16;
/** The fewest characters of a secret in base64 that cannot be anything else. */
const MIN_PACKED = 12;

/** Secrets in the spellings that are looked for; made once for many answers. */
export class SecretForms {
  readonly secrets: readonly string[];
  /** Spellings that are looked for as they are. */
  readonly literals: readonly string[];
  /** Spellings that are looked for where what parts them is left out. */
  readonly parted: readonly Parted[];
  readonly longest: number;
  /** The same in small letters, for names. */
  readonly small: Pick<SecretForms, "secrets" | "literals" | "parted">;

  constructor(secrets: readonly string[]) {
    const bytes = secrets.filter((secret) => secret !== "").map((secret) => Buffer.from(secret));
    this.secrets = bytes.map((secret) => secret.toString("latin1"));
    this.literals = bytes.flatMap((secret) => [secret.toString("latin1"), ...inBase64(secret), ...inHex(secret)]);
    this.parted = [
      { between: BETWEEN_BASE64, any_case: false, literals: bytes.flatMap(inBase64) },
      { between: BETWEEN_HEX, any_case: true, literals: bytes.flatMap((secret) => inHex(secret).slice(0, 1)) },
    ];
    this.longest = Math.max(0, ...this.literals.map(({ length }) => length));
    const small = (texts: readonly string[]) => texts.map((text) => text.toLowerCase());
    this.small = { secrets: small(this.secrets), literals: small(this.literals), parted: [] };
  }
}

/** Bytes are searched as text of one character each: engines do that ten times as fast. */
export class Redactor {
  readonly #forms: SecretForms;
  /** The end of what came, as it came and as it passes: a secret may begin in another one's end. */
  #held: { raw: Buffer; clean: Buffer } = { raw: NOTHING, clean: NOTHING };

  constructor(forms: SecretForms) {
    this.#forms = forms;
  }

  /** The next bytes that may pass; possibly none. */
  push(bytes: Uint8Array): Uint8Array {
    const came = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const { raw, clean } = this.#held;
    const buffer = raw.length === 0 ? came : joined(raw, came);
    const text = buffer.toString("latin1");
    const ranges = rangesOf(text, this.#forms, false);
    const shown = ranges.length === 0 && raw.length === 0 ? came : joined(clean, came);
    for (const [start, end] of ranges) shown.fill(BLOT, start, end);
    const passing = buffer.length - this.#beginning(text);
    if (passing === buffer.length) this.#held = { raw: NOTHING, clean: NOTHING };
    else this.#held = { raw: Buffer.from(buffer.subarray(passing)), clean: Buffer.from(shown.subarray(passing)) };
    return shown.subarray(0, passing);
  }

  end(): Uint8Array {
    const { raw, clean } = this.#held;
    this.#held = { raw: NOTHING, clean: NOTHING };
    for (const [start, end] of rangesOf(raw.toString("latin1"), this.#forms, true)) clean.fill(BLOT, start, end);
    return clean;
  }

  /** A header's value; its characters are bytes. */
  text(text: string): string {
    const ranges = rangesOf(text, this.#forms, true);
    if (ranges.length === 0) return text;
    const bytes = Buffer.from(text, "latin1");
    for (const [start, end] of ranges) bytes.fill(BLOT, start, end);
    return bytes.toString("latin1");
  }

  /** Whether a header's name has it; names are compared without regard to case. */
  hasSecret(name: string): boolean {
    return rangesOf(name.toLowerCase(), this.#forms.small, true).length > 0;
  }

  /** How many characters at the end could begin a secret. */
  #beginning(text: string): number {
    let held = 0;
    for (const literal of this.#forms.literals) held = Math.max(held, text.length - beginningOf(text, literal));
    for (const parted of this.#forms.parted) {
      const thin = new Thin(text.slice(-this.#forms.longest * (MAX_APART + 1)), parted);
      for (const literal of parted.literals) {
        const at = beginningOf(thin.text, literal);
        if (at < thin.text.length) held = Math.max(held, thin.raw.length - thin.rawAt(at));
      }
    }
    const far = text.slice(-this.#forms.longest * MAX_ESCAPE);
    const end = /[\\%&]/.test(far) ? far : text.slice(-this.#forms.longest);
    for (const secret of this.#forms.secrets) {
      const first = secret.charCodeAt(0);
      for (let at = 0; at < end.length - held; at++) {
        if (begins(end.charCodeAt(at), first) && escapedEnd(end, at, secret, false) === UNDECIDED) {
          held = end.length - at;
        }
      }
    }
    return held;
  }
}

/** Where the first possible beginning of `literal` at the end of a text is; the text's length if there is none. */
function beginningOf(text: string, literal: string): number {
  let at = text.indexOf(literal[0]!, Math.max(0, text.length - literal.length + 1));
  while (at >= 0 && !literal.startsWith(text.slice(at))) at = text.indexOf(literal[0]!, at + 1);
  return at < 0 ? text.length : at;
}

/** Spellings whose characters something may stand between. */
interface Parted {
  readonly between: RegExp;
  readonly any_case: boolean;
  readonly literals: readonly string[];
}

/** Ends of lines, escaped or not; a backslash at the end may become one. */
const BETWEEN_BASE64 = /[\r\n\t ]+|\\+(?:[nr]|$)/g;
const BETWEEN_HEX = /[\s:,\\xnr]+/gi;

/** A text without what parts the characters of a spelling. */
class Thin {
  readonly raw: string;
  readonly text: string;
  readonly #between: RegExp;
  /** What was left out: where, and how much up to there. */
  #cuts: { start: number; end: number; before: number }[] | undefined;

  constructor(raw: string, { between, any_case }: Parted) {
    this.raw = raw;
    this.#between = between;
    const text = raw.replace(between, "");
    this.text = any_case ? text.toLowerCase() : text;
  }

  rawAt(index: number): number {
    // A few are asked for, in a text that has a secret or ends like one.
    let [low, high] = [0, this.#found().length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const { start, before } = this.#found()[middle]!;
      if (start - before <= index) low = middle + 1;
      else high = middle;
    }
    const last = this.#found()[low - 1];
    return last === undefined ? index : index + last.before + last.end - last.start;
  }

  /** The parts of the raw text that `length` characters at `index` were. */
  *pieces(index: number, length: number): Generator<[number, number]> {
    for (let at = index; at < index + length; at++) {
      const raw = this.rawAt(at);
      yield [raw, raw + 1];
    }
  }

  #found(): { start: number; end: number; before: number }[] {
    if (this.#cuts !== undefined) return this.#cuts;
    this.#cuts = [];
    let before = 0;
    for (const { index, 0: { length } } of this.raw.matchAll(this.#between)) {
      this.#cuts.push({ start: index, end: index + length, before });
      before += length;
    }
    return this.#cuts;
  }
}

function rangesOf(
  text: string,
  { secrets, literals, parted }: Pick<SecretForms, "secrets" | "literals" | "parted">,
  is_end: boolean,
): [number, number][] {
  const ranges: [number, number][] = [];
  for (const literal of literals) {
    for (let at = text.indexOf(literal); at >= 0; at = text.indexOf(literal, at + 1)) {
      ranges.push([at, at + literal.length]);
    }
  }
  for (const form of parted) {
    const thin = new Thin(text, form);
    if (thin.text.length === text.length && !form.any_case) continue;
    for (const literal of form.literals) {
      for (let at = thin.text.indexOf(literal); at >= 0; at = thin.text.indexOf(literal, at + literal.length)) {
        ranges.push(...thin.pieces(at, literal.length));
      }
    }
  }
  if (!/\\[u/]|[%&]/.test(text)) return ranges;
  for (const secret of secrets) {
    const first = secret.charCodeAt(0);
    for (let at = 0; at < text.length; at++) {
      if (!begins(text.charCodeAt(at), first)) continue;
      const end = escapedEnd(text, at, secret, is_end);
      if (end > 0) ranges.push([at, end]);
    }
  }
  return ranges;
}

function begins(code: number, first: number): boolean {
  return code === first || code === BACKSLASH || code === PERCENT || code === AMPERSAND;
}

const NO_MATCH = -1;
const UNDECIDED = -2;

/** Where the secret ends whose characters begin at `at`, escaped or not; {@linkcode UNDECIDED} if the text does. */
function escapedEnd(text: string, at: number, secret: string, is_end: boolean): number {
  for (let index = 0; index < secret.length; index++) {
    at = charEnd(text, at, secret.charCodeAt(index), is_end);
    if (at < 0) return at;
  }
  return at;
}

function charEnd(text: string, at: number, char: number, is_end: boolean): number {
  if (at === text.length) return UNDECIDED;
  const code = text.charCodeAt(at);
  if (code === char) return at + 1;
  if (code === PERCENT) return percentEnd(text, at + 1, char);
  if (code === AMPERSAND) return entityEnd(text, at + 1, char, is_end);
  if (code !== BACKSLASH) return NO_MATCH;
  let after = at + 1;
  while (text.charCodeAt(after) === BACKSLASH && after - at < MAX_BACKSLASHES) after++;
  if (after === text.length) return UNDECIDED;
  if (text.charCodeAt(after) === SLASH && char === SLASH) return after + 1;
  if (text.charCodeAt(after) !== SMALL_U) return NO_MATCH;
  const end = hexEnd(text, after + 1, 4, char);
  if (end !== NO_MATCH) return end;
  // What begins an escape of another kind may be escaped itself.
  const percent = hexEnd(text, after + 1, 4, PERCENT);
  if (percent !== NO_MATCH) return percent < 0 ? percent : percentEnd(text, percent, char);
  const ampersand = hexEnd(text, after + 1, 4, AMPERSAND);
  return ampersand < 0 ? ampersand : entityEnd(text, ampersand, char, is_end);
}

/** After a percent sign, which may be written as `%25` in its turn. */
function percentEnd(text: string, at: number, char: number): number {
  for (let layer = 0; layer <= MAX_LAYERS; layer++) {
    const end = hexEnd(text, at, 2, char);
    if (end !== NO_MATCH) return end;
    at = hexEnd(text, at, 2, PERCENT);
    if (at < 0) return at;
  }
  return NO_MATCH;
}

function hexEnd(text: string, at: number, digits: number, char: number): number {
  const expected = char.toString(16).padStart(digits, "0");
  const found = text.slice(at, at + digits).toLowerCase();
  if (!expected.startsWith(found)) return NO_MATCH;
  return found.length < digits ? UNDECIDED : at + digits;
}

/** Names of what stands in keys; two of them are of characters that look the same. */
const ENTITIES: Readonly<Record<string, readonly string[]>> = {
  "-": ["hyphen", "dash", "minus"],
  "_": ["lowbar", "UnderBar"],
  ".": ["period"],
  "/": ["sol"],
  "+": ["plus"],
  "=": ["equals"],
  ":": ["colon"],
  "@": ["commat"],
  "$": ["dollar"],
  "&": ["amp"],
};

/** After an ampersand, which may be written as `&amp;` in its turn. A number needs no semicolon. */
function entityEnd(text: string, at: number, char: number, is_end: boolean): number {
  for (let layer = 0; layer < MAX_LAYERS && char !== AMPERSAND && text.startsWith("amp;", at); layer++) at += 4;
  const entity = text.slice(at, at + MAX_ENTITY);
  const is_open = at + entity.length === text.length;
  const [start, x, zeros] = /^#(x?)(0*)/i.exec(entity) ?? [];
  if (start === undefined || x === undefined || zeros === undefined) {
    for (const name of ["amp", ...ENTITIES[String.fromCharCode(char)] ?? []]) {
      if (entity.startsWith(`${name};`)) return name === "amp" && char !== AMPERSAND ? NO_MATCH : at + name.length + 1;
      if (is_open && `${name};`.startsWith(entity)) return UNDECIDED;
    }
    return is_open && entity === "" ? UNDECIDED : NO_MATCH;
  }
  const expected = char.toString(x === "" ? 10 : 16);
  const found = entity.slice(start.length, start.length + expected.length).toLowerCase();
  if (found !== expected) return is_open && expected.startsWith(found) ? UNDECIDED : NO_MATCH;
  const end = at + start.length + found.length;
  if (text.charCodeAt(end) === SEMICOLON) return end + 1;
  return end === text.length && !is_end ? UNDECIDED : end;
}

function inHex(secret: Buffer): string[] {
  const hex = secret.toString("hex");
  return [...new Set([hex, hex.toUpperCase()])].filter(({ length }) => length >= MIN_PACKED);
}

/** The characters of base64 that a secret decides at each of the three places it can begin at. */
function inBase64(secret: Buffer): string[] {
  const forms = new Set<string>();
  for (let before = 0; before < 3; before++) {
    const bytes = joined(new Uint8Array(before), secret);
    const [from, to] = [Math.ceil(before * 8 / 6), Math.floor(bytes.length * 8 / 6)];
    for (const alphabet of ["base64", "base64url"] as const) forms.add(bytes.toString(alphabet).slice(from, to));
  }
  return [...forms].filter(({ length }) => length >= MIN_PACKED);
}

/** A copy of both. */
function joined(first: Uint8Array, second: Uint8Array): Buffer {
  return Buffer.from(concat([first, second]).buffer);
}
