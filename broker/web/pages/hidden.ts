/**
 * Characters that a reader would not see, or that move what they do see: each is shown as its number in a box. Names,
 * diffs and output all pass through here, so that a change reads as what a compiler or a shell would read.
 */

import { byteOf, codePoint, oddities, type Oddity } from "../../../lib/text/characters.ts";
import { elWith, type PageNode } from "./dom.ts";

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

export function runsRightToLeft(text: string): boolean {
  return RIGHT_TO_LEFT.test(text);
}

export function oddElement(text: string, { kind }: Oddity): PageNode {
  if (kind === "mixed") return elWith("mark.mixed", { title: "This word mixes alphabets that look alike" }, text);
  const byte = byteOf(text)?.toString(16).toUpperCase();
  if (byte !== undefined) return elWith("mark.hid", { title: `The byte ${byte}, which is not UTF-8` }, `byte ${byte}`);
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
