import {
  assert,
  assertAlmostEquals,
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertStringIncludes,
} from "@std/assert";
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

/** What holds in every sandbox. */
function assertFacts(facts: DemoResult["facts"]): void {
  assertEquals([facts.test.before, facts.test.after], [
    "not ok: 3 x 19.99 is 5997 cents, not 5994",
    "ok: 3 x 19.99 is 5997 cents",
  ]);
  assertEquals(facts.branch, `agent/${facts.task_id}`);
  assert(facts.requests > 3 && facts.spent_usd > 0);
  assertAlmostEquals(facts.spent_usd, facts.model_usd, 1e-9);
  assertEquals(facts.second_look, ["path:billing/**", "database"]);
  for (const digest of Object.values(facts.diffs)) assertMatch(digest, /^[0-9a-f]{64}$/);
  assertNotEquals(facts.diffs.before, facts.diffs.after);
  assert(facts.rows.after >= facts.rows.before && facts.rows.before > 10);
  // One value as the shop has it, one as the task has it, and what only the task changed.
  assertEquals(facts.conflicts, 2);
  assertEquals(facts.invoices, { before: [5994, 868, 0, 2500, 1149], after: [5997, 870, 0, 2500, 1150] });
  assertEquals(facts.merged_cents, 8118);
  const { prices, for_nothing } = facts;
  assertEquals([prices.bad, prices.after, for_nothing.after], [0, prices.before, 0]);
  assert(prices.before > 0 && for_nothing.before > 0);
  const { crash, acknowledged, restored } = facts;
  assert(crash.acknowledged > 0 && crash.found >= crash.acknowledged && acknowledged > crash.found);
  assertEquals(restored, acknowledged);
}

/** The commands that the new reader is to see, in this order. */
const COMMANDS = [
  /^taskd create shop --from shop.db$/,
  /^taskd submit /,
  /^taskd review /,
  /^sqlite3 .*UPDATE invoices/,
  /^kill -9 \d+ \d+$/,
  /^taskd serve .*&$/,
  /^taskd approve /,
  /^taskd approve .* --resolve decide.json --prefer ours$/,
  /^taskd merge shop@cents --into main$/,
  /^sqlite3 .*UPDATE products SET price = 0"$/,
  /^taskd fork shop oops --at 10s$/,
  /^taskd export shop restored.db$/,
];

longTest(
  "the demo's claims hold with a real broker and daemon, and it leaves nothing behind",
  () =>
    withTmp(async (tmp) => {
      const { steps, facts: found } = await facts(tmp, []);
      let at = -1;
      for (const command of COMMANDS) {
        const next = steps.findIndex((step, i) => i > at && command.test(step.command));
        assert(next > at, `${command} is not shown after ${steps[at]?.command}`);
        at = next;
      }
      assertFacts(found);
      assertEquals(found.runtime, "deno");
      assertEquals(found.refused.length, 1);
      assertStringIncludes(found.refused[0]!, "api-keys.env");
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
      assertFacts(found);
      assertEquals(found.runtime, "podman");
      assertStringIncludes(found.refused.join("\n"), "paste.example.com:443: the host is not in the egress list");
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
      assertEquals(new TextDecoder().decode(stdout).includes("taskd create"), false);
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
  () => withTmp((tmp) => interruptAt(tmp, "taskd submit", ["--keep"])),
);

// A command is printed before it runs: the application writes, the task runs, the data is merged.
for (const moment of ["sells into that file", "taskd submit", "taskd merge"]) {
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
