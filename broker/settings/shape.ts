/**
 * What the broker's settings come to, and what the table says of each: the types alone.
 *
 * @module
 */

import type { AgentName } from "../agents.ts";
import type { Kind } from "./kinds.ts";
import type { BuiltIn } from "./nodes.ts";
import type { Price, Profile } from "./policies.ts";

/** How a vendor is paid. */
export type VendorAuth = "api_key" | "subscription";

/** What runs sandboxes; `auto` takes the first that is installed. */
export type RuntimeName = "auto" | "podman" | "docker" | "container" | "deno";

/** Every setting, checked. Durations are milliseconds; paths are absolute; an empty text is "none". */
export interface Settings {
  vendor_a_auth: VendorAuth;
  vendor_b_auth: VendorAuth;
  default_agent: AgentName;
  /** Empty: the agent picks. For agent_a and agent_b only. */
  default_model: string;
  task_budget_usd: number;
  /** 0: no cap. */
  task_max_inflight: number;
  /** 0: nothing is reserved. */
  max_request_cost_usd: number;
  /** 0: the gateway's own 1000. */
  task_max_requests: number;
  /** 0: no ceiling. */
  aggregate_budget_usd: number;
  /** Milliseconds; 0: since the broker's start. */
  aggregate_window: number;
  /** 0: this limb is off. */
  global_budget_usd: number;
  /** 0: this limb is off; else at least `max_concurrent_tasks`. */
  global_max_tasks: number;
  /** Milliseconds; 0: nothing ages out. */
  global_window: number;
  /** Milliseconds. */
  task_timeout: number;
  /** Milliseconds; 0: waits for ever. Not 0 when `ci.max_attempts` is above 0. */
  approval_timeout: number;
  max_concurrent_tasks: number;
  notifications: boolean;
  push_max_retries: number;
  /** Milliseconds; doubles with each retry. */
  push_retry_backoff: number;
  push_fresh_branch_tries: number;
  network: string;
  gateway_ip: string;
  sandbox_image: string;
  anchor_image: string;
  stage_root: string;
  audit_root: string;
  squid_run_dir: string;
  cache_root: string;
  /** GiB; 0: no caching at all. */
  cache_quota_gb: number;
  log_json: boolean;
  strict_container_version: boolean;
  runtime: RuntimeName;
  oci_runtime: string;
  allow_vendor_tools: string[];
  broker: {
    socket: string;
    /** `host:port`; there is no authentication on it. */
    addr: string;
  };
  branch_store: {
    /** Of the daemon that keeps databases. */
    socket: string;
  };
  upstreams: { vendor_a: string; vendor_b: string; vendor_c: string };
  compat: {
    /** Origin of the endpoint; empty: agent_d has none. */
    base_url: string;
    base_path: string;
    /** The variable's name, never the key. */
    api_key_env: string;
    model: string;
    /** By model id; `default` is for every other. */
    prices: Record<string, Price>;
  };
  diff_policy: {
    /** 0: no cap. */
    max_files_changed: number;
    /** 0: no cap. */
    max_lines_changed: number;
    blocked_paths: string[];
    second_look_paths: string[];
  };
  profiles: {
    /** By canonical `host/owner/repo`. */
    repos: Record<string, Profile>;
  };
  ci: {
    watch: boolean;
    /** Milliseconds, never 0. */
    poll_interval: number;
    /** Milliseconds from the push, never 0. */
    watch_timeout: number;
    /** 0: no retries; at most 10. */
    max_attempts: number;
  };
}

/** Settings that hold others. */
export const GROUPS = ["broker", "branch_store", "upstreams", "compat", "diff_policy", "profiles", "ci"] as const;

/** Name of a group. */
type Group = (typeof GROUPS)[number];

/** Dotted path of a setting in config.yaml. */
export type SettingPath = {
  [K in keyof Settings]: K extends Group ? `${K}.${Extract<keyof Settings[K], string>}` : K;
}[keyof Settings];

/** Type of the value at a path. */
export type ValueAt<P extends SettingPath> = P extends keyof Settings ? Settings[P]
  : P extends `${infer G extends Group}.${infer F}` ? F extends keyof Settings[G] ? Settings[G][F] : never
  : never;

/** What the table says of a setting. */
export interface SettingRow<T> {
  kind: Kind<T>;
  /** The default, as the file would have it. */
  built_in: BuiltIn;
  /** The variable that overrides it. */
  env?: string;
  /** What the variable's text comes to where it is not read like the file's; undefined: it does not count. */
  fromEnv?: (text: string) => T | undefined;
  /** Whether two resolutions that differ in it diverge; true unless it is only about where the broker listens. */
  compared?: false;
  /** One or two sentences, without backquotes. */
  doc: string;
  /** Lines of YAML that show its use, for the seeded file. */
  example?: readonly string[];
}
