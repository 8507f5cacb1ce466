/**
 * Characters that a reader would not see, or that move what they do see: each is shown as its number in a box. Names,
 * diffs and output all pass through here, so that a change reads as what a compiler or a shell would read.
 */

import { elWith, type PageNode } from "./dom.ts";

/** Control, direction, zero-width and filler characters, tags and variation selectors, and spaces that are not U+0020. */
const HIDDEN =
  // deno-lint-ignore no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]/gu;

const WORD = /[\p{L}\p{M}\p{N}_]+/gu;
const LATIN = /\p{scx=Latin}/u;
const LATIN_LOOKALIKE = /[\p{scx=Cyrillic}\p{scx=Greek}]/u;
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** What some of them do, for the tooltip. */
const EFFECTS: Readonly<Record<number, string>> = {
  0x0d: "carriage return",
  0x1b: "escape",
  0xa0: "no-break space",
  0xad: "soft hyphen",
  0x200b: "zero-width space",
  0x200c: "zero-width non-joiner",
  0x200d: "zero-width joiner",
  0x202a: "begins left-to-right text",
  0x202b: "begins right-to-left text",
  0x202c: "ends a change of direction",
  0x202d: "forces left-to-right",
  0x202e: "forces right-to-left",
  0x2066: "isolates left-to-right text",
  0x2067: "isolates right-to-left text",
  0x2068: "isolates text",
  0x2069: "ends an isolation",
  0xfeff: "byte order mark",
};

/** A stretch of text that is not shown as it is. */
export interface Oddity {
  start: number;
  end: number;
  kind: "hidden" | "mixed";
}

/** Where `text` has hidden characters, and words that mix letters of alphabets that look alike; in order. */
export function oddities(text: string): Oddity[] {
  const found: Oddity[] = [];
  const mixes = LATIN_LOOKALIKE.test(text) && LATIN.test(text);
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

/** Whether `text` has letters of a script that is written from right to left. */
export function runsRightToLeft(text: string): boolean {
  return RIGHT_TO_LEFT.test(text);
}

/** `U+202E` and the like. */
function codePoint(char: string): string {
  return `U+${char.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`;
}

export function oddElement(text: string, { kind }: Oddity): PageNode {
  if (kind === "mixed") return elWith("mark.mixed", { title: "This word mixes alphabets that look alike" }, text);
  const effect = EFFECTS[text.codePointAt(0)!];
  const name = codePoint(text);
  return elWith("mark.hid", { title: effect === undefined ? `${name}, not visible` : `${name}: ${effect}` }, name);
}

/** `text` with everything hidden made visible; newlines and tabs stay. */
export function shown(text: string): (PageNode | string)[] {
  const parts: (PageNode | string)[] = [];
  let at = 0;
  for (const odd of oddities(text)) {
    if (odd.start > at) parts.push(text.slice(at, odd.start));
    parts.push(oddElement(text.slice(odd.start, odd.end), odd));
    at = odd.end;
  }
  if (at < text.length) parts.push(text.slice(at));
  return parts;
}

/** Like {@linkcode shown}, and on one line. */
export function shownLine(text: string): (PageNode | string)[] {
  return text.split(/([\n\t])/).flatMap((part) =>
    part === "\n" || part === "\t" ? [oddElement(part, { start: 0, end: 1, kind: "hidden" })] : shown(part)
  );
}
