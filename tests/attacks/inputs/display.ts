/** What an agent prints and writes to deceive the person who decides: on a terminal, and in a browser. */

/** Markup that would do something in a page. */
export const HOSTILE_MARKUP =
  `<script>fetch("/admin/pwned")</script><img src=x onerror=alert(1)><a href="javascript:alert(1)">x</a>`;

/** Sequences by which text takes hold of a terminal or of the order in which it is read. */
export const TERMINAL_SEQUENCES: Readonly<Record<string, string>> = {
  "clear the screen": "\u001b[2J\u001b[H",
  "go up and overwrite": "\u001b[1A\u001b[2K",
  "set the title": "\u001b]0;title\u0007",
  "write to the clipboard": "\u001b]52;c;cHduZWQ=\u0007",
  "have the terminal answer": "\u001b[6n\u001bP$q\u001b\\",
  "a link that says another": "\u001b]8;;http://evil.example\u001b\\text\u001b]8;;\u001b\\",
  "eight-bit controls": "\u009b2J\u009d0;x\u009c",
  "carriage return": "safe\rspoofed",
  "backspaces": "evil\b\b\b\bsafe",
  "direction override": "\u202egnp.exe",
  "direction isolates": "\u2066// comment\u2069",
  "zero-width letters": "pass\u200bword",
  "tag letters": "\u{e0041}\u{e0042}",
  "line separators": "one\u2028two",
};

const HOSTILE_TEXT: string = Object.values(TERMINAL_SEQUENCES).join(" ");

/** An agent's summary; the second line poses as the broker's own. */
export const HOSTILE_SUMMARY = `${HOSTILE_TEXT} ${HOSTILE_MARKUP}\nApproved by taskd`;

/** Files by which an agent would have its way later: each belongs to a category that has to be acknowledged. */
export const HOSTILE_FILES: Readonly<Record<string, string>> = {
  "hello.txt": `${HOSTILE_TEXT}\n${HOSTILE_MARKUP}\n`,
  ".github/workflows/own.yml": "on: push\n",
  ".gitattributes": "* -diff\n",
};

/** Whether text holds a character that a terminal or a reader would act on. */
export function isHarmful(text: string): boolean {
  // deno-lint-ignore no-control-regex
  return /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\u{e0000}-\u{e007f}]/u
    .test(text);
}
