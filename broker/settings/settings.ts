/**
 * The one table of the broker's settings: where each stands in config.yaml, the variable
 * that overrides it, its default, its rules and what it means. The loader, the seeded
 * files, the explanation and docs/reference/settings.md are read off it.
 *
 * @module
 */

import { type AgentName, AGENTS } from "../agents.ts";
import { cappedInteger, choice, decimal, duration, integer, MAX_WAIT, MAX_WINDOW } from "./kinds.ts";
import { MODEL, SWITCH } from "./kinds.ts";
import { BIND_ADDRESS, ENDPOINT_PATH, ENDPOINT_URL, IMAGE, LISTEN_ADDRESS, NETWORK, OCI_RUNTIME } from "./places.ts";
import { PATH, SOCKET_PATH, UPSTREAM_URL, VARIABLE_NAME } from "./places.ts";
import type { RuntimeName, SettingPath, SettingRow, ValueAt, VendorAuth } from "./shape.ts";
import { GLOBS, PRICES, PROFILES, TOOL_NAMES } from "./policies.ts";

export { GROUPS } from "./shape.ts";
export type { RuntimeName, SettingPath, SettingRow, Settings, VendorAuth } from "./shape.ts";
export type { Price, Profile } from "./policies.ts";

/** Variables that turn something on or off, and only with the value `1`. */
const whenOne = (value: boolean) => (text: string) => text === "1" ? value : undefined;

const LABELS = Object.fromEntries(AGENTS.map(({ label, name }) => [label, name]));
const AUTH = choice<VendorAuth>(["api_key", "subscription"]);
const USD = decimal("USD", 1_000_000);
const COUNT = integer(0, 1_000_000_000);

