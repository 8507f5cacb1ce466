/**
 * Reads a diff as git writes it. Lines are taken by the counts in a hunk's head, so no content can pose as the
 * head of another file; whatever is not understood is kept and shown as it is.
 */

import { pathText } from "../../../lib/text/characters.ts";

export interface DiffLine {
  kind: "context" | "added" | "deleted" | "note";
  /** Its number before; 0 where it was not. */
  before: number;
  /** Its number after; 0 where it is not. */
  after: number;
  text: string;
}

export interface Hunk {
  /** `@@ -1,2 +3,4 @@`. */
  range: string;
  /** What git says of the place, such as the function. */
  place: string;
  lines: DiffLine[];
}

export interface DiffFile {
  path: string;
  status: "added" | "deleted" | "modified" | "renamed" | "copied";
  binary: boolean;
  added: number;
  deleted: number;
  /** Changes of mode, and lines that were not understood. */
  notes: string[];
  hunks: Hunk[];
}

export interface Diff {
  files: DiffFile[];
  /** It is longer than what is here. */
  truncated: boolean;
  /** Lines before the first file; empty in what git writes. */
  preamble: string[];
}

const HUNK = /^(@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@) ?(.*)$/;
const ESCAPES: Readonly<Record<string, string>> = {
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
  '"': '"',
  "\\": "\\",
};

/** A path as git quotes it when it has to. */
export function unquote(quoted: string): string {
  if (!quoted.startsWith('"')) return quoted;
  let raw = "";
  const encoder = new TextEncoder();
  for (const [, octal, letter, plain] of quoted.slice(1, -1).matchAll(/\\([0-7]{3})|\\(.)|([^\\]+)/gsu)) {
    const plainly = letter === undefined ? plain : ESCAPES[letter] ?? `\\${letter}`;
    raw += String.fromCharCode(...octal === undefined ? encoder.encode(plainly) : [parseInt(octal, 8) & 0xff]);
  }
  return pathText(raw);
}

/** The path in `diff --git a/x b/x`, where both are the same; of what was moved, its own line has it. */
function pathOf(heads: string): string {
  if (heads.startsWith('"')) return unquote(heads.slice(0, (heads.length - 1) / 2)).slice(2);
  return heads.slice(2, 2 + (heads.length - 5) / 2);
}

export function parseDiff(text: string): Diff {
  const diff: Diff = { files: [], truncated: false, preamble: [] };
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  let file: DiffFile | undefined;
  for (let at = 0; at < lines.length;) {
    const line = lines[at]!;
    const head = HUNK.exec(line);
    if (line.startsWith("diff --git ")) {
      file = {
        path: pathOf(line.slice(11)),
        status: "modified",
        binary: false,
        added: 0,
        deleted: 0,
        notes: [],
        hunks: [],
      };
      diff.files.push(file);
      at++;
    } else if (line.startsWith("\\ cut here:")) {
      diff.truncated = true;
      at++;
    } else if (file !== undefined && head !== null) {
      at = readHunk(file, head, lines, at + 1);
    } else {
      if (file === undefined) diff.preamble.push(line);
      else readHeadLine(file, line);
      at++;
    }
  }
  return diff;
}

function readHeadLine(file: DiffFile, line: string): void {
  const moved = /^(rename|copy) to (.*)$/.exec(line);
  if (moved !== null) {
    file.status = moved[1] === "rename" ? "renamed" : "copied";
    file.path = unquote(moved[2]!);
    return;
  }
  if (line.startsWith("new file mode ")) file.status = "added";
  else if (line.startsWith("deleted file mode ")) file.status = "deleted";
  if (/^(?:index |--- |\+\+\+ )|^(?:new|deleted) file mode 100644$/.test(line)) return;
  if (/^(?:Binary files |GIT binary patch)/.test(line)) file.binary = true;
  else file.notes.push(line);
}

/** Takes a hunk's lines by its counts; returns the index after them. */
function readHunk(file: DiffFile, head: RegExpExecArray, lines: readonly string[], from: number): number {
  const hunk: Hunk = { range: head[1]!, place: head[6]!, lines: [] };
  file.hunks.push(hunk);
  let before = Number(head[2]);
  let after = Number(head[4]);
  const before_end = before + Number(head[3] ?? 1);
  const after_end = after + Number(head[5] ?? 1);
  let at = from;
  for (; at < lines.length; at++) {
    const line = lines[at]!;
    const sign = line[0];
    const text = line.slice(1);
    if (sign === "\\" && !line.startsWith("\\ cut here:")) {
      hunk.lines.push({ kind: "note", before: 0, after: 0, text: text.trimStart() });
    } else if (before >= before_end && after >= after_end) break;
    else if (sign === "+") {
      hunk.lines.push({ kind: "added", before: 0, after: after++, text });
      file.added++;
    } else if (sign === "-") {
      hunk.lines.push({ kind: "deleted", before: before++, after: 0, text });
      file.deleted++;
    } else if (sign === " ") hunk.lines.push({ kind: "context", before: before++, after: after++, text });
    else break;
  }
  return at;
}
