import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { DemoResult } from "../../cli/demo.ts";

const DEMO = new URL("../../cli/demo.ts", import.meta.url).pathname;

/** Starts the demo on a small shop with a directory for temporary files of its own. */
function startDemo(tmp: string, words: string[], env: Record<string, string> = {}): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-prompt", "--quiet", DEMO, "--size", "12", ...words],
    env: { TMPDIR: tmp, ...env },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

async function withTmp(test: (tmp: string) => Promise<void>): Promise<void> {
  const tmp = await Deno.makeTempDir();
  try {
    await test(tmp);
  } finally {
    await Deno.remove(tmp, { recursive: true });
  }
}

/** Asserts that the demo left no file and no process behind. */
function assertNothingLeft(tmp: string): void {
  assertEquals([...Deno.readDirSync(tmp)].map((entry) => entry.name), []);
  const left = [...Deno.readDirSync("/proc")].filter((entry) => /^\d+$/.test(entry.name)).flatMap(({ name }) => {
    try {
      const words = Deno.readTextFileSync(`/proc/${name}/cmdline`).replaceAll("\0", " ");
      return words.includes(tmp) ? [words] : [];
    } catch {
      return []; // It has ended meanwhile.
    }
  });
  assertEquals(left, []);
}

Deno.test("the demo's claims hold on a real shop with a real daemon, and it leaves nothing behind", async () => {
  await withTmp(async (tmp) => {
    const { code, stdout, stderr } = await startDemo(tmp, ["--json"]).output();
    assertEquals(code, 0, new TextDecoder().decode(stderr) + new TextDecoder().decode(stdout));
    const { ok, steps, facts } = JSON.parse(new TextDecoder().decode(stdout)) as DemoResult;
    assert(ok && steps.length > 10);
    assertEquals(facts.winner, "round");
    assertEquals(facts.faults.round, []);
    assertStringIncludes(facts.faults.rebuild!.join(), "products are gone");
    assertStringIncludes(facts.faults.truncate!.join(), "cents off");
    assert(facts.orders > 0 && facts.acknowledged > 0);
    assertEquals([facts.recovered, facts.durable], [facts.acknowledged, facts.acknowledged]);
    assertEquals(facts.price.rolled_back, facts.price.before);
    assertEquals(facts.price.again, facts.price.promoted);
    assertNothingLeft(tmp);
  });
});

Deno.test("an interrupted demo ends with 130 and leaves neither files nor processes behind", async () => {
  await withTmp(async (tmp) => {
    const demo = startDemo(tmp, []);
    let text = "";
    for await (const chunk of demo.stdout.pipeThrough(new TextDecoderStream())) {
      // The session is open: daemon and socket are there, and the application writes.
      if (!text.includes("live session") && (text + chunk).includes("live session")) demo.kill("SIGINT");
      text += chunk;
    }
    const { code } = await demo.status;
    assertStringIncludes(await new Response(demo.stderr).text(), "interrupted");
    assertEquals(code, 130);
    assertNothingLeft(tmp);
  });
});

Deno.test("a demo that cannot go on says why, ends with 1 and leaves nothing behind", async () => {
  await withTmp(async (tmp) => {
    const { code, stderr } = await startDemo(tmp, [], { PATH: tmp }).output();
    assertEquals(code, 1);
    assertStringIncludes(new TextDecoder().decode(stderr), "Install the sqlite3 shell");
    assertNothingLeft(tmp);
  });
});

Deno.test("a demo called with words it does not know ends with 2", async () => {
  await withTmp(async (tmp) => {
    assertEquals((await startDemo(tmp, ["--fast"]).output()).code, 2);
    assertEquals((await startDemo(tmp, ["--size", "3"]).output()).code, 2);
  });
});
