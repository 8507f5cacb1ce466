/**
 * Every row of the contract's tables of settings: its default, where its value comes from, and what it refuses.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { parseDuration } from "../../../lib/text/duration.ts";
import { CONTRACT_SETTINGS, type ContractSetting } from "../../conformance/broker_settings.ts";
import { load, refusal } from "../settings/harness.ts";

/** Values of one setting. */
interface Sample {
  /** YAML, and what it comes to. */
  file: [text: string, value: unknown];
  /** The variable's text, and what it comes to. */
  env?: [text: string, value: unknown];
  /** The file's text beside which the variable is to win, where `file` has the same value. */
  beside?: string;
  /** YAML that is refused; without lists and maps also as the variable's text. */
  refused: string[];
  /** What else the file has to have. */
  with?: string;
}

const NUMBER = ["-1", "lots", "true", "[1]"];
const WHOLE = [...NUMBER, "1.5"];
const DURATION = ["30", "1.5h", "-1h", "soon", "[1h]"];
const PATH = ["relative/path", "./x", "~other/x", "[/x]"];
const SWITCH = ["yes", "on", "1", "'true'"];
const AUTH: Sample = {
  file: ["subscription", "subscription"],
  env: ["api_key", "api_key"],
  refused: ["oauth", "API_KEY", "[]"],
};
const BUDGET: Sample = { file: ["10", 10], env: ["20.5", 20.5], refused: NUMBER };
const WINDOW: Sample = { file: ["0s", "0s"], env: ["36h", "36h"], refused: DURATION };

const SAMPLES: Record<string, Sample> = {
  vendor_a_auth: AUTH,
  vendor_b_auth: AUTH,
  default_agent: {
    file: ["agent_b", "agent_b"],
    env: ["agent_d", "agent_d"],
    refused: ["agent_e", "AGENT_A", "vendor_a"],
  },
  default_model: { file: ["model-1", "model-1"], env: ["model-2", "model-2"], refused: ["-m", "a b", "[m]"] },
  task_budget_usd: BUDGET,
  task_max_inflight: { file: ["4", 4], env: ["0", 0], refused: WHOLE },
  max_request_cost_usd: BUDGET,
  task_max_requests: { file: ["50", 50], env: ["60", 60], refused: WHOLE },
  aggregate_budget_usd: BUDGET,
  aggregate_window: WINDOW,
  global_budget_usd: BUDGET,
  global_max_tasks: { file: ["10", 10], env: ["20", 20], refused: [...WHOLE, "1"] },
  global_window: WINDOW,
  task_timeout: { file: ["45m", "45m"], refused: DURATION },
  approval_timeout: { file: ["24h", "24h"], refused: DURATION },
  max_concurrent_tasks: { file: ["3", 3], env: ["4", 4], refused: [...WHOLE, "0"] },
  notifications: { file: ["false", false], env: ["1", false], beside: "true", refused: SWITCH },
  push_max_retries: { file: ["0", 0], env: ["5", 5], refused: WHOLE },
  push_retry_backoff: { file: ["0s", "0s"], env: ["500ms", "500ms"], refused: DURATION },
  push_fresh_branch_tries: { file: ["0", 0], env: ["7", 7], refused: WHOLE },
  network: { file: ["one", "one"], env: ["two", "two"], refused: ["-x", "a/b", "a b", "[a]"] },
  gateway_ip: {
    file: ["10.0.0.1", "10.0.0.1"],
    env: ["10.0.0.2", "10.0.0.2"],
    refused: ["0.0.0.0", "localhost", "10.0.0", "10.0.0.1/24", "[10.0.0.1]"],
  },
  sandbox_image: { file: ["a:1", "a:1"], env: ["h.example/b:2", "h.example/b:2"], refused: ["-v", "a b", "[a]"] },
  anchor_image: { file: ["a:1", "a:1"], env: ["h.example/b:2", "h.example/b:2"], refused: ["-v", "a b", "[a]"] },
  stage_root: { file: ["~/a", "/home/ada/a"], env: ["/b", "/b"], refused: PATH },
  audit_root: { file: ["~/a", "/home/ada/a"], env: ["/b", "/b"], refused: PATH },
  squid_run_dir: { file: ["~/a", "/home/ada/a"], env: ["/b", "/b"], refused: PATH },
  cache_root: { file: ["~/a", "/home/ada/a"], env: ["/b", "/b"], refused: PATH },
  cache_quota_gb: { file: ["0", 0], env: ["1.5", 1.5], refused: NUMBER },
  "broker.socket": { file: ["~/a.sock", "/home/ada/a.sock"], env: ["/b.sock", "/b.sock"], refused: PATH },
  "broker.addr": {
    file: ["127.0.0.1:1", "127.0.0.1:1"],
    env: ["localhost:2", "localhost:2"],
    refused: [":8080", "8080", "localhost", "h:99999", "[h]"],
  },
  log_json: { file: ["true", true], env: ["1", true], beside: "false", refused: SWITCH },
  strict_container_version: { file: ["true", true], env: ["1", true], beside: "false", refused: SWITCH },
  "diff_policy.max_files_changed": { file: ["5", 5], refused: WHOLE },
  "diff_policy.max_lines_changed": { file: ["5", 5], refused: WHOLE },
  "diff_policy.blocked_paths": { file: ["['a/**']", ["a/**"]], refused: ["a/**", "['a/']", "['a/**/']", "[1]"] },
  "diff_policy.second_look_paths": { file: ["['a/**']", ["a/**"]], refused: ["a/**", "['a/']", "['a/**/']", "[1]"] },
  "profiles.repos": {
    file: ["{ h.example/o/r: { cache: true } }", {
      "h.example/o/r": { setup: [], readiness: [], timeout: "10m", cache: true },
    }],
    refused: [
      "{ o/r: {} }",
      "{ https://h.example/o/r: {} }",
      "{ h.example/o/r.git: {} }",
      "{ H.example/o/r: {} }",
      "{ h.example/o/r: { setup: npm ci } }",
      "{ h.example/o/r: { setup: [npm ci] } }",
      "{ h.example/o/r: { timeout: 10 } }",
      "{ h.example/o/r: { cache: 1 } }",
      "{ h.example/o/r: { image: x } }",
    ],
  },
  "ci.watch": { file: ["true", true], env: ["1", true], beside: "false", refused: SWITCH },
  "ci.poll_interval": { file: ["2m", "2m"], env: ["10s", "10s"], refused: [...DURATION, "9s", "9999ms"] },
  "ci.watch_timeout": { file: ["2h", "2h"], env: ["5m1s", "5m1s"], refused: [...DURATION, "5m", "1s"] },
  "ci.max_attempts": { file: ["3", 3], env: ["11", 10], refused: WHOLE, with: "approval_timeout: 24h\n" },
  "compat.base_url": {
    file: ["https://h.example", "https://h.example"],
    refused: ["http://h.example", "ftp://localhost", "h.example", "https://h.example/v1"],
  },
  "compat.base_path": { file: ["/v1", "/v1"], refused: ["v1", "/../v1", "/v1?x"] },
  "compat.api_key_env": { file: ["MY_KEY", "MY_KEY"], refused: ["my-key", "A=B", "1A"] },
  "compat.model": { file: ["m:7b", "m:7b"], refused: ["-m", "'a b'", "[m]"] },
  "compat.prices": {
    file: ["{ m: { input: 1, output: 2 } }", { m: { input: 1, output: 2 } }],
    refused: ["[]", "{ m: 1 }", "{ m: { input: 1 } }", "{ m: { input: -1, output: 1 } }"],
  },
};

