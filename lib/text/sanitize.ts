/**
 * Makes text of unknown origin safe to show on a terminal.
 *
 * Names in error messages, rows of a database and notes of a checkpoint
 * may hold escape sequences that repaint the screen, rewrite the title or answer
 * as if typed, and direction overrides that reorder what is read. Each such
 * character is replaced by a visible escape, so that nothing is hidden either.
 */

// C0 (except tab and newline), DEL, C1, the line and paragraph separators, zero-width and direction controls, variation
// tags and the byte order mark.
const UNSAFE =
  // deno-lint-ignore no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

function escapeChar(char: string): string {
  if (char === "\n") return "\\n";
  if (char === "\t") return "\\t";
  if (char === "\r") return "\\r";
  const code = char.codePointAt(0)!;
  if (code <= 0xff) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code <= 0xffff ? `\\u${code.toString(16).padStart(4, "0")}` : `\\u{${code.toString(16)}}`;
}

/** `text` with every control and direction character shown as an escape; newlines and tabs stay. */
export function sanitizeText(text: string): string {
  return text.toWellFormed().replace(UNSAFE, escapeChar);
}

/** Like {@linkcode sanitizeText}, and on one line: newlines and tabs are escaped as well. */
export function sanitizeLine(text: string): string {
  return sanitizeText(text).replace(/[\n\t]/g, escapeChar);
}

/**
 * JSON text with the characters of {@linkcode sanitizeText} as `\\u` escapes: the same value to a program, and harmless
 * when it ends up on a terminal.
 */
export function escapeJson(json: string): string {
  return json.replace(
    UNSAFE,
    (char) => char.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""),
  );
}
