/**
 * What JSON text would cost to parse, before it is: three characters become an object of fifty bytes, and a megabyte of
 * them takes a second. Counted are the marks outside of strings that begin a value.
 */

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

export interface JsonLimits {
  /** Of `{`, `[`, `,` and `:` together. */
  max_marks: number;
  max_depth: number;
}

/** The first limit that the text is beyond; text that is no JSON may be within them. */
export function beyondLimits(text: string, { max_marks, max_depth }: JsonLimits): "marks" | "depth" | undefined {
  let marks = 0;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = stringEnd(text, at);
        if (at < 0) return undefined;
        break;
      case OPEN_OBJECT:
      case OPEN_LIST:
        if (++depth > max_depth) return "depth";
        if (++marks > max_marks) return "marks";
        break;
      case COMMA:
      case COLON:
        if (++marks > max_marks) return "marks";
        break;
      case CLOSE_OBJECT:
      case CLOSE_LIST:
        depth--;
    }
  }
  return undefined;
}

/** Index of the quote that closes the string that opens at `at`; -1 where none does. */
export function stringEnd(text: string, at: number): number {
  for (let end = text.indexOf('"', at + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(end - 1 - backslashes) === BACKSLASH) backslashes++;
    if (backslashes % 2 === 0) return end;
  }
  return -1;
}
