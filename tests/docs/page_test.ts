import { assertEquals } from "@std/assert";
import { Bindings, firstMissing, stepsOf } from "./page.ts";

Deno.test("stepsOf reads blocks of sh whole and blocks of console command by command", () => {
  const page = "text\n```sh\na\nb\n```\n\n```yaml\nx: 1\n```\n\n```console\n$ one \\\n    two\nout\n$ three\n```\n";
  assertEquals(stepsOf(page), [
    { command: "a\nb", line: 3 },
    { command: "one \\\n    two", line: 12, shown: ["out"] },
    { command: "three", line: 15, shown: [] },
  ]);
});

Deno.test("firstMissing lets dots, times and hex numbers vary, and nothing else", () => {
  const cases: [shown: string[], printed: string[], holds: boolean][] = [
    [["a"], ["a"], true],
    [["a"], ["b"], false],
    [["a"], ["a", "b"], false],
    [["a", "b"], ["a"], false],
    [["a", "...", "d"], ["a", "b", "c", "d"], true],
    [["a", "...", "d"], ["a", "b"], false],
    [["a ... d"], ["a b c d"], true],
    [["a (1+1)"], ["a (1+1)"], true],
    [["2026-01-01 01:02:03Z go"], ["2027-12-31 23:59:59Z go"], true],
    [["id 0123456789abcdef"], ["id fedcba9876543210"], true],
    [["id 0123456789abcdef"], ["id fedc"], false],
  ];
  for (const [shown, printed, holds] of cases) {
    assertEquals(firstMissing(shown, printed, new Bindings()) === undefined, holds, shown.join("\n"));
  }
});

Deno.test("a hex number of the page stands for the run's own in later commands, its beginning too", () => {
  const bindings = new Bindings();
  assertEquals(firstMissing(["5dc7a9e3d0959dac"], ["0123456789abcdef"], bindings), undefined);
  assertEquals(bindings.applied("taskd review 5dc7a9e3"), "taskd review 01234567");
  assertEquals(bindings.applied("taskd review 5d"), "taskd review 5d");
});
