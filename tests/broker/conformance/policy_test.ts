/**
 * `policy explain` to the letter, and the commands of the contract beside a broker that runs.
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { buildBrief } from "../../../broker/task/brief.ts";
import { configure, EMBEDDED, makeBrokerPlace, startBroker } from "../../cli/support/broker_place.ts";
import { CONTRACT_SETTINGS } from "../../conformance/broker_settings.ts";
import { plantTrace, someOrder, staged } from "../task/lives.ts";
import { longTest } from "../../support/long.ts";

const CONFIG = `${EMBEDDED}task_timeout: 5400s
diff_policy:
  blocked_paths: ["infra/**"]
broker:
  socket: HOME/run/b.sock
`;

/** The rows of the contract's settings under that configuration; `HOME` is the user's home directory. */
const TABLE = `SETTING VALUE SOURCE
vendor_a_auth api_key default
vendor_b_auth api_key default
default_agent agent_d config.yaml
default_model "" default
task_budget_usd 3.5 env:TASKD_TASK_BUDGET_USD
task_max_inflight 1 default
max_request_cost_usd 0 default
task_max_requests 0 default
aggregate_budget_usd 0 default
aggregate_window 24h default
global_budget_usd 0 default
global_max_tasks 0 default
global_window 24h default
task_timeout 1h30m config.yaml
approval_timeout 0s default
max_concurrent_tasks 2 default
notifications false env:TASKD_NO_NOTIFY
push_max_retries 3 default
push_retry_backoff 1s default
push_fresh_branch_tries 2 default
network taskd-egress default
gateway_ip 192.168.66.1 default
sandbox_image taskd-sandbox:latest default
anchor_image taskd-anchor:latest default
stage_root HOME/.taskd/stage default
audit_root HOME/.taskd/audit default
squid_run_dir HOME/.taskd/squid default
cache_root HOME/.taskd/cache default
cache_quota_gb 20 default
log_json false default
strict_container_version false default
broker.socket HOME/run/b.sock config.yaml
broker.addr "" default
compat.base_url http://localhost:9 config.yaml
compat.base_path "" default
compat.api_key_env "" default
compat.model small config.yaml
compat.prices {"default":{"input":1,"output":1}} config.yaml
diff_policy.max_files_changed 0 default
diff_policy.max_lines_changed 0 default
diff_policy.blocked_paths ["infra/**"] config.yaml
diff_policy.second_look_paths [] default
profiles.repos {} default
ci.watch false default
ci.poll_interval 1m default
ci.watch_timeout 1h30m default
ci.max_attempts 0 default`.split("\n");

async function place() {
  const place = await makeBrokerPlace({ TASKD_TASK_BUDGET_USD: "3.5", TASKD_NO_NOTIFY: "1" });
  await configure(place, CONFIG.replace("HOME", place.home));
  return place;
}

// conformance: b3.sources b4.explain.table b4.explain.resolves b4.explain.json b4.explain.hash b1.restart_applies
longTest("policy explain prints the contract's forms without a broker, in sync and divergent", async () => {
  await using host = await place();
  const table = async () => {
    const { code, stdout } = await host.taskd("policy", "explain");
    assertEquals(code, 0);
    const lines = stdout.trimEnd().split("\n").map((line) => line.replace(/ {2,}/g, " ").replaceAll(host.home, "HOME"));
    return { lines, verdict: lines.at(-1) };
  };
  const contract = new Set(["SETTING", ...CONTRACT_SETTINGS.map(({ path }) => path)]);
  const { lines, verdict } = await table();
  assertEquals(lines.filter((line) => contract.has(line.split(" ")[0]!)), TABLE);
  assertEquals(verdict, "daemon: not reachable");

  const object = async () => JSON.parse((await host.taskd("policy", "explain", "--json")).stdout);
  const alone = await object();
  assertEquals(Object.keys(alone), ["local", "live", "in_sync"]);
  assertEquals([alone.live, alone.in_sync], [null, null]);
  assertEquals(Object.keys(alone.local), ["fields", "hash"]);
  assertMatch(alone.local.hash, /^[0-9a-f]{64}$/);
  const field = (setting: string) => alone.local.fields.find((field: { setting: string }) => field.setting === setting);
  assertEquals(field("task_budget_usd"), {
    setting: "task_budget_usd",
    value: 3.5,
    source: "env:TASKD_TASK_BUDGET_USD",
  });
  assertEquals(field("diff_policy.blocked_paths"), {
    setting: "diff_policy.blocked_paths",
    value: ["infra/**"],
    source: "config.yaml",
  });

  await using broker = await startBroker(host);
  assertEquals((await table()).verdict, "daemon: in sync");
  const beside = await object();
  assertEquals(beside, { local: alone.local, live: alone.local, in_sync: true });

  await configure(host, CONFIG.replace("HOME", host.home).replace("infra/**", "secrets/**"));
  const changed = await object();
  assertEquals([changed.live, changed.in_sync], [alone.local, false]);
  assert(changed.local.hash !== changed.live.hash);
  assertEquals(
    (await table()).verdict,
    "daemon: divergent: diff_policy.blocked_paths (start again to apply the configuration)",
  );
  await host.taskd("stop");
  assertEquals((await broker.ended()).code, 0);
});

