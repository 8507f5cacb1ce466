import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { VirtualClock } from "../../tests/support/clock.ts";
import { MAX_ANSWER_LENGTH } from "./calls.ts";
import { callTool, toolDefinitions, TOOLS } from "./tools.ts";
import { WorkTree } from "./work_tree.ts";

class Bench implements Disposable {
  readonly work = Deno.realPathSync(Deno.makeTempDirSync());
  readonly clock = new VirtualClock();

  file(path: string, content: string): void {
    Deno.writeTextFileSync(`${this.work}/${path}`, content);
  }

  async call(name: string, args: unknown): Promise<string> {
    const context = { tree: new WorkTree(this.work), clock: this.clock };
    return (await callTool(name, JSON.stringify(args), context)).text;
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.work, { recursive: true });
  }
}

Deno.test("edit replaces what is exactly and unambiguously there, and nothing otherwise", async () => {
  using bench = new Bench();
  const content = () => Deno.readTextFileSync(`${bench.work}/a.txt`);
  bench.file("a.txt", "one two one\r\n");
  assertStringIncludes(await bench.call("edit", { path: "a.txt", old_text: "one", new_text: "1" }), "occurs 2 times");
  assertStringIncludes(await bench.call("edit", { path: "a.txt", old_text: "ONE", new_text: "1" }), "does not occur");
  assertStringIncludes(await bench.call("edit", { path: "a.txt", old_text: "", new_text: "1" }), "is empty");
  assertEquals(content(), "one two one\r\n");
  // No pattern of String.replace is special.
  assertStringIncludes(
    await bench.call("edit", { path: "a.txt", old_text: "two", new_text: "$& $1 $$" }),
    "replaced 1",
  );
  assertEquals(content(), "one $& $1 $$ one\r\n");
  await bench.call("edit", { path: "a.txt", old_text: "one", new_text: "1", all: true });
  assertEquals(content(), "1 $& $1 $$ 1\r\n");
});

Deno.test("edit refuses to blow a file up", async () => {
  using bench = new Bench();
  bench.file("a.txt", "a".repeat(10_000));
  const args = { path: "a.txt", old_text: "a", new_text: "b".repeat(1_000_000), all: true };
  assertStringIncludes(await bench.call("edit", args), "too large");
  assertEquals(Deno.statSync(`${bench.work}/a.txt`).size, 10_000);
});

Deno.test("read shows the lines that are asked for, and no more than fits", async () => {
  using bench = new Bench();
  bench.file("a.txt", Array.from({ length: 9 }, (_, index) => `line ${index + 1}\n`).join(""));
  assertEquals(await bench.call("read", { path: "a.txt", first_line: 8 }), "a.txt: 9 lines\n8\tline 8\n9\tline 9");
  assertEquals(await bench.call("read", { path: "a.txt", first_line: 2, lines: 1 }), "a.txt: 9 lines\n2\tline 2");
  assertEquals(await bench.call("read", { path: "a.txt", first_line: -5, lines: 1 }), "a.txt: 9 lines\n1\tline 1");
  bench.file("a.txt", "x".repeat(500_000));
  const long = await bench.call("read", { path: "a.txt" });
  assert(long.length < MAX_ANSWER_LENGTH + 100);
  assertStringIncludes(long, "more characters]");
});

Deno.test("search is bounded in matches, line length and time, and takes its text literally", async () => {
  using bench = new Bench();
  bench.file("a.txt", `(a+)+$\n${"needle\n".repeat(300)}`);
  bench.file("b.txt", `${"x".repeat(5_000)}NEEDLE\n`);
  bench.file("c.bin", "needle\0\ud800");
  Deno.writeFileSync(`${bench.work}/d.bin`, new Uint8Array([0xff]));
  assertEquals(await bench.call("search", { text: "(a+)+$", path: "a.txt" }), "a.txt:1: (a+)+$");
  const many = (await bench.call("search", { text: "needle" })).split("\n");
  assertEquals([many.length, many.at(-1)], [201, "(only the first 200 matches are shown)"]);
  // In the last file as in the first, but not where there is nothing more.
  const note = "(only the first 200 matches are shown)";
  for (const [count, expected] of [[199, ""], [200, ""], [201, note]] as const) {
    bench.file("z.txt", "last\n".repeat(count));
    const lines = (await bench.call("search", { text: "last" })).split("\n");
    assertEquals(lines.filter((line) => line.startsWith("(only")), expected === "" ? [] : [expected]);
  }
  const folded = (await bench.call("search", { text: "needle", path: "b.txt", ignore_case: true })).split("\n")[0]!;
  assertEquals(folded.length, "b.txt:1: ".length + 300);
  assertStringIncludes(await bench.call("search", { text: "absent" }), "no match\n(skipped: 1 file, binary");
  const monotonic = bench.clock.monotonic.bind(bench.clock);
  bench.clock.monotonic = () => {
    bench.clock.advance(4_000);
    return monotonic();
  };
  assertStringIncludes(await bench.call("search", { text: "absent" }), "the time is up");
});

Deno.test("search says when there are more entries than it reads", async () => {
  using bench = new Bench();
  bench.file("a.txt", "needle\n");
  bench.file("b.txt", "");
  const search = async (max_walked: number) =>
    await callTool("search", '{"text":"needle"}', {
      tree: new WorkTree(bench.work, { max_walked }),
      clock: bench.clock,
    });
  const whole = await search(2);
  assertEquals([whole.text, whole.summary], ["a.txt:1: needle", "1 match"]);
  assertEquals((await search(1)).text, "no match\n(stopped after 1 entry, the rest was not searched)");
});

Deno.test("the model is offered the tools of the table and none that runs a program", () => {
  assertEquals(Object.keys(TOOLS), ["read", "write", "edit", "list", "search", "sql", "run", "finish"]);
  const [read] = toolDefinitions({ databases: false, runs: false }) as [
    { function: { name: string; parameters: { required: string[] } } },
  ];
  assertEquals([read.function.name, read.function.parameters.required], ["read", ["path"]]);
});
