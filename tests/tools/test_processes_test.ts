import { assert, assertEquals } from "@std/assert";
import { runTests, type TestProcess, TestSum } from "./_test_processes.ts";

Deno.test("sums of several runs are one sum", () => {
  const sum = new TestSum();
  assert(sum.add("ok | 12 passed (3 steps) | 0 failed | 1 ignored (2s)"));
  assert(sum.add("FAILED | 1 passed | 2 failed (1 step) | 4 filtered out (300ms)"));
  assert(!sum.add("a line of a test | 7 passed"));
  assertEquals(sum.failed, 2);
  assertEquals(sum.format(61), "FAILED | 13 passed (3 steps) | 2 failed | 1 ignored | 4 filtered out (1m1s)");
});

/** Fails the first time it runs in a folder. */
const FIRST_TIME = (mark: string) => `
  try { Deno.mkdirSync("${mark}"); } catch { return; }
`;
const MODULES: Record<string, string> = {
  good: `Deno.test("one", () => {}); Deno.test("two", () => {});`,
  bad: `Deno.test("three", () => { throw new Error("what went wrong"); });`,
  gone: `Deno.test("four", () => Deno.kill(Deno.pid, "SIGKILL"));`,
  flaky: `Deno.test("five ... (dots)", () => { ${FIRST_TIME("five")} throw new Error("once"); });
    Deno.test("six", async (t) => { await t.step("a step", () => { ${FIRST_TIME("six")} throw new Error("step"); }); });
    Deno.test("seven", () => {});`,
  loose: `Deno.test("eight", async () => { ${FIRST_TIME("eight")}
      setTimeout(() => { throw new Error("loose"); }, 1);
      await new Promise((done) => setTimeout(done, 1_000));
    });
    Deno.test("nine", () => {});`,
  absent: `import "./nothing.ts";`,
};

/** Runs some of the modules in a folder of their own: whether that passed, and the lines. */
async function runModules(names: string[], max_flaky?: number): Promise<{ passed: boolean; lines: string[] }> {
  const folder = await Deno.makeTempDir();
  try {
    const processes: TestProcess[] = names.map((name) => {
      Deno.writeTextFileSync(`${folder}/${name}_test.ts`, MODULES[name]!);
      return { name, modules: [`${folder}/${name}_test.ts`] };
    });
    const lines: string[] = [];
    const passed = await runTests([{ processes, jobs: 2 }], {
      args: ["--no-config"],
      env: { NO_COLOR: "1", FORCE_COLOR: "" },
      cwd: folder,
      signal: new AbortController().signal,
      print: (line) => lines.push(line),
      ...(max_flaky === undefined ? {} : { max_flaky }),
    });
    return { passed, lines };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("modules run in processes of their own, and none that fails or dies is lost", async () => {
  const all = await runModules(["good", "bad", "gone"]);
  assertEquals(all.passed, false);
  assert(/^FAILED \| 2 passed \| 2 failed \(0m\ds\)$/.test(all.lines.at(-1)!), all.lines.at(-1));
  // The errors come after what the others said.
  const at = (text: string) => all.lines.findIndex((line) => line.includes(text));
  assert(at("two ... ok") >= 0 && at("two ... ok") < at(" ERRORS "));
  assert(at("what went wrong") > at(" ERRORS "));
  const last = all.lines.slice(at(" FAILURES ")).join("\n");
  assert(/three => \.\/bad_test\.ts:\d+:\d+\n {2}error: Error: what went wrong\n/.test(last), last);
  assert(at("gone ended with status 137 and without a report ... FAILED") >= 0, all.lines.join("\n"));
  const good = await runModules(["good"]);
  assertEquals([good.passed, good.lines.at(-1)!.slice(0, 24)], [true, "ok | 2 passed | 0 failed"]);
});

Deno.test("a test that passes when it is repeated is reported as flaky, and a few are accepted", async () => {
  const { passed, lines } = await runModules(["good", "flaky", "loose"], 8);
  const flaky = lines.filter((line) => line.startsWith("flaky: "));
  assertEquals(flaky, [
    "flaky: ./flaky_test.ts => five ... (dots) (error: Error: once)",
    "flaky: ./flaky_test.ts => six ... a step (error: Error: step)",
    "flaky: loose met an error of no test: error: Error: loose",
  ], lines.join("\n"));
  assertEquals(passed, true, lines.join("\n"));
  const whole = lines.filter((line) => line.startsWith("  | ")).join("\n");
  assert(whole.includes("Error: once") && whole.includes("flaky_test.ts:"), lines.join("\n"));
  assert(/^ok \| 7 passed .*\| 0 failed /.test(lines.at(-1)!), lines.at(-1));
  assertEquals((await runModules(["good", "flaky"], 1)).passed, false, "two are more than one");
});

Deno.test("what fails twice, dies twice or does not load has failed", async () => {
  for (const name of ["bad", "gone", "absent"]) {
    const { passed, lines } = await runModules(["good", name], 8);
    assertEquals(passed, false, name);
    assertEquals(lines.filter((line) => line.startsWith("flaky: ")), [], name);
    assert(/^FAILED \| 2 passed \| 1 failed /.test(lines.at(-1)!), `${name}: ${lines.at(-1)}`);
  }
});