/** YAML that gives one setting. */
function yaml(path: string, text: string, more = ""): string {
  const [group, name] = path.split(".");
  return name === undefined ? `${more}${path}: ${text}\n` : `${more}${group}:\n  ${name}: ${text}\n`;
}

/** A value as it compares: durations in milliseconds, paths as they come to be on the test's host. */
function meant(value: unknown): unknown {
  if (typeof value !== "string") return value;
  if (/^\d+(?:ms|s|m|h|d)/.test(value)) return parseDuration(value);
  return value.replace(/^~(?=\/)/, "/home/ada").replace("$TMPDIR", "/tmp").replace("$UID", "1000");
}

async function resolved(path: string, given: Parameters<typeof load>[0]): Promise<[unknown, string]> {
  const field = (await load(given)).fields().find(({ setting }) => setting === path);
  assert(field, `there is no setting ${path}`);
  return [meant(field.value), field.source];
}

function sampleOf({ path }: ContractSetting): Sample {
  const sample = SAMPLES[path];
  assert(sample, `${path} has no sample`);
  return sample;
}

// conformance: b2.setting.* b1.precedence b3.sources b8.values
Deno.test("every setting of the contract has its default, its variable and its precedence", async () => {
  for (const setting of CONTRACT_SETTINGS) {
    const { path, variable, built_in } = setting;
    const { file, env, beside, with: more } = sampleOf(setting);
    const config = yaml(path, file[0], more);
    assertEquals(await resolved(path, {}), [meant(built_in), "default"], path);
    assertEquals(await resolved(path, { config }), [meant(file[1]), "config.yaml"], path);
    assertEquals(env === undefined, variable === null, path);
    if (env === undefined || variable === null) continue;
    const exported = { [variable]: env[0] };
    const wins = [meant(env[1]), `env:${variable}`];
    if (more === undefined) assertEquals(await resolved(path, { env: exported }), wins, path);
    const other = beside === undefined ? config : yaml(path, beside, more);
    assertEquals(await resolved(path, { config: other, env: exported }), wins, path);
    assertEquals(await resolved(path, { config, env: { [variable]: "" } }), [meant(file[1]), "config.yaml"], path);
  }
});

// conformance: b2.setting.*
Deno.test("every setting of the contract refuses invalid values, in the file and in its variable", async () => {
  for (const setting of CONTRACT_SETTINGS) {
    const { path, variable } = setting;
    const { env, beside, refused, with: more } = sampleOf(setting);
    for (const text of refused) {
      const error = await refusal({ config: yaml(path, text, more) });
      assert(error.setting.startsWith(path) || error.message.includes(path), `${path}: ${text}: ${error.message}`);
      assertEquals(error.code, "invalid_config");
      // A switch takes its one word and leaves the rest alone.
      if (variable === null || env === undefined || beside !== undefined || /^[\[{']/.test(text)) continue;
      const exported = await refusal({ config: more ?? "", env: { [variable]: text } });
      assertStringIncludes(exported.message, variable);
    }
  }
});

Deno.test("no variable except those of the contract changes a setting", async () => {
  const known = new Set([...CONTRACT_SETTINGS.map(({ variable }) => variable), "EGRESS_CONFIG", "TMPDIR"]);
  const env = new Proxy<Record<string, string>>({}, {
    get: (_, name) => typeof name !== "string" || known.has(name) ? undefined : "1",
  });
  const { sources, hash } = await load({ env });
  assertEquals([...new Set(sources.values())], ["default"]);
  assertEquals(hash, (await load()).hash);
});

Deno.test("the tests try every setting of the contract's tables once", () => {
  const paths = CONTRACT_SETTINGS.map(({ path }) => path);
  assertEquals(Object.keys(SAMPLES).toSorted(), paths.toSorted());
  assertEquals(new Set(paths).size, 47);
});
