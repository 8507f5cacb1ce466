/**
 * Makes text of unknown origin safe to show on a terminal.
 *
 * Names in error messages, rows of a database and notes of a checkpoint
 * may hold escape sequences that repaint the screen, rewrite the title or answer
 * as if typed, direction overrides that reorder what is read, characters that are not
 * seen, and letters that pose as Latin ones. Each is replaced by a visible escape, so
 * that what is read is what a program would read.
 */

import { replaceHidden, replaceOdd } from "./characters.ts";

function escapeChar(char: string): string {
  if (char === "\n") return "\\n";
  if (char === "\t") return "\\t";
  if (char === "\r") return "\\r";
  const code = char.codePointAt(0)!;
  if (code <= 0xff) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code <= 0xffff ? `\\u${code.toString(16).padStart(4, "0")}` : `\\u{${code.toString(16)}}`;
}

/**
 * `text` with an escape for every character that is not seen, and for letters of other alphabets within a Latin word;
 * newlines and tabs stay.
 */
export function sanitizeText(text: string): string {
  return replaceOdd(text, escapeChar);
}

/** Like {@linkcode sanitizeText}, and on one line: newlines and tabs are escaped as well. */
export function sanitizeLine(text: string): string {
  return sanitizeText(text).replace(/[\n\t]/g, escapeChar);
}

/** A backslash that would be read as the beginning of an escape. */
const LIKE_ESCAPE = /\\(?=x[0-9a-f]{2}|u[0-9a-f]{4}|u\{[0-9a-f]+\})/gi;

/**
 * Like {@linkcode sanitizeLine}, and another line for each text: what looks like an escape is one, because a backslash that
 * could be taken for its beginning is escaped itself. For what a person decides by, and once: a second time escapes the
 * escapes.
 */
export function exactLine(text: string): string {
  const spelled = text.replace(LIKE_ESCAPE, "\\x5c");
  return sanitizeText(spelled.replace(/[\n\t\r]/g, (char) => `\\x0${char.charCodeAt(0).toString(16)}`));
}

/**
 * JSON text with the characters that are not seen as `\\u` escapes: the same value to a program, and harmless
 * when it ends up on a terminal.
 */
export function escapeJson(json: string): string {
  return replaceHidden(
    json,
    (char) => char.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""),
  );
}
