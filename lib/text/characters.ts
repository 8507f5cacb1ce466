/**
 * Characters that a reader does not see, or takes for others: the one table, for terminals and pages alike. Browsers load
 * this file as it is, so it imports nothing.
 *
 * What is visible is said, not what is hidden: whatever the engine's Unicode does not know as a letter, mark, number,
 * sign or punctuation is hidden, so that a character that is new, private or unassigned is never passed as blank.
 */

/** What Unicode calls visible and fonts draw as nothing: Braille's blank, an object's place, empty note and glyph, filler. */
const BLANKS = "\\u2800\\ufffc\\u{1d159}\\u{13441}\\u{13442}\\u{16fe4}";
/** Not a visible character, a plain space, a newline or a tab; or one that may be drawn as nothing (UAX #44, UTS #51). */
const HIDDEN = new RegExp(
  `[^\\p{L}\\p{M}\\p{N}\\p{P}\\p{S} \\n\\t]|[\\p{Default_Ignorable_Code_Point}${BLANKS}]`,
  "gu",
);

// deno-lint-ignore no-control-regex
const NOT_ASCII = /[^\u0000-\u007f]/;
const WORD = /[\p{L}\p{M}\p{N}_]+/gu;
const LATIN = /\p{sc=Latin}/u;
/** Alphabets some of whose letters look Latin. */
const LATIN_LOOKALIKE =
  /[\p{sc=Cyrillic}\p{sc=Greek}\p{sc=Armenian}\p{sc=Georgian}\p{sc=Cherokee}\p{sc=Coptic}\p{sc=Lisu}]/u;

/** Scripts in everyday use (UAX #31, table 5); the last is how East Asian names are written, with Latin letters too. */
const SCRIPTS: readonly RegExp[] = [
  ..."Latin Arabic Armenian Bengali Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi Hebrew Kannada Khmer Lao \
Malayalam Myanmar Oriya Sinhala Tamil Telugu Thaana Thai Tibetan".split(" ").map((script) => [script]),
  "Latin Han Hiragana Katakana Bopomofo Hangul".split(" "),
].map((scripts) => {
  const letters = [...scripts, "Common", "Inherited"].map((script) => `\\p{scx=${script}}`).join("");
  return new RegExp(`^[${letters}\\P{L}]*$`, "u");
});

/** ASCII, each with what looks like it: confusables.txt of UTS #39, 17.0, without what NFKC maps to it and what is usual. */
const LOOKALIKES: ReadonlyMap<string, string> = new Map(
  `!1c3 -2010,2011,2012,2043,2d7,2212,2796 /1735,2041,2215,2044,2571,27cb,29f8,31d3,3033 2a75a,1a7,a644 \
3a7ab,21c,1b7,a76a,417,4e0 51bc 6431 8223,222 9a76e :16ec,1803,205a,2f8,2236,2d0 ?294,241 A391,410 Ba7b4,392,412 \
C3f9,421 E395,415 Fa798,3dc G50c H397,41d Ja7b2,37f,408 K39a,41a M39c,3fa,41c N39d O39f,41e,555 P3a1,420 R1a6 S405,54f \
T3a4,422 U54d V474 W51c Xa7b3,3a7,425 Y3a5,3d2,423,4ae Z396 \\2216,27cd,29f5,29f9,31d4 a251,3b1,430 b184,42c \
c1d04,3f2,441 d501 eab32,435,4bd fab35,a799,192,1e9d,584 g261,1d83,18d,581 h4bb,570 \
i131,26a,269,3b9,1fbe,37a,456,a647,582 j3f3,458 l196,1c0,399,406,4cf,4c0,5d5,5df n578,57c \
o1d0f,1d11,ab3d,3bf,3c3,43e,10ff,585,5e1 pfe,1bf,3c1,3f1,3f8,440 q51b,563,566 rab47,ab48,1d26,433 sa731,1bd,455 \
ua79f,1d1c,ab4e,ab52,28b,3c5,57d v1d20,3bd,475,5d8 w26f,1d21,461,448,51d,561 x445 y263,1d8c,28f,1eff,ab5a,3b3,443,4af,10e7 \
z1d22`.split(" ").flatMap((row) =>
    row.slice(1).split(",").map((hex): [string, string] => [String.fromCodePoint(parseInt(hex, 16)), row[0]!])
  ),
);

/** A stretch of text that is not shown as it is. */
export interface Oddity {
  start: number;
  end: number;
  /** A character that is not seen, or a word that mixes alphabets that look alike. */
  kind: "hidden" | "mixed";
}

/** Where `text` has hidden characters, and words that mix letters of alphabets that look alike; in order and apart. */
export function oddities(text: string): Oddity[] {
  const found: Oddity[] = [];
  const mixes = NOT_ASCII.test(text) && LATIN_LOOKALIKE.test(text) && LATIN.test(text);
  let at = 0;
  for (const { index, 0: match } of text.matchAll(HIDDEN)) {
    if (mixes) found.push(...mixedWords(text, at, index));
    at = index + match.length;
    found.push({ start: index, end: at, kind: "hidden" });
  }
  if (mixes) found.push(...mixedWords(text, at, text.length));
  return found;
}

function mixedWords(text: string, from: number, to: number): Oddity[] {
  return [...text.slice(from, to).matchAll(WORD)]
    .filter(({ 0: word }) => LATIN_LOOKALIKE.test(word) && LATIN.test(word))
    .map(({ index, 0: word }) => ({ start: from + index, end: from + index + word.length, kind: "mixed" }));
}

