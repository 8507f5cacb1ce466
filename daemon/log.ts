/**
 * The daemon's log: one line for each thing that happened, for a person and for grep.
 *
 * @module
 */

/** Takes one entry; never throws. */
export type Log = (entry: string) => void;

/** Longest entry in characters: a defect's stack, or a library's message about a file that was not one. */
const MAX_ENTRY_LENGTH = 4000;

/** A log that writes `<time> <entry>` lines to `write`, line breaks and control characters made visible. */
export function lineLog(write: (line: string) => void, now: () => number): Log {
  return (entry) => {
    const text = entry.length > MAX_ENTRY_LENGTH ? `${entry.slice(0, MAX_ENTRY_LENGTH)}...` : entry;
    // deno-lint-ignore no-control-regex
    const visible = text.replace(/[\x00-\x1f\x7f-\x9f]/g, (c) => c === "\n" ? "\\n" : `\\x${hexOf(c)}`);
    write(`${new Date(now()).toISOString()} ${visible}`);
  };
}

function hexOf(character: string): string {
  return character.charCodeAt(0).toString(16).padStart(2, "0");
}
