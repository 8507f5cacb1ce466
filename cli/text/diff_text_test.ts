import { assertEquals } from "@std/assert";
import { contentText } from "../../lib/text/characters.ts";
import { diffText } from "./diff_text.ts";

const [bold, cyan, green, red] = [[1, 22], [36, 39], [32, 39], [31, 39]].map(([on, off]) => (text: string) =>
  `\x1b[${on}m${text}\x1b[${off}m`
) as [(text: string) => string, (text: string) => string, (text: string) => string, (text: string) => string];

Deno.test("diffText() colours a line by what it is", () => {
  const lines = ["diff --git a/x b/x", "--- a/x", "+++ b/x", "@@ -1,2 +1,2 @@ f()", " same", "-old", "+new"];
  const [head, from, to, hunk, same, old, fresh] = lines as [string, string, string, string, string, string, string];
  assertEquals(
    diffText(`${lines.join("\n")}\n`, true),
    [bold(head), bold(from), bold(to), cyan(hunk), same, red(old), green(fresh)].join("\n"),
  );
  assertEquals(diffText(`${lines.join("\n")}\n`, false), lines.join("\n"));
});

Deno.test("a changed line that reads like the head of a file or a hunk is shown as a changed line", () => {
  const lines = ["@@ -1,2 +1,3 @@", "--- a/innocent", "+++ b/innocent", "+@@ -1 +1 @@", " same", "diff --git a/y b/y"];
  assertEquals(diffText(lines.join("\n"), true).split("\n"), [
    cyan(lines[0]!),
    red(lines[1]!),
    green(lines[2]!),
    green(lines[3]!),
    lines[4]!,
    bold(lines[5]!),
  ]);
});

Deno.test("a hunk's length defaults to 1, and a missing newline counts for neither side", () => {
  const lines = ["@@ -1 +1 @@", "-a", "\\ No newline at end of file", "+b", "\\ No newline at end of file", "diff"];
  assertEquals(diffText(lines.join("\n"), true).split("\n"), [
    cyan(lines[0]!),
    red("-a"),
    lines[2]!,
    green("+b"),
    lines[4]!,
    bold("diff"),
  ]);
});

Deno.test("diffText() makes escape sequences, direction marks and carriage returns visible", () => {
  assertEquals(diffText("+\x1b[2J\t\u202ex\r\n", false), "+\\x1b[2J\t\\u202ex\\x0d");
  assertEquals(
    diffText(contentText(new Uint8Array([43, 0x9b, 0xff, 0xef, 0xbb, 0xbf])), false),
    "+\\udc9b\\udcff\\ufeff",
  );
});
