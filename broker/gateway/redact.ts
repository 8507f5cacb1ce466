/**
 * Replaces a secret by asterisks in bytes that pass, wherever it stands, however the bytes are cut and whatever writes
 * its characters: as they are, as escapes of JSON, URLs or HTML, all of it in base64 or hex. The length stays, so that
 * lengths that were announced stay true. Only what could be the beginning of the secret is held back until the next
 * bytes decide.
 */

import { Buffer } from "node:buffer";
import { concat } from "../../lib/concat.ts";

const BLOT = 0x2a;
const NOTHING = Buffer.alloc(0);
const [BACKSLASH, PERCENT, AMPERSAND, SLASH, SMALL_U] = [0x5c, 0x25, 0x26, 0x2f, 0x75];
/** Escapes that are themselves escaped gather backslashes. */
const MAX_BACKSLASHES = 16;
/** An entity may have zeros before its number. */
const MAX_ENTITY = 12;
const MAX_ESCAPE = MAX_BACKSLASHES + 5;
/** The fewest characters of a secret in base64 that cannot be anything else. */
const MIN_PACKED = 12;

/** Secrets in the spellings that are looked for; made once for many answers. */
export class SecretForms {
  readonly secrets: readonly string[];
  /** Spellings that are looked for as they are. */
  readonly literals: readonly string[];
  readonly longest: number;
  /** The same in small letters, for names. */
  readonly small: { readonly secrets: readonly string[]; readonly literals: readonly string[] };

  constructor(secrets: readonly string[]) {
    const bytes = secrets.filter((secret) => secret !== "").map((secret) => Buffer.from(secret));
    this.secrets = bytes.map((secret) => secret.toString("latin1"));
    this.literals = bytes.flatMap((secret) => [secret.toString("latin1"), ...packed(secret)]);
    this.longest = Math.max(0, ...this.literals.map(({ length }) => length));
    const small = (texts: readonly string[]) => texts.map((text) => text.toLowerCase());
    this.small = { secrets: small(this.secrets), literals: small(this.literals) };
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
    const ranges = rangesOf(text, this.#forms);
    const shown = ranges.length === 0 && raw.length === 0 ? came : joined(clean, came);
    for (const [start, end] of ranges) shown.fill(BLOT, start, end);
    const passing = buffer.length - this.#beginning(text);
    if (passing === buffer.length) this.#held = { raw: NOTHING, clean: NOTHING };
    else this.#held = { raw: Buffer.from(buffer.subarray(passing)), clean: Buffer.from(shown.subarray(passing)) };
    return shown.subarray(0, passing);
  }

  end(): Uint8Array {
    const { clean } = this.#held;
    this.#held = { raw: NOTHING, clean: NOTHING };
    return clean;
  }

  /** A header's value; its characters are bytes. */
  text(text: string): string {
    const ranges = rangesOf(text, this.#forms);
    if (ranges.length === 0) return text;
    const bytes = Buffer.from(text, "latin1");
    for (const [start, end] of ranges) bytes.fill(BLOT, start, end);
    return bytes.toString("latin1");
  }

  /** Whether a header's name has it; names are compared without regard to case. */
  hasSecret(name: string): boolean {
    return rangesOf(name.toLowerCase(), this.#forms.small).length > 0;
  }

  /** How many characters at the end could begin a secret. */
  #beginning(text: string): number {
    let held = 0;
    for (const literal of this.#forms.literals) {
      let at = text.indexOf(literal[0]!, Math.max(0, text.length - literal.length + 1));
      while (at >= 0 && !literal.startsWith(text.slice(at))) at = text.indexOf(literal[0]!, at + 1);
      if (at >= 0) held = Math.max(held, text.length - at);
    }
    const far = text.slice(-this.#forms.longest * MAX_ESCAPE);
    const end = /[\\%&]/.test(far) ? far : text.slice(-this.#forms.longest);
    for (const secret of this.#forms.secrets) {
      const first = secret.charCodeAt(0);
      for (let at = 0; at < end.length - held; at++) {
        if (begins(end.charCodeAt(at), first) && escapedEnd(end, at, secret) === UNDECIDED) held = end.length - at;
      }
    }
    return held;
  }
}

function rangesOf(text: string, { secrets, literals }: Pick<SecretForms, "secrets" | "literals">): [number, number][] {
  const ranges: [number, number][] = [];
  for (const literal of literals) {
    for (let at = text.indexOf(literal); at >= 0; at = text.indexOf(literal, at + 1)) {
      ranges.push([at, at + literal.length]);
    }
  }
  if (!/\\[u/]|%|&#/.test(text)) return ranges;
  for (const secret of secrets) {
    const first = secret.charCodeAt(0);
    for (let at = 0; at < text.length; at++) {
      if (!begins(text.charCodeAt(at), first)) continue;
      const end = escapedEnd(text, at, secret);
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
function escapedEnd(text: string, at: number, secret: string): number {
  for (let index = 0; index < secret.length; index++) {
    at = charEnd(text, at, secret.charCodeAt(index));
    if (at < 0) return at;
  }
  return at;
}

function charEnd(text: string, at: number, char: number): number {
  if (at === text.length) return UNDECIDED;
  const code = text.charCodeAt(at);
  if (code === char) return at + 1;
  if (code === PERCENT) return hexEnd(text, at + 1, 2, char);
  if (code === AMPERSAND) return entityEnd(text, at + 1, char);
  if (code !== BACKSLASH) return NO_MATCH;
  let after = at + 1;
  while (text.charCodeAt(after) === BACKSLASH && after - at < MAX_BACKSLASHES) after++;
  if (after === text.length) return UNDECIDED;
  if (text.charCodeAt(after) === SLASH && char === SLASH) return after + 1;
  return text.charCodeAt(after) === SMALL_U ? hexEnd(text, after + 1, 4, char) : NO_MATCH;
}

function hexEnd(text: string, at: number, digits: number, char: number): number {
  const expected = char.toString(16).padStart(digits, "0");
  const found = text.slice(at, at + digits).toLowerCase();
  if (!expected.startsWith(found)) return NO_MATCH;
  return found.length < digits ? UNDECIDED : at + digits;
}

function entityEnd(text: string, at: number, char: number): number {
  const entity = text.slice(at, at + MAX_ENTITY);
  const [whole, hex, decimal] = /^#(?:x([0-9a-f]+)|(\d+));/i.exec(entity) ?? [];
  if (whole !== undefined) {
    const code = hex === undefined ? Number(decimal) : parseInt(hex, 16);
    return code === char ? at + whole.length : NO_MATCH;
  }
  return entity.length < MAX_ENTITY && /^(?:#(?:x[0-9a-f]*|\d*)?)?$/i.test(entity) ? UNDECIDED : NO_MATCH;
}

/** A secret in hex, and the characters of base64 that it decides at each of the three places it can begin at. */
function packed(secret: Buffer): string[] {
  const hex = secret.toString("hex");
  const forms = new Set([hex, hex.toUpperCase()]);
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
