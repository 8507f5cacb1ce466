/**
 * The one table of the broker's settings: its path in config.yaml, the variable that overrides it, its
 * default, its schema and what it means. The loader, the `Settings` type, the seeded files, `policy explain` and the
 * reference in docs/ are derived from it.
 */

import type * as v from "valibot";
import { AGENTS, type Lane } from "../agents.ts";
import * as places from "./path_and_url_schemas.ts";
import { FIELD_PATHS, GLOBS, PRICES, PROFILES, TOOL_NAMES } from "./policy_schemas.ts";
import {
  cappedInteger,
  choice,
  decimal,
  duration,
  integer,
  MAX_WAIT,
  MAX_WINDOW,
  MODEL,
  type SettingRow,
  SWITCH,
} from "./value_schemas.ts";
import { MAX_FILE_BYTES } from "../git/file_change.ts";
import { GATEWAY_PORT, PROXY_PORT } from "../egress/ports.ts";

export type { Profile, ProfileCheck } from "./policy_schemas.ts";

/** Variables that turn something on or off, and only with the value `1`. */
const whenOne = (value: boolean) => (text: string) => text === "1" ? value : undefined;

const AUTH = choice(["api_key", "subscription"]);
const AGENT = choice(AGENTS.map(({ name }) => name), new Map(AGENTS.map(({ label, name }) => [label, name])));
const ON_MOVED_BASE = choice(["merge", "promote_only"]);
const BUDGET_MODE = choice(["soft", "strict"]);
const RUNTIME = choice(["auto", "podman", "docker", "container", "bubblewrap", "deno"]);
const USD = decimal("USD", 1_000_000);
const COUNT = integer(0, 1_000_000_000);