/** Every setting, in the order of the pages about them. */
export const SETTINGS: { readonly [P in SettingPath]: SettingRow<ValueAt<P>> } = {
  vendor_a_auth: {
    kind: AUTH,
    built_in: "api_key",
    env: "TASKD_VENDOR_A_AUTH",
    doc: "Anthropic: api_key uses VENDORA_API_KEY; subscription uses ~/.taskd/vendor_a-oauth.json.",
  },
  vendor_b_auth: {
    kind: AUTH,
    built_in: "api_key",
    env: "TASKD_VENDOR_B_AUTH",
    doc: "OpenAI: api_key uses VENDORB_API_KEY; subscription uses ~/.taskd/vendor_b-oauth.json.",
  },
  default_agent: {
    kind: choice<AgentName>(AGENTS.map(({ name }) => name), LABELS),
    built_in: "agent_a",
    env: "TASKD_DEFAULT_AGENT",
    doc: `Agent when --agent is omitted: ${AGENTS.map(({ name, label }) => `${name} (${label})`).join(", ")}.`,
  },
  default_model: {
    kind: MODEL,
    built_in: "",
    env: "TASKD_DEFAULT_MODEL",
    doc: "Model when --model is omitted, for agent_a and agent_b only; empty lets the agent pick.",
  },
  task_budget_usd: {
    kind: USD,
    built_in: 2,
    env: "TASKD_TASK_BUDGET_USD",
    doc: "Soft cap on what a task spends, metered after the fact: at most task_max_inflight requests overshoot it. " +
      "With api_key only.",
  },
  task_max_inflight: {
    kind: COUNT,
    built_in: 1,
    env: "TASKD_TASK_MAX_INFLIGHT",
    doc: "Requests of a task that the gateway admits at the same time; 0 disables the cap.",
  },
  max_request_cost_usd: {
    kind: USD,
    built_in: 0,
    env: "TASKD_MAX_REQUEST_COST_USD",
    doc: "Reserved for each request in flight, so that concurrent ones cannot admit past the budget; 0 disables it.",
  },
  task_max_requests: {
    kind: COUNT,
    built_in: 0,
    env: "TASKD_TASK_MAX_REQUESTS",
    doc: "Hard cap on a task's API round-trips; 0 is the built-in 1000. The main control with a subscription.",
  },
  aggregate_budget_usd: {
    kind: USD,
    built_in: 0,
    env: "TASKD_AGGREGATE_BUDGET_USD",
    doc: "Ceiling across tasks for each vendor that is paid with a key, over aggregate_window; 0 disables it.",
  },
  aggregate_window: {
    kind: duration({ maximum: MAX_WINDOW }),
    built_in: "24h",
    env: "TASKD_AGGREGATE_WINDOW",
    doc: "Rolling window; 0 is the total since the broker started.",
  },
  global_budget_usd: {
    kind: USD,
    built_in: 0,
    env: "TASKD_GLOBAL_BUDGET_USD",
    doc: "Global ceiling, USD limb: what the broker metered for all vendors, over global_window; 0 disables it.",
  },
  global_max_tasks: {
    kind: COUNT,
    built_in: 0,
    env: "TASKD_GLOBAL_MAX_TASKS",
    doc: "Global ceiling, task limb: task starts over global_window, retries included; 0 disables it, otherwise at " +
      "least max_concurrent_tasks.",
  },
  global_window: {
    kind: duration({ maximum: MAX_WINDOW }),
    built_in: "24h",
    env: "TASKD_GLOBAL_WINDOW",
    doc: "Rolling window of both limbs, kept across restarts; 0s is the total: nothing ages out.",
  },
  task_timeout: {
    kind: duration({ maximum: MAX_WAIT, minimum: "1s", zero_means: "30m" }),
    built_in: "30m",
    doc: "Wall-clock limit of a task; 0 is the built-in default.",
  },
  approval_timeout: {
    // Gates are looked at again and again, so that no timer has to wait for it.
    kind: duration({ maximum: MAX_WINDOW }),
    built_in: "0s",
    doc:
      "A task left at an approval gate this long is denied; 0 waits for ever, which ci.max_attempts above 0 forbids.",
  },
  max_concurrent_tasks: {
    kind: integer(1, 1_000),
    built_in: 2,
    env: "TASKD_MAX_CONCURRENT_TASKS",
    doc: "Tasks that run at the same time; one more is answered with HTTP 503.",
  },
  notifications: {
    kind: SWITCH,
    built_in: true,
    env: "TASKD_NO_NOTIFY",
    fromEnv: whenOne(false),
    doc: "Desktop notification when an approval is pending; TASKD_NO_NOTIFY=1 turns it off.",
  },
  push_max_retries: {
    kind: integer(0, 10),
    built_in: 3,
    env: "TASKD_PUSH_MAX_RETRIES",
    doc: "Retries of a push that failed for network reasons; 0 disables them.",
  },
  push_retry_backoff: {
    // Doubled ten times it is still less than what timers can wait.
    kind: duration({ maximum: "10m" }),
    built_in: "1s",
    env: "TASKD_PUSH_RETRY_BACKOFF",
    doc: "Delay before the first retry, doubled for each further one; 0 disables the delay.",
  },
  push_fresh_branch_tries: {
    kind: integer(0, 100),
    built_in: 2,
    env: "TASKD_PUSH_FRESH_BRANCH_TRIES",
    doc: "Other branch names (agent/<id>-2, -3, ...) tried when the remote has the name already; 0 disables them.",
  },
  network: { kind: NETWORK, built_in: "taskd-egress", env: "TASKD_NETWORK", doc: "Name of the sandboxes' network." },
  gateway_ip: {
    kind: BIND_ADDRESS,
    built_in: "192.168.66.1",
    env: "TASKD_GW_IP",
    doc: "Address of the gateway (port 8088) and the egress proxy (port 3128).",
  },
  sandbox_image: {
    kind: IMAGE,
    built_in: "taskd-sandbox:latest",
    env: "SANDBOX_IMAGE",
    doc: "Image of a task's sandbox.",
  },
  anchor_image: {
    kind: IMAGE,
    built_in: "taskd-anchor:latest",
    env: "TASKD_ANCHOR_IMAGE",
    doc: "Small image that holds the network's gateway address.",
  },
  stage_root: { kind: PATH, built_in: "~/.taskd/stage", env: "STAGE_ROOT", doc: "Work trees of tasks." },
  audit_root: {
    kind: PATH,
    built_in: "~/.taskd/audit",
    env: "AUDIT_ROOT",
    doc: "Traces, logs and diffs of tasks; 0700, its files 0600.",
  },
  squid_run_dir: {
    kind: PATH,
    built_in: "~/.taskd/squid",
    env: "SQUID_RUN_DIR",
    doc: "The egress proxy's access log.",
  },
  cache_root: {
    kind: PATH,
    built_in: "~/.taskd/cache",
    env: "TASKD_CACHE_ROOT",
    doc: "Dependency caches of repositories.",
  },
  cache_quota_gb: {
    kind: decimal("GiB", 1_000_000),
    built_in: 20,
    env: "TASKD_CACHE_QUOTA_GB",
    doc:
      "Disk space of all caches, the longest unused evicted first; 0 disables caching also where a profile asks for it.",
  },
  log_json: {
    kind: SWITCH,
    built_in: false,
    env: "TASKD_LOG_JSON",
    fromEnv: whenOne(true),
    doc: "JSON logs also on a terminal; TASKD_LOG_JSON=1 turns them on.",
  },
  strict_container_version: {
    kind: SWITCH,
    built_in: false,
    env: "TASKD_STRICT_CONTAINER_VERSION",
    fromEnv: whenOne(true),
    doc: "Refuse a container runtime whose major version was not tested; TASKD_STRICT_CONTAINER_VERSION=1 turns it on.",
  },
  runtime: {
    kind: choice<RuntimeName>(["auto", "podman", "docker", "container", "deno"]),
    built_in: "auto",
    doc: "What runs sandboxes; deno is the embedded one, for agent_d alone.",
  },
  oci_runtime: {
    kind: OCI_RUNTIME,
    built_in: "",
    doc: "OCI runtime under podman or docker, such as runsc or kata; empty takes theirs.",
  },
  allow_vendor_tools: {
    kind: TOOL_NAMES,
    built_in: [],
    doc:
      "Tools that a vendor may run for an agent, past the egress list, by the names that the gateway's refusals give.",
    example: ["allow_vendor_tools: [web_search]"],
  },
  "broker.socket": {
    kind: SOCKET_PATH,
    built_in: "$TMPDIR/taskd-$UID/taskd.sock",
    env: "BROKER_SOCKET",
    compared: false,
    doc: "Unix socket of the broker, 0600 in a directory of 0700.",
  },
  "broker.addr": {
    kind: LISTEN_ADDRESS,
    built_in: "",
    env: "BROKER_ADDR",
    compared: false,
    doc: "host:port where the broker also listens, without any authentication; empty for none.",
  },
  "branch_store.socket": {
    kind: SOCKET_PATH,
    built_in: "~/.taskd/store/taskd.sock",
    doc: "Unix socket of the branch store (taskd serve), in the store's directory, for tasks that work on databases.",
  },
  "upstreams.vendor_a": {
    kind: UPSTREAM_URL,
    built_in: "https://api.anthropic.com",
    doc: "Where requests of agent_a go; https, or http of localhost.",
  },
  "upstreams.vendor_b": {
    kind: UPSTREAM_URL,
    built_in: "https://api.openai.com",
    doc: "Where requests of agent_b go, likewise.",
  },
  "upstreams.vendor_c": {
    kind: UPSTREAM_URL,
    built_in: "https://generativelanguage.googleapis.com",
    doc: "Where requests of agent_c go, likewise.",
  },
  "compat.base_url": {
    kind: ENDPOINT_URL,
    built_in: "",
    doc: "The OpenAI-compatible endpoint of agent_d: https, or http of localhost, without a path; empty disables it.",
    example: ["base_url: http://localhost:11434"],
  },
  "compat.base_path": {
    kind: ENDPOINT_PATH,
    built_in: "",
    doc: "Path joined onto each request, in the place of /v1.",
  },
  "compat.api_key_env": {
    kind: VARIABLE_NAME,
    built_in: "",
    doc: "Name of the variable that holds the endpoint's key; the key itself never stands in this file.",
  },
  "compat.model": { kind: MODEL, built_in: "", doc: "Model id that agent_d is given." },
  "compat.prices": {
    kind: PRICES,
    built_in: {},
    doc:
      "Prices by model id, USD per 1M tokens; default is for every other model. A model without one is metered at 0.",
    example: ["prices:", "  small-model: { input: 0.2, output: 0.8 }", "  default: { input: 1, output: 4 }"],
  },
  "diff_policy.max_files_changed": {
    kind: COUNT,
    built_in: 0,
    doc: "A diff of more files fails its task; 0 is no cap.",
  },
  "diff_policy.max_lines_changed": {
    kind: COUNT,
    built_in: 0,
    doc: "A diff of more lines, added and deleted together, fails its task; 0 is no cap.",
  },
  "diff_policy.blocked_paths": {
    kind: GLOBS,
    built_in: [],
    doc: "A diff that touches one of these paths fails its task. * stays within a path segment, ** crosses them.",
    example: ['blocked_paths: ["infra/**", "**/*.pem"]'],
  },
  "diff_policy.second_look_paths": {
    kind: GLOBS,
    built_in: [],
    doc: "The approver has to acknowledge a diff that touches one of these paths.",
    example: ['second_look_paths: ["migrations/**"]'],
  },
  "profiles.repos": {
    kind: PROFILES,
    built_in: {},
    doc:
      "How tasks of a repository are prepared, by host/owner/repo. Commands are lists of arguments; timeout is for " +
      "each command, 0 is 10m; cache opts in to the dependency cache.",
    example: [
      "repos:",
      "  git.example.com/owner/repo:",
      '    setup: [["npm", "ci"]]',
      '    readiness: [["npm", "test"]]',
      "    timeout: 10m",
      "    cache: true",
    ],
  },
  "ci.watch": {
    kind: SWITCH,
    built_in: false,
    env: "TASKD_CI_WATCH",
    fromEnv: (text) => text === "1",
    doc: "Watch the checks of a pushed pull request. Of TASKD_CI_WATCH, only the exact value 1 enables it.",
  },
  "ci.poll_interval": {
    kind: duration({ maximum: MAX_WAIT, minimum: "10s", zero_means: "60s" }),
    built_in: "60s",
    env: "TASKD_CI_POLL_INTERVAL",
    doc: "Time between looks, each one call to the code host; 0 is the built-in default.",
  },
  "ci.watch_timeout": {
    kind: duration({ maximum: MAX_WINDOW, zero_means: "90m" }),
    built_in: "90m",
    env: "TASKD_CI_WATCH_TIMEOUT",
    doc: "Deadline from the push on, also across restarts, longer than both 5m and twice poll_interval; 0 is the " +
      "built-in default.",
  },
  "ci.max_attempts": {
    kind: cappedInteger(10),
    built_in: 0,
    env: "TASKD_CI_MAX_ATTEMPTS",
    doc: "Retries after a failed check, each a new task with a fresh budget; 0 is off. Needs an approval_timeout.",
  },
};

/** The paths of the table, in its order. */
export const SETTING_PATHS: readonly SettingPath[] = Object.keys(SETTINGS) as SettingPath[];
