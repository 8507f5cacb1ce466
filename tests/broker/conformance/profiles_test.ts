/**
 * Execution profiles and the endpoint of agent_d, from config.yaml to what a task did.
 */

import { assertEquals, assertMatch } from "@std/assert";
import { BrokerBench } from "../engine/bench.ts";
import { KEYS, ProgramBench, programTest } from "./_programs.ts";
import { longTest } from "../../support/long.ts";

const LOCKFILE = { "README.md": "# app\n", "package-lock.json": "{}\n" };
const profile = (more: string) => `profiles:\n  repos:\n    "REPO":\n      setup: [["prepare", "a b"]]\n${more}`;

// conformance: b2.profiles.cache b2.profiles.setup b2.profiles.stage b2.cache.brief b2.effect.cache_quota_gb b3.setting_up
programTest(
  "a profile runs before the agent; its cache is disabled, without lockfile, a miss or a hit",
  async () => {
    const table = [
      [profile(""), LOCKFILE, ["disabled", "disabled"]],
      [profile("      cache: false\n"), LOCKFILE, ["disabled", "disabled"]],
      [profile("      cache: true\n"), { "README.md": "# app\n" }, ["disabled: no lockfile", "disabled: no lockfile"]],
      [profile("      cache: true\n"), LOCKFILE, ["miss", "hit"]],
      [`cache_quota_gb: 0\n${profile("      cache: true\n")}`, LOCKFILE, ["disabled", "disabled"]],
    ] as const;
    for (const [config, files, participations] of table) {
      await using programs = await ProgramBench.start({
        config,
        files,
        programs: { prepare: "cp words.txt prepared.txt", claude: "cp prepared.txt seen.txt" },
      });
      const { bench } = programs;
      for (const participation of participations) {
        const { id } = await bench.submit({ agent: "agent_a" });
        const record = await bench.reaches(id, "awaiting_approval");
        assertEquals(record.stage, "awaiting_approval", record.reason);
        assertEquals(await programs.added(id, "seen.txt"), ["a b"]);
        const { setup } = await bench.engine.brief(id);
        assertEquals(setup?.commands.map(({ phase, status, exit_code }) => [phase, status, exit_code]), [
          ["setup", "passed", 0],
        ]);
        assertEquals(setup?.cache.participation, participation);
        if (participation === "hit" || participation === "miss") {
          assertMatch(
            setup!.cache.key_prefix!,
            /^[0-9a-f]{12}$/,
          );
        }
        const trace = await Deno.readTextFile(`${bench.home}/.taskd/audit/${id}.jsonl`);
        const stages = [...trace.matchAll(/"to":"(\w+)"/g)].map(([, stage]) => stage);
        assertEquals(stages.slice(0, 3), ["staging", "setting_up", "running"]);
      }
    }
  },
  longTest,
);

// conformance: b2.effect.cache_quota_gb b2.effect.cache_root
programTest(
  "an entry is kept below cache_root while it fits into cache_quota_gb, else made anew",
  async () => {
    // 100,000 bytes are a little less than 0.0001 GiB.
    for (const [quota, participations] of [["0.0001", ["miss", "hit"]], ["0.00009", ["miss", "miss"]]] as const) {
      const cache_root = await Deno.makeTempDir();
      try {
        await using programs = await ProgramBench.start({
          env: { ...KEYS, TASKD_CACHE_ROOT: cache_root },
          config: `cache_quota_gb: ${quota}\n${profile("      cache: true\n")}`,
          files: LOCKFILE,
          // What a package manager would write to /deps.
          programs: {
            prepare: `head -c 100000 /dev/zero > "$(echo ${cache_root}/staging/*/deps)/package"`,
            claude: "",
          },
        });
        const { bench } = programs;
        for (const participation of participations) {
          const { id } = await bench.submit({ agent: "agent_a" });
          const { stage, reason } = await bench.reaches(id, "awaiting_approval");
          assertEquals(stage, "awaiting_approval", reason);
          assertEquals((await bench.engine.brief(id)).setup?.cache.participation, participation, quota);
        }
      } finally {
        await Deno.remove(cache_root, { recursive: true });
      }
    }
  },
  longTest,
);

// conformance: b2.compat.base_path
longTest("a request of agent_d keeps /v1, or has compat.base_path in its place", async () => {
  for (const [base_path, prefix] of [["''", "/v1"], ["/v1/", "/v1"], ["/a/b", "/a/b"], ["/", ""]] as const) {
    await using bench = await BrokerBench.prepare();
    await Deno.writeTextFile(
      `${bench.home}/.taskd/config.yaml`,
      `runtime: deno
default_agent: agent_d
broker: { socket: ${bench.root}/s/taskd.sock }
compat: { base_url: ${bench.model.url}, base_path: ${base_path}, model: own-model }
`,
    );
    await bench.serve();
    const { id } = await bench.submit();
    const { stage, reason } = await bench.reaches(id, "awaiting_approval");
    assertEquals(stage, "awaiting_approval", reason);
    const paths = bench.model.asked.map(({ path }) => path);
    assertEquals(paths, Array(2).fill(`${prefix}/chat/completions`), base_path);
  }
});

// conformance: b2.compat.base_path b2.compat.model b2.compat.prices b2.compat.unlisted b1.agent_d_compat
longTest("compat leads agent_d to its endpoint: path, model, and prices by name, by default or none", async () => {
  const table = [
    ["prices: { own-model: { input: 10, output: 10 } }", "0.0024", 0],
    ["prices: { default: { input: 20, output: 20 } }", "0.0048", 0],
    ["prices: { another: { input: 20, output: 20 } }", "0.0000", 2],
  ] as const;
  for (const [prices, usd, unmetered] of table) {
    await using bench = await BrokerBench.prepare();
    await Deno.writeTextFile(
      `${bench.home}/.taskd/config.yaml`,
      `runtime: deno
default_agent: agent_d
task_budget_usd: 0.01
broker: { socket: ${bench.root}/s/taskd.sock }
compat:
  base_url: ${bench.model.url}
  base_path: /api/v9
  model: own-model
  ${prices}
`,
    );
    await bench.serve();
    const { id } = await bench.submit();
    const { spend, stage, reason } = await bench.reaches(id, "awaiting_approval");
    assertEquals(stage, "awaiting_approval", reason);
    assertEquals(
      bench.model.asked.map(({ path, body, authorization }) => [path, body.model, authorization]),
      [["/api/v9/chat/completions", "own-model", null], ["/api/v9/chat/completions", "own-model", null]],
    );
    assertEquals([spend?.usd.toFixed(4), spend?.unmetered_requests, spend?.requests], [usd, unmetered, 2]);
  }
});