const TABLE = {
  vendor_a_auth: {
    value: AUTH,
    built_in: "api_key",
    env: "TASKD_VENDOR_A_AUTH",
    doc: "Anthropic: api_key uses VENDORA_API_KEY; subscription uses ~/.taskd/vendor_a-oauth.json.",
  },
  vendor_b_auth: {
    value: AUTH,
    built_in: "api_key",
    env: "TASKD_VENDOR_B_AUTH",
    doc: "OpenAI: api_key uses VENDORB_API_KEY; subscription uses ~/.taskd/vendor_b-oauth.json.",
  },
  default_agent: {
    value: AGENT,
    built_in: "agent_a",
    env: "TASKD_DEFAULT_AGENT",
    doc: `Agent when --agent is omitted: ${AGENTS.map(({ name, label }) => `${name} (${label})`).join(", ")}.`,
  },
  default_model: {
    value: MODEL,
    built_in: "",
    env: "TASKD_DEFAULT_MODEL",
    doc: "Model when --model is omitted, for agent_a and agent_b only; empty lets the agent pick.",
  },
  task_budget_usd: {
    value: USD,
    built_in: 2,
    env: "TASKD_TASK_BUDGET_USD",
    doc: "Soft cap on what a task spends, metered after the fact: at most task_max_inflight requests overshoot it. " +
      "With api_key only.",
  },
  budget_mode: {
    value: BUDGET_MODE,
    built_in: "soft",
    doc:
      "With `strict`, a request goes out only if the most that it could cost has room in the task's budget and under " +
      "the ceilings; what it did cost takes its place. A model without a price is not bounded.",
  },
  task_max_inflight: {
    value: COUNT,
    built_in: 1,
    env: "TASKD_TASK_MAX_INFLIGHT",
    doc: "Requests of a task that the gateway admits at the same time; 0 disables the cap.",
  },
  max_request_cost_usd: {
    value: USD,
    built_in: 0,
    env: "TASKD_MAX_REQUEST_COST_USD",
    doc: "Reserved for each request in flight, so that concurrent ones cannot admit past the budget; 0 disables it.",
  },
  task_max_requests: {
    value: COUNT,
    built_in: 0,
    env: "TASKD_TASK_MAX_REQUESTS",
    doc: "Hard cap on a task's API round-trips; 0 is the built-in 1000. The main control with a subscription.",
  },
  aggregate_budget_usd: {
    value: USD,
    built_in: 0,
    env: "TASKD_AGGREGATE_BUDGET_USD",
    doc: "Ceiling across tasks for each vendor that is paid with a key, over aggregate_window; 0 disables it.",
  },
  aggregate_window: {
    value: duration({ maximum: MAX_WINDOW }),
    built_in: "24h",
    env: "TASKD_AGGREGATE_WINDOW",
    doc: "Rolling window; 0 is the total since the broker started.",
  },
  global_budget_usd: {
    value: USD,
    built_in: 0,
    env: "TASKD_GLOBAL_BUDGET_USD",
    doc: "Global ceiling, USD limb: what the broker metered for all vendors, over global_window; 0 disables it.",
  },
  global_max_tasks: {
    value: COUNT,
    built_in: 0,
    env: "TASKD_GLOBAL_MAX_TASKS",
    doc: "Global ceiling, task limb: task starts over global_window, retries included; 0 disables it, otherwise at " +
      "least max_concurrent_tasks.",
  },
  global_window: {
    value: duration({ maximum: MAX_WINDOW }),
    built_in: "24h",
    env: "TASKD_GLOBAL_WINDOW",
    doc: "Rolling window of both limbs, kept across restarts; 0s is the total: nothing ages out.",
  },
  task_timeout: {
    value: duration({ maximum: MAX_WAIT, minimum: "1s", zero_means: "30m" }),
    built_in: "30m",
    doc: "Wall-clock limit of a task; 0 is the built-in default.",
  },
  approval_timeout: {
    // Gates are checked at intervals, so that no timer has to wait this long.
    value: duration({ maximum: MAX_WINDOW }),
    built_in: "0s",
    doc: "A task left at an approval gate this long is denied; 0 waits forever, which ci.max_attempts above 0 forbids.",
  },
  max_concurrent_tasks: {
    value: integer(1, 1_000),
    built_in: 2,
    env: "TASKD_MAX_CONCURRENT_TASKS",
    doc: "Tasks that run at the same time; one more is answered with HTTP 503.",
  },
  notifications: {
    value: SWITCH,
    built_in: true,
    env: "TASKD_NO_NOTIFY",
    fromEnv: whenOne(false),
    doc: "Desktop notification when an approval is pending; TASKD_NO_NOTIFY=1 turns it off.",
  },
  push_max_retries: {
    value: integer(0, 10),
    built_in: 3,
    env: "TASKD_PUSH_MAX_RETRIES",
    doc: "Retries of a push that failed for network reasons; 0 disables them.",
  },
  push_retry_backoff: {
    // Doubled ten times it is still less than what timers can wait.
    value: duration({ maximum: "10m" }),
    built_in: "1s",
    env: "TASKD_PUSH_RETRY_BACKOFF",
    doc: "Delay before the first retry, doubled for each further one; 0 disables the delay.",
  },
  push_retry_for: {
    value: duration({ maximum: "30d" }),
    built_in: "24h",
    doc: "How long an approved change that could not land is tried again by itself, at growing intervals of at most " +
      "an hour; 0, or push_max_retries 0, leaves it to `taskd push`.",
  },
  push_fresh_branch_tries: {
    value: integer(0, 100),
    built_in: 2,
    env: "TASKD_PUSH_FRESH_BRANCH_TRIES",
    doc: "Other branch names (agent/<id>-2, -3, ...) tried when the remote has the name already; 0 disables them.",
  },
  on_moved_base: {
    value: ON_MOVED_BASE,
    built_in: "merge",
    doc:
      "What becomes of an approved change to a database whose base has moved since the task began, or is open in a " +
      "session: `merge` brings its rows into what the base holds by now, and lands nothing where that is in conflict; " +
      "with `promote_only` it waits for a person.",
  },
  network: {
    value: places.NETWORK,
    built_in: "taskd-egress",
    env: "TASKD_NETWORK",
    doc: "Name of the sandboxes' network.",
  },
  gateway_ip: {
    value: places.BIND_ADDRESS,
    built_in: "192.168.66.1",
    env: "TASKD_GW_IP",
    doc: `Address of the gateway (port ${GATEWAY_PORT}) and the egress proxy (port ${PROXY_PORT}).`,
  },
  sandbox_image: {
    value: places.IMAGE,
    built_in: "taskd-sandbox:latest",
    env: "SANDBOX_IMAGE",
    doc: "Image of a task's sandbox.",
  },
  anchor_image: {
    value: places.IMAGE,
    built_in: "taskd-anchor:latest",
    env: "TASKD_ANCHOR_IMAGE",
    doc: "Small image that holds the network's gateway address.",
  },
  stage_root: { value: places.PATH, built_in: "~/.taskd/stage", env: "STAGE_ROOT", doc: "Work trees of tasks." },
  audit_root: {
    value: places.PATH,
    built_in: "~/.taskd/audit",
    env: "AUDIT_ROOT",
    doc: "Traces, logs and diffs of tasks; 0700, its files 0600.",
  },
  squid_run_dir: {
    value: places.PATH,
    built_in: "~/.taskd/squid",
    env: "SQUID_RUN_DIR",
    doc: "The egress proxy's access log.",
  },
  cache_root: {
    value: places.PATH,
    built_in: "~/.taskd/cache",
    env: "TASKD_CACHE_ROOT",
    doc: "Dependency caches of repositories, and mirrors of them.",
  },
  cache_quota_gb: {
    value: decimal("GiB", 1_000_000),
    built_in: 20,
    env: "TASKD_CACHE_QUOTA_GB",
    doc:
      "Disk space of all caches, the longest unused evicted first; 0 disables caching also where a profile asks for it.",
  },
  mirror_quota_gb: {
    value: decimal("GiB", 1_000_000),
    built_in: 20,
    doc: "Disk space of the mirrors of repositories below cache_root, the longest unused removed first; 0 keeps none.",
  },
  task_disk_gb: {
    value: decimal("GiB", 1_000_000),
    built_in: 10,
    doc: "Disk space of a task: its work tree, home, copies of databases and the cache that its setup fills, by the " +
      "blocks that they take. A task that is found above it ends as failed; 0 disables it.",
  },
  log_json: {
    value: SWITCH,
    built_in: false,
    env: "TASKD_LOG_JSON",
    fromEnv: whenOne(true),
    doc: "JSON logs also on a terminal; TASKD_LOG_JSON=1 turns them on.",
  },
  strict_container_version: {
    value: SWITCH,
    built_in: false,
    env: "TASKD_STRICT_CONTAINER_VERSION",
    fromEnv: whenOne(true),
    doc: "Refuse a container runtime whose major version was not tested; TASKD_STRICT_CONTAINER_VERSION=1 turns it on.",
  },
  runtime: {
    value: RUNTIME,
    built_in: "auto",
    doc: "What runs sandboxes; bubblewrap runs programs of this machine, deno is the embedded one, for agent_d alone.",
  },
  "sandbox.read": {
    value: places.PATHS,
    built_in: [],
    doc: "Folders of this machine that sandboxes of the runtime bubblewrap see beside the system's, read-only.",
    example: ["read: [~/tools/zig]"],
  },
  oci_runtime: {
    value: places.OCI_RUNTIME,
    built_in: "",
    doc: "OCI runtime under podman or docker, such as runsc or kata; empty takes theirs.",
  },
  allow_vendor_tools: {
    value: TOOL_NAMES,
    built_in: [],
    doc: "What a vendor may do for an agent, past the egress list, by the names that the gateway's refusals give.",
    example: ["allow_vendor_tools: [web_search]"],
  },
  "broker.socket": {
    value: places.SOCKET_PATH,
    built_in: "$TMPDIR/taskd-$UID/taskd.sock",
    in_runtime_dir: "taskd/taskd.sock",
    env: "BROKER_SOCKET",
    compared: false,
    doc: "Unix socket of the broker (taskd start), 0600 in a directory of 0700; by default taskd/taskd.sock in " +
      "XDG_RUNTIME_DIR where that is this user's alone.",
  },
  "broker.addr": {
    value: places.LISTEN_ADDRESS,
    built_in: "",
    env: "BROKER_ADDR",
    compared: false,
    doc: "host:port where the broker also listens, without any authentication; empty for none. Tasks from there name " +
      "neither databases nor further hosts. api_addr asks for tokens, and metrics_addr is for Prometheus.",
  },
  "broker.api_addr": {
    value: places.LISTEN_ADDRESS,
    built_in: "",
    compared: false,
    doc:
      "host:port where the broker also listens for clients with a token of taskd token create, which says what each " +
      "may do; empty for none.",
    example: ["api_addr: 127.0.0.1:9466"],
  },
  "broker.api_allow_non_loopback": {
    value: SWITCH,
    built_in: false,
    doc:
      "Let api_addr be an address that others can reach. Tokens cross the network in the clear then: a server with " +
      "TLS belongs in front, and on this machine it needs no such address.",
  },
  "broker.metrics_addr": {
    value: places.LISTEN_ADDRESS,
    built_in: "",
    compared: false,
    doc: "host:port where GET /metrics and GET /healthz are served, and nothing else; empty for none.",
    example: ["metrics_addr: 127.0.0.1:9465"],
  },
  "broker.metrics_token_env": {
    value: places.VARIABLE_NAME,
    built_in: "",
    secret: true,
    doc:
      "Name of the variable, of the environment or of ~/.taskd/api-keys.env, with the bearer token that /metrics of " +
      "metrics_addr asks for; empty asks for none. The token itself is never in this file.",
  },
  "branch_store.socket": {
    value: places.SOCKET_PATH,
    built_in: "~/.taskd/store/taskd.sock",
    doc:
      "Unix socket of the branch store (taskd serve), in the store's directory, for tasks that work on databases. A " +
      "store elsewhere, as by BSTORE_STORE, whose prefix stands for branch store, is named here.",
  },
  "upstreams.vendor_a": {
    value: places.UPSTREAM_URL,
    built_in: "https://api.anthropic.com",
    doc: "Where requests of agent_a go; https, or http of localhost.",
  },
  "upstreams.vendor_b": {
    value: places.UPSTREAM_URL,
    built_in: "https://api.openai.com",
    doc: "Where requests of agent_b go, likewise.",
  },
  "upstreams.vendor_c": {
    value: places.UPSTREAM_URL,
    built_in: "https://generativelanguage.googleapis.com",
    doc: "Where requests of agent_c go, likewise.",
  },
  "compat.base_url": {
    value: places.ENDPOINT_URL,
    built_in: "",
    doc: "The OpenAI-compatible endpoint of agent_d: https, or http of localhost, without a path; empty disables it.",
    example: ["base_url: http://localhost:11434"],
  },
  "compat.base_path": {
    value: places.ENDPOINT_PATH,
    built_in: "",
    doc: "Path joined onto each request, in the place of /v1.",
  },
  "compat.api_key_env": {
    value: places.VARIABLE_NAME,
    built_in: "",
    secret: true,
    doc: "Name of the variable that holds the endpoint's key; the key itself is never in this file.",
  },
  "compat.model": { value: MODEL, built_in: "", doc: "Model id that agent_d is given." },
  "compat.prices": {
    value: PRICES,
    built_in: {},
    doc:
      "Prices by model id, USD per 1M tokens; default is for every other model. Requests to a model without one are unmetered.",
    example: ["prices:", "  small-model: { input: 0.2, output: 0.8 }", "  default: { input: 1, output: 4 }"],
  },
  "compat.allow_fields": {
    value: FIELD_PATHS,
    built_in: [],
    doc: "Fields of requests that the endpoint takes beside those that the gateway knows, by the names that its " +
      "refusals give; with `.*` also all that is in one.",
    example: ["allow_fields: [chat_template_kwargs.custom_flag, guided_json.*]"],
  },
  "diff_policy.max_files_changed": {
    value: COUNT,
    built_in: 0,
    doc: "A diff of more files fails its task; 0 is no cap.",
  },
  "diff_policy.max_lines_changed": {
    value: COUNT,
    built_in: 0,
    doc: "A diff of more lines, added and deleted together, fails its task; 0 is no cap.",
  },
  "diff_policy.blocked_paths": {
    value: GLOBS,
    built_in: [],
    doc: "A diff that touches one of these paths fails its task. * stays within a path segment, ** crosses them.",
    example: ['blocked_paths: ["infra/**", "**/*.pem"]'],
  },
  "diff_policy.second_look_paths": {
    value: GLOBS,
    built_in: [],
    doc: "The approver has to acknowledge a diff that touches one of these paths.",
    example: ['second_look_paths: ["migrations/**"]'],
  },
  max_file_bytes: {
    value: integer(1, 1_000_000_000),
    built_in: MAX_FILE_BYTES,
    doc: "A larger file of a work tree, in bytes, is left out of the change, and the approver has to acknowledge that.",
  },
  run_hooks_of: {
    value: places.PATHS,
    built_in: [],
    doc:
      "Repositories on this machine whose own hooks and settings may run programs as you when a task is staged from " +
      "them or pushed to them; of all others nothing runs.",
    example: ["run_hooks_of: [/srv/git/shop.git]"],
  },
  "profiles.repos": {
    value: PROFILES,
    built_in: {},
    doc:
      "How tasks of a repository are prepared, by host/owner/repo. Commands are lists of arguments; timeout is for " +
      "each command, 0 is 10m; cache opts in to the dependency cache; second_look_paths are the repository's own; checks " +
      "are queries that the gate shows on both sides of a changed database.",
    example: [
      "repos:",
      "  git.example.com/owner/repo:",
      '    setup: [["npm", "ci"]]',
      '    readiness: [["npm", "test"]]',
      "    timeout: 10m",
      "    cache: true",
      '    second_look_paths: ["db/**"]',
      "    checks:",
      "      - { name: orders, database: shop, sql: SELECT sum(total) FROM orders }",
    ],
  },
  "ci.watch": {
    value: SWITCH,
    built_in: false,
    env: "TASKD_CI_WATCH",
    fromEnv: (text) => text === "1",
    doc: "Watch the checks of a pushed pull request. Of TASKD_CI_WATCH, only the exact value 1 enables it.",
  },
  "ci.poll_interval": {
    value: duration({ maximum: MAX_WAIT, minimum: "10s", zero_means: "60s" }),
    built_in: "60s",
    env: "TASKD_CI_POLL_INTERVAL",
    doc: "Time between two calls to the code host; 0 is the built-in default.",
  },
  "ci.watch_timeout": {
    value: duration({ maximum: MAX_WINDOW, zero_means: "90m" }),
    built_in: "90m",
    env: "TASKD_CI_WATCH_TIMEOUT",
    doc: "Deadline from the push on, also across restarts, longer than both 5m and twice poll_interval; 0 is the " +
      "built-in default.",
  },
  "ci.max_attempts": {
    value: cappedInteger(10),
    built_in: 0,
    env: "TASKD_CI_MAX_ATTEMPTS",
    doc: "Retries after a failed check, each a new task with a fresh budget; 0 is off. Needs an approval_timeout.",
  },
} satisfies Record<string, SettingRow>;

