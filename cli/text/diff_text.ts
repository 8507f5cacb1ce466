/**
 * A unified diff for a terminal: every line made safe, and coloured by its kind.
 *
 * The lengths in a hunk's head decide a line's kind, not its first characters: a removed
 * line that reads `-- a/file` is not shown as the head of a file.
 */

import { exactLine } from "../../lib/text/sanitize.ts";

const HUNK = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/;

const BOLD = ["\x1b[1m", "\x1b[22m"] as const;
const CYAN = ["\x1b[36m", "\x1b[39m"] as const;
const GREEN = ["\x1b[32m", "\x1b[39m"] as const;
const RED = ["\x1b[31m", "\x1b[39m"] as const;
const PLAIN = ["", ""] as const;

/** `diff` with its control characters visible, without the last newline; in colour if `colours`. */
export function diffText(diff: string, colours: boolean): string {
  let [before, after] = [0, 0];
  const styleOf = (line: string) => {
    if (before <= 0 && after <= 0) {
      const hunk = HUNK.exec(line);
      if (hunk === null) return line.startsWith("\\") ? PLAIN : BOLD;
      [before, after] = [Number(hunk[1] ?? 1), Number(hunk[2] ?? 1)];
      return CYAN;
    }
    const sign = line.charAt(0);
    // `\ No newline at end of file` belongs to neither side.
    if (sign === "\\") return PLAIN;
    if (sign !== "+") before--;
    if (sign !== "-") after--;
    return sign === "+" ? GREEN : sign === "-" ? RED : PLAIN;
  };
  return diff.replace(/\n$/, "").split("\n").map((line) => {
    const [on, off] = styleOf(line);
    const shown = shownLine(line);
    return colours && shown !== "" ? `${on}${shown}${off}` : shown;
  }).join("\n");
}

/** Tabs stay: they are how code looks. */
function shownLine(line: string): string {
  return line.split("\t").map(exactLine).join("\t");
}
