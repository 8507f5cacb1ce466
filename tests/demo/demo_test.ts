import { assert, assertAlmostEquals, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { DemoResult } from "../../cli/demo/run_demo.ts";
import { launchFlags } from "../../cli/table/launch_flags.ts";
import { podman, podmanTest, testImages } from "../support/podman.ts";
import { longTest } from "../support/long.ts";

const MAIN = new URL("../../cli/main.ts", import.meta.url).pathname;

/** Starts the demo on a small shop with a directory for temporary files of its own. */
function startDemo(tmp: string, words: string[], env: Record<string, string> = {}): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", ...launchFlags(), MAIN, "demo", "--quick", ...words],
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
      // An agent is named by where it works and not by its words.
      return `${words} ${Deno.readTextFileSync(`/proc/${name}/environ`)}`.includes(tmp) ? [words] : [];
    } catch {
      return []; // It has ended meanwhile.
    }
  });
  assertEquals(left, []);
}

/** The images that the demo is to run. */
async function imageVariables(): Promise<Record<string, string>> {
  const { sandbox, anchor } = await testImages();
  return { SANDBOX_IMAGE: sandbox, TASKD_ANCHOR_IMAGE: anchor };
}

/** Names of the networks of demos. */
async function demoNetworks(): Promise<string[]> {
  return (await podman("network", "ls", "--format={{.Name}}")).stdout.match(/^taskd-demo-.*$/gm) ?? [];
}

/** Runs the demo to its end and reads what it found. */
async function facts(tmp: string, words: string[], env: Record<string, string> = {}): Promise<DemoResult> {
  const { code, stdout, stderr } = await startDemo(tmp, ["--json", ...words], env).output();
  assertEquals(code, 0, new TextDecoder().decode(stderr) + new TextDecoder().decode(stdout));
  const { ok, ...result } = JSON.parse(new TextDecoder().decode(stdout)) as DemoResult & { ok: true };
  assertEquals(ok, true);
  return result;
}

/** What holds of the task in every sandbox. */
function assertCode({ code }: DemoResult["facts"]): void {
  assertEquals([code.test.before, code.test.after], [
    "not ok: 3 x 19.99 is 5997 cents, not 5994",
    "ok: 3 x 19.99 is 5997 cents",
  ]);
  assertEquals(code.branch, `agent/${code.task_id}`);
  assert(code.requests > 3 && code.spent_usd > 0);
  assertAlmostEquals(code.spent_usd, code.model_usd, 1e-9);
  assertEquals(code.second_look, ["path:billing/**", "database"]);
  assertEquals([code.cents.after, code.cents.before < code.cents.right], [code.cents.right, true]);
  assertMatch(code.diff_sha256, /^[0-9a-f]{64}$/);
  assert(code.rows.after >= code.rows.before && code.rows.before > 10);
}

longTest(
  "the demo's claims hold with a real broker and daemon, and it leaves nothing behind",
  () =>
    withTmp(async (tmp) => {
      const { steps, facts: found } = await facts(tmp, []);
      assert(steps.length > 15);
      assertCode(found);
      assertEquals(found.code.runtime, "deno");
      assertEquals(found.code.refused.length, 1);
      assertStringIncludes(found.code.refused[0]!, "api-keys.env");
      const { data } = found;
      assert(data.orders > 0 && data.acknowledged > 0);
      assertEquals([data.recovered, data.durable], [data.acknowledged, data.acknowledged]);
      assertEquals(Number(data.price.promoted), Math.round(Number(data.price.before) * 100));
      assertNothingLeft(tmp);
    }),
);

podmanTest(
  "in a container the demo's agent cannot reach out, and no network is left",
  () =>
    withTmp(async (tmp) => {
      const { sandbox, anchor } = await testImages();
      const env = { SANDBOX_IMAGE: sandbox, TASKD_ANCHOR_IMAGE: anchor };
      const before = await demoNetworks();
      const { facts: found } = await facts(tmp, ["--runtime", "podman"], env);
      assertCode(found);
      assertEquals(found.code.runtime, "podman");
      assertStringIncludes(found.code.refused.join("\n"), "paste.example.com:443: the host is not in the egress list");
      // What is attached to a network goes with it.
      assertEquals(await demoNetworks(), before);
      assertNothingLeft(tmp);
    }),
  longTest,
);