export type SettingPath = keyof typeof TABLE;
type Group = SettingPath extends infer P ? P extends `${infer G}.${string}` ? G : never : never;
type ValueAt<P> = P extends SettingPath ? v.InferOutput<(typeof TABLE)[P]["value"]> : never;
type NameIn<G extends Group> = SettingPath extends infer P ? P extends `${G}.${infer N}` ? N : never : never;

/** Every setting, checked. Durations are milliseconds; paths are absolute; an empty text means none. */
export type Settings = {
  [K in Exclude<SettingPath, `${string}.${string}`> | Group]: K extends Group
    ? { [N in NameIn<K>]: ValueAt<`${K}.${N}`> }
    : ValueAt<K>;
};

export type VendorAuth = Settings["vendor_a_auth"];

/** How a lane is paid. */
export function authOf(settings: Pick<Settings, "vendor_a_auth" | "vendor_b_auth">, lane: Lane): VendorAuth {
  if (lane === "vendor_a") return settings.vendor_a_auth;
  return lane === "vendor_b" ? settings.vendor_b_auth : "api_key";
}

/** What runs sandboxes; `auto` takes the first that works. */
export type RuntimeName = Settings["runtime"];

export const SETTINGS: { readonly [P in SettingPath]: SettingRow } = TABLE;
export const SETTING_PATHS = Object.keys(TABLE) as readonly SettingPath[];
export const GROUPS: readonly Group[] = [
  ...new Set(SETTING_PATHS.filter((path) => path.includes(".")).map((path) => path.split(".")[0] as Group)),
];