/** `text` with every hidden character, and every letter that may pose as a Latin one beside it, as `replace` has it. */
export function replaceOdd(text: string, replace: (char: string) => string): string {
  const seen = text.replace(HIDDEN, replace);
  if (!NOT_ASCII.test(seen) || !LATIN_LOOKALIKE.test(seen)) return seen;
  return seen.replace(
    WORD,
    (word) =>
      LATIN.test(word) ? word.replace(/\p{L}/gu, (char) => LATIN_LOOKALIKE.test(char) ? replace(char) : char) : word,
  );
}

/** `text` with every hidden character as `replace` has it. */
export function replaceHidden(text: string, replace: (char: string) => string): string {
  return text.replace(HIDDEN, replace);
}

/** What a name looks like, in lower case: names with one skeleton are taken for one another (UTS #39). */
export function skeleton(name: string): string {
  return NOT_ASCII.test(name) ? asciiOf(name).toLowerCase() : name.toLowerCase();
}

function asciiOf(text: string): string {
  return text.normalize("NFKC").replace(/[^\0-\x7f]/gu, (char) => LOOKALIKES.get(char) ?? char).normalize("NFKC");
}

/** A character beyond ASCII as RFC 3629 has its bytes, or one byte of anything else; U+FFFD, which stands for those. */
const PATH_BYTES =
  /\xef\xbf\xbd|[\xc2-\xdf][\x80-\xbf]|(?:\xe0[\xa0-\xbf]|\xed[\x80-\x9f]|[\xe1-\xec\xee\xef][\x80-\xbf])[\x80-\xbf]|(?:\xf0[\x90-\xbf]|[\xf1-\xf3][\x80-\xbf]|\xf4[\x80-\x8f])[\x80-\xbf]{2}|[\x80-\xff]/g;

/**
 * A path as text, another one for each path: a byte that is no UTF-8 becomes U+FFFD and its hex, and so does U+FFFD.
 *
 * @param raw One character (U+0000 to U+00FF) per byte.
 */
export function pathText(raw: string): string {
  if (!NOT_ASCII.test(raw)) return raw;
  const replacement = "\xef\xbf\xbd";
  const shown = raw.replace(PATH_BYTES, (bytes) => {
    if (bytes.length > 1 && bytes !== replacement) return bytes;
    return bytes.replace(/[^]/g, (byte) => replacement + byte.charCodeAt(0).toString(16));
  });
  const bytes = Uint8Array.from(shown, (byte) => byte.charCodeAt(0));
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

/** What stands for bytes from 0x80 on in {@linkcode contentText}, as PEP 383 has it; no text that is UTF-8 has it. */
const BYTES_FROM = 0xdc00;

/**
 * Content as text, another one for each content: a byte that is no UTF-8 becomes the lone surrogate U+DC80 to U+DCFF,
 * which is hidden like all that is no character, so it is shown as an escape or in a box.
 */
export function contentText(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    // Line by line: nearly all of them are UTF-8.
    let text = "";
    for (let at = 0; at < bytes.length;) {
      const end = bytes.indexOf(10, at) + 1 || bytes.length;
      text += lineText(bytes.subarray(at, end));
      at = end;
    }
    return text;
  }
}

function lineText(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    const raw = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
    return raw.replace(PATH_BYTES, (part) => {
      if (part.length === 1) return String.fromCharCode(BYTES_FROM + part.charCodeAt(0));
      return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(part, (byte) => byte.charCodeAt(0)));
    });
  }
}

/** The byte that a character of {@linkcode contentText} stands for; undefined for every other. */
export function byteOf(char: string): number | undefined {
  const byte = char.charCodeAt(0) - BYTES_FROM;
  return char.length === 1 && byte >= 0x80 && byte <= 0xff ? byte : undefined;
}

/** `U+202E` and the like. */
export function codePoint(char: string): string {
  return `U+${char.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Why a path may not be what it looks like; undefined for one that is. */
export function nameOddity(path: string): string | undefined {
  const hidden = path.match(HIDDEN)?.[0] ?? /[\n\t]/.exec(path)?.[0];
  if (hidden !== undefined) return `has ${codePoint(hidden)}, which is not seen`;
  if (path.includes("\\")) return "has a backslash, which separates names on Windows";
  if (path.includes("\ufffd")) return "is not UTF-8";
  if (/(?:^|\/) | (?:\/|$)/.test(path)) return "has a space at an end";
  if (!NOT_ASCII.test(path)) return undefined;
  for (const name of path.normalize("NFC").split("/")) {
    const mixed = name.match(WORD)?.find((word) => !SCRIPTS.some((script) => script.test(word)));
    if (mixed !== undefined) return `mixes alphabets: ${mixed}`;
    const foreign = name.match(/[^\0-\x7f]/gu) ?? [];
    // A word of another alphabet has other letters as well: only one that could be read as ASCII is a pretence.
    const letters = foreign.filter((char) => /\p{L}/u.test(char) && asciiOf(char) === char || LOOKALIKES.has(char));
    const poses = letters.length > 0 && letters.every((char) => LOOKALIKES.has(char));
    if (poses || foreign.some(isAsciiSign)) return `could be read as ${asciiOf(name)}`;
  }
  return undefined;
}

/** Whether a character that is no letter of an alphabet looks like one of ASCII: a slash, a digit in a circle. */
function isAsciiSign(char: string): boolean {
  return !(LOOKALIKES.has(char) && /\p{L}/u.test(char)) && /^[\x21-\x7e]+$/.test(asciiOf(char));
}
