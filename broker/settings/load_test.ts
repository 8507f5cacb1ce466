import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import { load, refusal } from "../../tests/broker/settings/harness.ts";
import type { ShownValue } from "./value_schemas.ts";
import { loadSettings } from "./load.ts";
import { SETTING_PATHS, type SettingPath, SETTINGS, type Settings } from "./settings.ts";
import { MAX_SOCKET_PATH_BYTES } from "../../lib/socket_path.ts";

function valueAt(settings: Settings, path: SettingPath): unknown {
  return path.split(".").reduce<unknown>((value, name) => (value as Record<string, unknown>)[name], settings);
}

/** YAML that gives one setting. */
function yamlOf(path: SettingPath, text: string): string {
  const [group, name] = path.split(".");
  return name === undefined ? `${path}: ${text}\n` : `${group}:\n  ${name}: ${text}\n`;
}

Deno.test("the defaults are the contract's", async () => {
  const { settings, egress } = await load();
  const expected: Record<string, unknown> = {
    vendor_a_auth: "api_key",
    vendor_b_auth: "api_key",
    default_agent: "agent_a",
    default_model: "",
    task_budget_usd: 2,
    budget_mode: "soft",
    task_max_inflight: 1,
    max_request_cost_usd: 0,
    task_max_requests: 0,
    aggregate_budget_usd: 0,
    aggregate_window: 86_400_000,
    global_budget_usd: 0,
    global_max_tasks: 0,
    global_window: 86_400_000,
    task_timeout: 1_800_000,
    approval_timeout: 0,
    max_concurrent_tasks: 2,
    notifications: true,
    push_max_retries: 3,
    push_retry_backoff: 1_000,
    push_retry_for: 86_400_000,
    push_fresh_branch_tries: 2,
    on_moved_base: "merge",
    network: "taskd-egress",
    gateway_ip: "192.168.66.1",
    sandbox: { read: [] },
    sandbox_image: "taskd-sandbox:latest",
    anchor_image: "taskd-anchor:latest",
    stage_root: "/home/ada/.taskd/stage",
    audit_root: "/home/ada/.taskd/audit",
    squid_run_dir: "/home/ada/.taskd/squid",
    cache_root: "/home/ada/.taskd/cache",
    cache_quota_gb: 20,
    mirror_quota_gb: 20,
    task_disk_gb: 10,
    log_json: false,
    strict_container_version: false,
    runtime: "auto",
    oci_runtime: "",
    max_file_bytes: 268_435_456,
    run_hooks_of: [],
    allow_vendor_tools: [],
    broker: {
      socket: "/tmp/taskd-1000/taskd.sock",
      addr: "",
      api_addr: "",
      api_allow_non_loopback: false,
      metrics_addr: "",
      metrics_token_env: "",
    },
    branch_store: { socket: "/home/ada/.taskd/store/taskd.sock" },
    upstreams: {
      vendor_a: "https://api.anthropic.com",
      vendor_b: "https://api.openai.com",
      vendor_c: "https://generativelanguage.googleapis.com",
    },
    compat: { base_url: "", base_path: "", api_key_env: "", model: "", prices: {}, allow_fields: [] },
    diff_policy: { max_files_changed: 0, max_lines_changed: 0, blocked_paths: [], second_look_paths: [] },
    profiles: { repos: {} },
    ci: { watch: false, poll_interval: 60_000, watch_timeout: 5_400_000, max_attempts: 0 },
  };
  assertEquals(settings as unknown, expected);
  assertEquals(egress, { entries: [] });
});