Deno.test("where podman or its images are missing, the demo says what to do before it begins", () =>
  withTmp(async (tmp) => {
    const absent = { SANDBOX_IMAGE: "localhost/no-such-image:none" };
    for (const env of [{ PATH: tmp }, absent]) {
      const { code, stdout, stderr } = await startDemo(tmp, ["--runtime", "podman"], env).output();
      assertEquals(code, 1);
      assertEquals(new TextDecoder().decode(stdout).includes("Make a repository"), false);
      assertMatch(new TextDecoder().decode(stderr), /Install podman|taskd setup --runtime podman/);
      assertNothingLeft(tmp);
    }
  }));

/** Interrupts the demo once it has reported `moment`, and inspects what is left. */
async function interruptAt(tmp: string, moment: string, words: string[] = [], env: Record<string, string> = {}) {
  const demo = startDemo(tmp, words, env);
  let text = "";
  for await (const chunk of demo.stdout.pipeThrough(new TextDecoderStream())) {
    if (!text.includes(moment) && (text + chunk).includes(moment)) demo.kill("SIGINT");
    text += chunk;
  }
  const { code } = await demo.status;
  const said = await new Response(demo.stderr).text();
  assertStringIncludes(said, "interrupted");
  assertEquals(code, 130);
  // What --keep leaves is named; it can be inspected and thrown away like any directory.
  const kept = /what it made is in (\S+)/.exec(said)?.[1];
  assertEquals(kept !== undefined, words.includes("--keep"));
  if (kept !== undefined) {
    assertEquals(Deno.statSync(kept).isDirectory, true);
    Deno.removeSync(kept, { recursive: true });
  }
  assertNothingLeft(tmp);
}

longTest(
  "an interrupted demo under --keep says where its files are, and leaves no process behind",
  () => withTmp((tmp) => interruptAt(tmp, "Submit a task", ["--keep"])),
);

// A step is printed when it is done: the task runs, or the session is open and the application writes.
for (const moment of ["Submit a task", "live session"]) {
  longTest(
    `a demo interrupted at "${moment}" ends with 130 and leaves neither files nor processes behind`,
    () => withTmp((tmp) => interruptAt(tmp, moment)),
  );
}

podmanTest(
  "a demo interrupted while its agent works in a container leaves no container and no network",
  () =>
    withTmp(async (tmp) => {
      const before = await demoNetworks();
      await interruptAt(tmp, "I look around", ["--runtime", "podman"], await imageVariables());
      assertEquals(await demoNetworks(), before);
    }),
  longTest,
);

Deno.test("a demo that cannot go on says why, ends with 1 and leaves nothing behind", () =>
  withTmp(async (tmp) => {
    const bin = await Deno.makeTempDir();
    try {
      const complaint = async () => {
        const { code, stderr } = await startDemo(tmp, [], { PATH: bin }).output();
        assertEquals(code, 1);
        return new TextDecoder().decode(stderr);
      };
      assertStringIncludes(await complaint(), "Install the sqlite3 shell");
      const { stdout } = await new Deno.Command("which", { args: ["sqlite3"] }).output();
      await Deno.symlink(new TextDecoder().decode(stdout).trim(), `${bin}/sqlite3`);
      assertStringIncludes(await complaint(), "Install git");
    } finally {
      await Deno.remove(bin, { recursive: true });
    }
    assertNothingLeft(tmp);
  }));

Deno.test("a demo called with words it does not know ends with 2", async () => {
  await withTmp(async (tmp) => {
    assertEquals((await startDemo(tmp, ["--fast"]).output()).code, 2);
    assertEquals((await startDemo(tmp, ["--size", "3"]).output()).code, 2);
    assertEquals((await startDemo(tmp, ["--runtime", "vm"]).output()).code, 2);
  });
});
