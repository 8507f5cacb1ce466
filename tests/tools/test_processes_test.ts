import { assert, assertEquals } from "@std/assert";
import { runTests, TestSum } from "./_test_processes.ts";

Deno.test("sums of several runs are one sum", () => {
  const sum = new TestSum();
  assert(sum.add("ok | 12 passed (3 steps) | 0 failed | 1 ignored (2s)"));
  assert(sum.add("FAILED | 1 passed | 2 failed (1 step) | 4 filtered out (300ms)"));
  assert(!sum.add("a line of a test | 7 passed"));
  assertEquals(sum.failed, 2);
  assertEquals(sum.format(61), "FAILED | 13 passed (3 steps) | 2 failed | 1 ignored | 4 filtered out (1m1s)");
});

const MODULES = {
  good: `Deno.test("one", () => {}); Deno.test("two", () => {});`,
  bad: `Deno.test("three", () => { throw new Error("what went wrong"); });`,
  gone: `Deno.test("four", () => Deno.kill(Deno.pid, "SIGKILL"));`,
};

Deno.test("modules run in processes of their own, and none that fails or dies is lost", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const processes = Object.entries(MODULES).map(([name, text]) => {
      Deno.writeTextFileSync(`${folder}/${name}_test.ts`, text);
      return { name, modules: [`${folder}/${name}_test.ts`] };
    });
    const run = async (...chosen: typeof processes) => {
      const lines: string[] = [];
      const { signal } = new AbortController();
      const options = { args: ["--no-config"], env: { NO_COLOR: "1", FORCE_COLOR: "" }, cwd: folder, jobs: 2 };
      const passed = await runTests(chosen, { ...options, signal, print: (line) => lines.push(line) });
      return { passed, lines };
    };
    const all = await run(...processes);
    assertEquals(all.passed, false);
    assert(/^FAILED \| 2 passed \| 2 failed \(0m\ds\)$/.test(all.lines.at(-1)!), all.lines.at(-1));
    // The errors come after what the others said.
    const at = (text: string) => all.lines.findIndex((line) => line.includes(text));
    assert(at("two ... ok") >= 0 && at("two ... ok") < at(" ERRORS "));
    assert(at("what went wrong") > at(" ERRORS "));
    const last = all.lines.slice(at(" FAILURES ")).join("\n");
    assert(/three => \.\/bad_test\.ts:\d+:\d+\n {2}error: Error: what went wrong\n/.test(last), last);
    assert(at("gone ended with status 137 and without a report ... FAILED") >= 0, all.lines.join("\n"));
    const good = await run(processes[0]!);
    assertEquals([good.passed, good.lines.at(-1)!.slice(0, 24)], [true, "ok | 2 passed | 0 failed"]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