Deno.test("the socket is in XDG_RUNTIME_DIR by default only where that is this user's alone", async () => {
  const folder = Deno.realPathSync(await Deno.makeTempDir());
  try {
    const socketIn = async (path: string) => (await load({ env: { XDG_RUNTIME_DIR: path } })).settings.broker.socket;
    assertEquals(await socketIn(folder), `${folder}/taskd/taskd.sock`);
    assertEquals(await socketIn(`${folder}/`), `${folder}/taskd/taskd.sock`);
    const contract = "/tmp/taskd-1000/taskd.sock";
    for (const path of ["", "relative", `${folder}/missing`]) assertEquals(await socketIn(path), contract);
    Deno.symlinkSync(folder, `${folder}/link`);
    assertEquals(await socketIn(`${folder}/link`), contract);
    const named = { config: "broker: { socket: /a/b.sock }", env: { XDG_RUNTIME_DIR: folder } };
    assertEquals((await load(named)).settings.broker.socket, "/a/b.sock");
    Deno.chmodSync(folder, 0o750);
    assertEquals(await socketIn(folder), contract);
    Deno.chmodSync(folder, 0o700);
    if (Deno.uid() === 0) Deno.chownSync(folder, 65_534, 65_534);
    assertEquals(await socketIn(folder), Deno.uid() === 0 ? contract : `${folder}/taskd/taskd.sock`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("the variables are the contract's", () => {
  const expected: Partial<Record<SettingPath, string>> = {
    vendor_a_auth: "TASKD_VENDOR_A_AUTH",
    vendor_b_auth: "TASKD_VENDOR_B_AUTH",
    default_agent: "TASKD_DEFAULT_AGENT",
    default_model: "TASKD_DEFAULT_MODEL",
    task_budget_usd: "TASKD_TASK_BUDGET_USD",
    task_max_inflight: "TASKD_TASK_MAX_INFLIGHT",
    max_request_cost_usd: "TASKD_MAX_REQUEST_COST_USD",
    task_max_requests: "TASKD_TASK_MAX_REQUESTS",
    aggregate_budget_usd: "TASKD_AGGREGATE_BUDGET_USD",
    aggregate_window: "TASKD_AGGREGATE_WINDOW",
    global_budget_usd: "TASKD_GLOBAL_BUDGET_USD",
    global_max_tasks: "TASKD_GLOBAL_MAX_TASKS",
    global_window: "TASKD_GLOBAL_WINDOW",
    max_concurrent_tasks: "TASKD_MAX_CONCURRENT_TASKS",
    notifications: "TASKD_NO_NOTIFY",
    push_max_retries: "TASKD_PUSH_MAX_RETRIES",
    push_retry_backoff: "TASKD_PUSH_RETRY_BACKOFF",
    push_fresh_branch_tries: "TASKD_PUSH_FRESH_BRANCH_TRIES",
    network: "TASKD_NETWORK",
    gateway_ip: "TASKD_GW_IP",
    sandbox_image: "SANDBOX_IMAGE",
    anchor_image: "TASKD_ANCHOR_IMAGE",
    stage_root: "STAGE_ROOT",
    audit_root: "AUDIT_ROOT",
    squid_run_dir: "SQUID_RUN_DIR",
    cache_root: "TASKD_CACHE_ROOT",
    cache_quota_gb: "TASKD_CACHE_QUOTA_GB",
    log_json: "TASKD_LOG_JSON",
    strict_container_version: "TASKD_STRICT_CONTAINER_VERSION",
    "broker.socket": "BROKER_SOCKET",
    "broker.addr": "BROKER_ADDR",
    "ci.watch": "TASKD_CI_WATCH",
    "ci.poll_interval": "TASKD_CI_POLL_INTERVAL",
    "ci.watch_timeout": "TASKD_CI_WATCH_TIMEOUT",
    "ci.max_attempts": "TASKD_CI_MAX_ATTEMPTS",
  };
  const actual = SETTING_PATHS.flatMap((path) => SETTINGS[path].env === undefined ? [] : [[path, SETTINGS[path].env]]);
  assertEquals(Object.fromEntries(actual), expected);
});

/** For each variable: the file's text and value, and the variable's. None is the default. */
const SAMPLES: Partial<Record<SettingPath, readonly [string, ShownValue, string, ShownValue]>> = {
  vendor_a_auth: ["subscription", "subscription", "api_key", "api_key"],
  vendor_b_auth: ["subscription", "subscription", "api_key", "api_key"],
  default_agent: ["agent_b", "agent_b", "gemini", "agent_c"],
  default_model: ["model-1", "model-1", "model-2", "model-2"],
  task_budget_usd: ["0.5", 0.5, "7.25", 7.25],
  task_max_inflight: ["4", 4, "0", 0],
  max_request_cost_usd: ["0.5", 0.5, "1", 1],
  task_max_requests: ["50", 50, "60", 60],
  aggregate_budget_usd: ["10", 10, "20", 20],
  aggregate_window: ["0", 0, "1h30m", 5_400_000],
  global_budget_usd: ["10", 10, "20", 20],
  global_max_tasks: ["10", 10, "20", 20],
  global_window: ["0s", 0, "7d", 604_800_000],
  max_concurrent_tasks: ["3", 3, "4", 4],
  push_max_retries: ["0", 0, "5", 5],
  push_retry_backoff: ["0", 0, "500ms", 500],
  push_fresh_branch_tries: ["0", 0, "7", 7],
  network: ["one", "one", "two", "two"],
  gateway_ip: ["10.0.0.1", "10.0.0.1", "127.0.0.1", "127.0.0.1"],
  sandbox_image: ["a:1", "a:1", "host.example/b:2", "host.example/b:2"],
  anchor_image: ["a:1", "a:1", "b@sha256:00", "b@sha256:00"],
  stage_root: ["~/a", "/home/ada/a", "/b", "/b"],
  audit_root: ["~/a", "/home/ada/a", "/b", "/b"],
  squid_run_dir: ["~/a", "/home/ada/a", "/b", "/b"],
  cache_root: ["~/a", "/home/ada/a", "/b/", "/b"],
  cache_quota_gb: ["0", 0, "1.5", 1.5],
  "broker.socket": ["~/a.sock", "/home/ada/a.sock", "/b.sock", "/b.sock"],
  "broker.addr": ["127.0.0.1:1", "127.0.0.1:1", "[::1]:0", "[::1]:0"],
  "ci.poll_interval": ["2m", 120_000, "10s", 10_000],
  "ci.watch_timeout": ["2h", 7_200_000, "3h", 10_800_000],
};

/** Rules of their own: true and false only through `1`. */
const SWITCHES: readonly SettingPath[] = ["notifications", "log_json", "strict_container_version", "ci.watch"];

Deno.test("every variable precedes the file, and the file the default", async () => {
  for (const path of SETTING_PATHS) {
    const row = SETTINGS[path];
    if (row.env === undefined || SWITCHES.includes(path) || path === "ci.max_attempts") continue;
    const sample = SAMPLES[path];
    assert(sample, `${path} has a variable and no sample`);
    const [written, from_file, exported, from_env] = sample;
    const [config, env] = [yamlOf(path, written), { [row.env]: exported }];
    const fallback = await load();
    for (
      const [given, value, source] of [
        [{}, valueAt(fallback.settings, path), "default"],
        [{ env: { [row.env]: "" } }, valueAt(fallback.settings, path), "default"],
        [{ config }, from_file, "config.yaml"],
        [{ env }, from_env, `env:${row.env}`],
        [{ config, env }, from_env, `env:${row.env}`],
      ] as const
    ) {
      const { settings, sources } = await load(given);
      assertEquals([path, valueAt(settings, path), sources.get(path)], [path, value, source]);
    }
  }
});

// conformance: b7.attempts_capped b2.ci.max_attempts
Deno.test("ci.max_attempts above 10 counts as 10, from the variable and from the file", async () => {
  const config = "approval_timeout: 1h\nci: { max_attempts: 3 }";
  assertEquals((await load({ config })).settings.ci.max_attempts, 3);
  const both = await load({ config, env: { TASKD_CI_MAX_ATTEMPTS: "11" } });
  assertEquals([both.settings.ci.max_attempts, both.sources.get("ci.max_attempts")], [10, "env:TASKD_CI_MAX_ATTEMPTS"]);
  for (const attempts of ["9999", "9".repeat(30)]) {
    assertEquals((await load({ config: config.replace("3", attempts) })).settings.ci.max_attempts, 10, attempts);
  }
});

// conformance: b2.ci.watch
Deno.test("TASKD_CI_WATCH enables with exactly 1, and any other value disables, over the file", async () => {
  for (const text of ["true", "yes", "on", "01", "1 ", " 1", "2", "0", "TRUE"]) {
    const { settings, sources } = await load({ config: "ci: { watch: true }", env: { TASKD_CI_WATCH: text } });
    assertEquals([text, settings.ci.watch, sources.get("ci.watch")], [text, false, "env:TASKD_CI_WATCH"]);
  }
  assertEquals((await load({ env: { TASKD_CI_WATCH: "1" } })).settings.ci.watch, true);
  assertEquals((await load({ config: "ci: { watch: true }" })).settings.ci.watch, true);
});

// conformance: b2.effect.notifications
Deno.test("the one-way variables act with exactly 1, and otherwise the file counts", async () => {
  const table = [
    ["notifications", "TASKD_NO_NOTIFY", false, true],
    ["log_json", "TASKD_LOG_JSON", true, false],
    ["strict_container_version", "TASKD_STRICT_CONTAINER_VERSION", true, false],
  ] as const;
  for (const [path, variable, acted, otherwise] of table) {
    const one = await load({ config: `${path}: ${otherwise}`, env: { [variable]: "1" } });
    assertEquals([path, one.settings[path], one.sources.get(path)], [path, acted, `env:${variable}`]);
    for (const text of ["0", "true", "yes", "11"]) {
      const other = await load({ config: `${path}: ${acted}`, env: { [variable]: text } });
      assertEquals([path, other.settings[path], other.sources.get(path)], [path, acted, "config.yaml"]);
      assertEquals((await load({ env: { [variable]: text } })).settings[path], otherwise);
    }
  }
});

Deno.test("zero has the meaning of the contract", async () => {
  const { settings } = await load({
    config: `
task_max_requests: 0
task_max_inflight: 0
cache_quota_gb: 0
aggregate_window: 0
global_window: 0s
ci: { poll_interval: 0, watch_timeout: 0s }
profiles: { repos: { git.example.com/o/r: { timeout: 0 } } }
`,
  });
  assertEquals([settings.task_max_requests, settings.task_max_inflight, settings.cache_quota_gb], [0, 0, 0]);
  assertEquals([settings.aggregate_window, settings.global_window], [0, 0]);
  assertEquals(settings.ci, { watch: false, poll_interval: 60_000, watch_timeout: 5_400_000, max_attempts: 0 });
  assertEquals(settings.profiles.repos["git.example.com/o/r"]?.timeout, 600_000);
});

// conformance: b2.effect.approval_timeout b2.ci.watch_timeout
Deno.test("approval_timeout and ci.watch_timeout may be longer than a timer can wait", async () => {
  const { settings } = await load({ config: "approval_timeout: 720h\nci: { watch_timeout: 60d }\n" });
  assertEquals([settings.approval_timeout, settings.ci.watch_timeout], [2_592_000_000, 5_184_000_000]);
});

Deno.test("a key without a value counts as not given, also a whole group", async () => {
  assertEquals((await load({ config: "ci:\ntask_budget_usd:\ncompat:\n  model: ~\n" })).hash, (await load()).hash);
  for (const config of ["", "---\n", "# nothing\n", "\ufeff", "{}"]) {
    assertEquals((await load({ config })).hash, (await load()).hash, JSON.stringify(config));
  }
});

// conformance: b2.profiles.cache b2.compat.prices
Deno.test("profiles and prices are read with their defaults", async () => {
  const { settings } = await load({
    config: `
compat:
  base_url: http://localhost:11434/
  prices: { big/model:1: { input: 1, output: 2.5 }, default: { input: 0, output: 0 } }
profiles:
  repos:
    git.example.com/Owner/.github:
      setup: [[npm, ci], [sh, -c, "a && b", ""]]
      cache: true
      second_look_paths: ["db/**"]
    git.example.com/o/empty:
      timeout: 90s
`,
  });
  assertEquals(settings.compat.base_url, "http://localhost:11434");
  assertEquals(settings.compat.prices, {
    "big/model:1": { input: 1, output: 2.5 },
    default: { input: 0, output: 0 },
  });
  assertEquals(settings.profiles.repos, {
    "git.example.com/Owner/.github": {
      setup: [["npm", "ci"], ["sh", "-c", "a && b", ""]],
      readiness: [],
      timeout: 600_000,
      cache: true,
      second_look_paths: ["db/**"],
      checks: [],
    },
    "git.example.com/o/empty": {
      setup: [],
      readiness: [],
      timeout: 90_000,
      cache: false,
      second_look_paths: [],
      checks: [],
    },
  });
});

Deno.test("the names of JavaScript's own properties are names like any other", async () => {
  const { settings } = await load({ config: "compat: { prices: { constructor: { input: 1, output: 1 } } }" });
  assertEquals(Object.keys(settings.compat.prices), ["constructor"]);
  assertEquals(settings.compat.prices["toString"], undefined);
  for (const key of ["__proto__", "constructor", "toString", "hasOwnProperty"]) {
    assertStringIncludes((await refusal({ config: `${key}: 1` })).message, `the key "${key}"`);
    await refusal({ config: `ci: { ${key}: 1 }` });
    await refusal({ config: `default_agent: ${key}` });
  }
  assertEquals(({} as Record<string, unknown>).input, undefined);
});

Deno.test("a mistake in the file is reported also when a variable overrides the setting", async () => {
  const error = await refusal({ config: "task_budget_usd: much", env: { TASKD_TASK_BUDGET_USD: "3" } });
  assertStringIncludes(error.message, "config.yaml:1:18");
});

// conformance: b2.effect.broker.socket
Deno.test("the default socket is below TMPDIR, if that is absolute, and has the user's number", async () => {
  const socket = async (TMPDIR: string) => (await load({ env: { TMPDIR } })).settings.broker.socket;
  assertEquals(await socket("/var/tmp/"), "/var/tmp/taskd-1000/taskd.sock");
  assertEquals(await socket("relative"), "/tmp/taskd-1000/taskd.sock");
  assertStringIncludes(
    (await refusal({ env: { TMPDIR: `/${"x".repeat(100)}` } })).message,
    `at most ${MAX_SOCKET_PATH_BYTES} bytes`,
  );
});

Deno.test("loadSettings() refuses a home directory that is not absolute", async () => {
  for (const home of ["", "relative"]) {
    await assertRejects(() => loadSettings({ home, env: () => undefined, uid: 1 }), TaskdError, "no home directory");
  }
});