// conformance: b1.commands b2.stats.offline b2.profiles.evidence b2.cache.brief
longTest("the contract's commands work with a broker, and those of records without one", async () => {
  await using host = await makeBrokerPlace();
  assertEquals((await host.json(["init"])).ok, true);
  const setup = ["setup", "--yes", "--runtime", "deno", "--agent", "agent_d", "--no-build-images"];
  const endpoint = ["--compat-url", "http://localhost:9/v1", "--compat-model", "small"];
  assertEquals((await host.json([...setup, ...endpoint])).ready, true);

  const id = "a1".repeat(16);
  const audit_root = `${host.home}/.taskd/audit`;
  Deno.mkdirSync(audit_root, { mode: 0o700 });
  const spend = { usd: 0.25, requests: 1, unmetered_requests: 0, input_tokens: 9, output_tokens: 1, priced: true };
  plantTrace(audit_root, [
    { type: "created", task: someOrder(id) },
    staged({ from: "admission", to: "staging" }),
    { type: "spend", spend },
    staged({ from: "staging", to: "done", outcome: "setup_failed", reason: "no such repository" }),
  ]);
  const brief = buildBrief({
    task_id: id,
    instruction: "Fix the test",
    repo: "example.com/o/r",
    agent: "agent_a",
    setup: {
      commands: [
        { phase: "setup", command: ["npm", "ci"], status: "passed", exit_code: 0, duration_ms: 61_000 },
        { phase: "readiness", command: ["npm", "test"], status: "failed", exit_code: 7, duration_ms: 900 },
      ],
      cache: { participation: "disabled: no lockfile" },
    },
  });
  Deno.writeTextFileSync(`${audit_root}/${id}.brief.json`, JSON.stringify(brief), { mode: 0o600 });
  const alone = await host.json(["stats"]);
  assertEquals([alone.tasks, (alone.spend as { usd: number }).usd, alone.global_ceiling], [1, 0.25, null]);

  await using broker = await startBroker(host);
  const { tasks } = await host.json(["tasks"]);
  assertEquals((tasks as { id: string }[]).map(({ id }) => id), [id]);
  const { stdout } = await host.taskd("inspect", id.slice(0, 6));
  assertMatch(stdout, /setup_failed/);
  assertMatch(stdout, /\$0\.25/);
  assertMatch(stdout, /setup, cache disabled: no lockfile:/);
  assertMatch(stdout, /setup passed \(exit code 0\) in 1m 1s: npm ci/);
  assertMatch(stdout, /readiness failed \(exit code 7\) in 900ms: npm test/);
  assertEquals(((await host.json(["stats"])).global_ceiling as { enabled: boolean }).enabled, false);
  assertEquals((await host.json(["policy", "explain"])).in_sync, true);
  await host.taskd("stop");
  assertEquals((await broker.ended()).code, 0);
});
