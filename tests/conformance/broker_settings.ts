/**
 * The settings of the task broker's contract, row by row: name, variable, default and meaning. Written from the contract
 * and from nothing of the program, which is held to them.
 */

/** A row. */
export interface ContractSetting {
  path: string;
  /** Its variable; null when it has none. */
  variable: string | null;
  /** Its default: durations as text, anything else as JSON. */
  built_in: unknown;
  /** What it is for; undefined where that is more than one statement. */
  effect?: string;
}

function row(path: string, variable: string | null, built_in: unknown, effect?: string): ContractSetting {
  return { path, variable, built_in, ...(effect === undefined ? {} : { effect }) };
}

/** The tables, in their order; `~` is the user's home directory. */
export const CONTRACT_SETTINGS: readonly ContractSetting[] = [
  row(
    "vendor_a_auth",
    "TASKD_VENDOR_A_AUTH",
    "api_key",
    "`api_key` uses `VENDORA_API_KEY`; `subscription` uses `~/.taskd/vendor_a-oauth.json`.",
  ),
  row(
    "vendor_b_auth",
    "TASKD_VENDOR_B_AUTH",
    "api_key",
    "`api_key` uses `VENDORB_API_KEY`; `subscription` uses `~/.taskd/vendor_b-oauth.json`.",
  ),
  row("default_agent", "TASKD_DEFAULT_AGENT", "agent_a", "The agent when none is named."),
  row(
    "default_model",
    "TASKD_DEFAULT_MODEL",
    "",
    "For `agent_a` and `agent_b` alone, when no model is named; empty lets the agent pick. `agent_c` has its own default, `agent_d` uses `compat.model`.",
  ),
  row(
    "task_budget_usd",
    "TASKD_TASK_BUDGET_USD",
    2,
    "A task's soft cap, metered after the fact, overshot by at most `task_max_inflight` requests; unused with a subscription.",
  ),
  row(
    "task_max_inflight",
    "TASKD_TASK_MAX_INFLIGHT",
    1,
    "Concurrent requests admitted for a task; 0 disables the cap.",
  ),
  row(
    "max_request_cost_usd",
    "TASKD_MAX_REQUEST_COST_USD",
    0,
    "Reserved for each request in flight, so that concurrent ones cannot admit past the budget.",
  ),
  row(
    "task_max_requests",
    "TASKD_TASK_MAX_REQUESTS",
    0,
    "Hard cap on a task's round-trips; 0 is the built-in 1000, also with a subscription.",
  ),
  row(
    "aggregate_budget_usd",
    "TASKD_AGGREGATE_BUDGET_USD",
    0,
    "Ceiling across tasks for each provider that is paid by key; 0 disables it; subscriptions are out of scope.",
  ),
  row(
    "aggregate_window",
    "TASKD_AGGREGATE_WINDOW",
    "24h",
    "Rolling window; 0 is the total since the broker's boot, reset by a restart.",
  ),
  row(
    "global_budget_usd",
    "TASKD_GLOBAL_BUDGET_USD",
    0,
    "USD limb: what the broker metered across all vendors and both auth modes over `global_window`; 0 disables it.",
  ),
  row(
    "global_max_tasks",
    "TASKD_GLOBAL_MAX_TASKS",
    0,
    "Task limb: starts across all vendors and both auth modes over `global_window`; 0 disables it.",
  ),
  row(
    "global_window",
    "TASKD_GLOBAL_WINDOW",
    "24h",
    "Rolling window of both limbs; `0s` is the total, where nothing ages out; durable across restarts.",
  ),
  row("task_timeout", null, "30m", "A task's limit of wall-clock time."),
  row("approval_timeout", null, "0s", "A task left at its gate this long is denied; 0 waits without end."),
  row("max_concurrent_tasks", "TASKD_MAX_CONCURRENT_TASKS", 2, "One submission more is answered with 503."),
  row("notifications", "TASKD_NO_NOTIFY", true, "A desktop notification of a pending approval."),
  row(
    "push_max_retries",
    "TASKD_PUSH_MAX_RETRIES",
    3,
    "Pushes that failed for the network are retried, with exponential backoff; 0 disables it.",
  ),
  row("push_retry_backoff", "TASKD_PUSH_RETRY_BACKOFF", "1s", "The base delay, times 2^n; 0 disables the delay."),
  row(
    "push_fresh_branch_tries",
    "TASKD_PUSH_FRESH_BRANCH_TRIES",
    2,
    "Other branch names, `agent/<id>-2`, `-3`, tried when the name is taken; 0 disables them.",
  ),
  row("network", "TASKD_NETWORK", "taskd-egress", "Name of the sandboxes' network."),
  row("gateway_ip", "TASKD_GW_IP", "192.168.66.1", "Address where the gateway and the proxy listen."),
  row("sandbox_image", "SANDBOX_IMAGE", "taskd-sandbox:latest", "Image of each task's sandbox."),
  row("anchor_image", "TASKD_ANCHOR_IMAGE", "taskd-anchor:latest", "Small image that holds the gateway's address."),
  row("stage_root", "STAGE_ROOT", "~/.taskd/stage", "A task's scratch."),
  row("audit_root", "AUDIT_ROOT", "~/.taskd/audit", "Records of tasks; 0700, logs and diffs 0600."),
  row("squid_run_dir", "SQUID_RUN_DIR", "~/.taskd/squid", "What the proxy writes."),
  row("cache_root", "TASKD_CACHE_ROOT", "~/.taskd/cache", "Dependency caches, kept for each repository."),
  row(
    "cache_quota_gb",
    "TASKD_CACHE_QUOTA_GB",
    20,
    "Bound of the disk in GiB, the least recently used evicted; 0 disables caching, also for who asks for it.",
  ),
  row(
    "broker.socket",
    "BROKER_SOCKET",
    "$TMPDIR/taskd-$UID/taskd.sock",
    "The unix socket; 0600 in a directory of 0700.",
  ),
  row("broker.addr", "BROKER_ADDR", "", "`host:port` to be reached over TCP, without authentication; empty is none."),
  row("log_json", "TASKD_LOG_JSON", false, "JSON logs also on a terminal."),
  row(
    "strict_container_version",
    "TASKD_STRICT_CONTAINER_VERSION",
    false,
    "Refuses a container runtime whose major version is outside of the tested range.",
  ),
  row("diff_policy.max_files_changed", null, 0),
  row("diff_policy.max_lines_changed", null, 0),
  row("diff_policy.blocked_paths", null, []),
  row("diff_policy.second_look_paths", null, []),
  row("profiles.repos", null, {}),
  row("ci.watch", "TASKD_CI_WATCH", false),
  row("ci.poll_interval", "TASKD_CI_POLL_INTERVAL", "60s"),
  row("ci.watch_timeout", "TASKD_CI_WATCH_TIMEOUT", "90m"),
  row("ci.max_attempts", "TASKD_CI_MAX_ATTEMPTS", 0),
  row("compat.base_url", null, ""),
  row("compat.base_path", null, ""),
  row("compat.api_key_env", null, ""),
  row("compat.model", null, ""),
  row("compat.prices", null, {}),
];
