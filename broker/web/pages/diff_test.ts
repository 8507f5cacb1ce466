import { assertEquals } from "@std/assert";
import fc from "../../../tests/packages/fast_check.ts";
import { parseDiff, unquote } from "./diff.ts";

const HEAD = "diff --git a/x.ts b/x.ts\nindex 1..2 100644\n--- a/x.ts\n+++ b/x.ts\n";

Deno.test("parseDiff() numbers lines on both sides", () => {
  const { files } = parseDiff(`${HEAD}@@ -3,3 +3,3 @@ function f() {\n a\n-b\n+c\n d\n`);
  assertEquals(files[0]!.hunks, [{
    range: "@@ -3,3 +3,3 @@",
    place: "function f() {",
    lines: [
      { kind: "context", before: 3, after: 3, text: "a" },
      { kind: "deleted", before: 4, after: 0, text: "b" },
      { kind: "added", before: 0, after: 4, text: "c" },
      { kind: "context", before: 5, after: 5, text: "d" },
    ],
  }]);
  assertEquals([files[0]!.added, files[0]!.deleted], [1, 1]);
});

Deno.test("parseDiff() takes lines by a hunk's counts, whatever they say", () => {
  const { files } = parseDiff(
    `${HEAD}@@ -1,2 +1,2 @@\n--- a/evil\n-diff --git a/evil b/evil\n+++ b/evil\n+@@ -1 +1 @@\ndiff --git a/y b/y\nold mode 100644\nnew mode 100755\n`,
  );
  assertEquals(files.map(({ path }) => path), ["x.ts", "y"]);
  assertEquals(files[0]!.hunks[0]!.lines.map(({ text }) => text), [
    "-- a/evil",
    "diff --git a/evil b/evil",
    "++ b/evil",
    "@@ -1 +1 @@",
  ]);
  assertEquals(files[1]!.notes, ["old mode 100644", "new mode 100755"]);
});

Deno.test("parseDiff() marks added, deleted, binary and cut changes, and a missing last newline", () => {
  const diff = parseDiff(
    "diff --git a/n b/n\nnew file mode 100755\nindex 0..1\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n" +
      "\\ No newline at end of file\ndiff --git a/d b/d\ndeleted file mode 100644\nindex 1..0\n" +
      "Binary files a/d and /dev/null differ\n\\ cut here: the diff is longer than 9 bytes\n",
  );
  assertEquals(diff.truncated, true);
  assertEquals(diff.files.map(({ status, binary, notes }) => [status, binary, notes]), [
    ["added", false, ["new file mode 100755"]],
    ["deleted", true, []],
  ]);
  assertEquals(diff.files[0]!.hunks[0]!.lines[1]!.kind, "note");
});

Deno.test("parseDiff() shows what was renamed or copied under its new name, with where it was", () => {
  const head = (kind: string) => `similarity index 90%\n${kind} from a/old name\n${kind} to "b/\\303\\251"\n`;
  const { files } = parseDiff(
    `diff --git a/a/old name "b/b/\\303\\251"\n${
      head("rename")
    }index 1..2 100644\n--- a/a/old name\n@@ -1 +1 @@\n-a\n+b\n` +
      `diff --git a/a/old name "b/b/\\303\\251"\n${head("copy")}`,
  );
  assertEquals(files.map(({ path, status, notes }) => [path, status, notes]), [
    ["b/\u00e9", "renamed", ["similarity index 90%", "rename from a/old name"]],
    ["b/\u00e9", "copied", ["similarity index 90%", "copy from a/old name"]],
  ]);
  assertEquals([files[0]!.added, files[0]!.deleted], [1, 1]);
});

Deno.test("unquote() reads paths as git quotes them", () => {
  assertEquals(unquote(String.raw`"b/a\tb\n\"c\"\\d\303\251"`), 'b/a\tb\n"c"\\d\u00e9');
  assertEquals(unquote("plain name"), "plain name");
  assertEquals(parseDiff(`diff --git "a/a\\nb" "b/a\\nb"\n`).files[0]!.path, "a\nb");
  assertEquals(parseDiff("diff --git a/a b/c b/a b/c\n").files[0]!.path, "a b/c");
});

Deno.test("parseDiff() loses no line of any text", () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom("diff --git a/x b/x", "@@ -1,2 +1 @@", "+a", "-b", " c", "?", "")),
      (lines) => {
        const { files, preamble } = parseDiff(lines.map((line) => `${line}\n`).join(""));
        const kept = preamble.length + files.reduce(
          (sum, { notes, hunks }) =>
            sum + 1 + notes.length + hunks.reduce((all, hunk) => all + 1 + hunk.lines.length, 0),
          0,
        );
        assertEquals(kept, lines.length);
      },
    ),
  );
});
