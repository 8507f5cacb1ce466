/**
 * What the engine works with. It only knows what it asks of each part, so that a test can put another in its place.
 */

import type { Clock } from "../../lib/clock.ts";
import type { Admission } from "../admission/admission.ts";
import type { Lane } from "../agents.ts";
import type { QueueItemView } from "../api/wire.ts";
import type { SubmitRequest, TaskOrder, TaskRecord } from "../task/schema.ts";
import type { TaskDatabases } from "../databases/task_databases.ts";
import type { EgressProxy } from "../egress/proxy.ts";
import type { GatewayLease, LeaseOptions } from "../gateway/lease.ts";
import type { CredentialSources } from "../git/credentials.ts";
import type { Git } from "../git/git.ts";
import type { RepoUrl } from "../git/repo_url.ts";
import type { Gh } from "../git/gh.ts";
import type { Log } from "../../lib/log.ts";
import type { CommandWorkload, SandboxRuntime } from "../sandbox/runtime.ts";
import type { ResolvedSettings } from "../settings/load.ts";
import type { Profile, VendorAuth } from "../settings/settings.ts";
import type { Task } from "../task/task.ts";
import type { TaskStore } from "../task/task_store.ts";
import type { RunSetupResult } from "./profile/run_setup.ts";

/** What prepares a work tree before the agent runs. */
export interface SetupRequest {
  order: TaskOrder;
  repo: RepoUrl;
  profile: Profile;
  /** Absolute; the commands change it. */
  work_dir: string;
  /** What was staged: lockfiles are read from there. */
  git_dir: string;
  base_commit: string;
  /** URL of the egress proxy, with the task's password. */
  proxy_url: string;
  /** Where the combined output goes. */
  log_path: string;
  signal: AbortSignal;
  onLine(text: string): void;
}

export interface SetupResult extends RunSetupResult {
  /** What the agent gets to see of the dependency cache. */
  mounts: CommandWorkload["mounts"];
  /** What leads package managers there. */
  env: Readonly<Record<string, string>>;
  /** Releases the cache; called once, when the agent has ended. */
  release(): Promise<void>;
}

/** A task that came to the gate, for notifications. */
export interface AtGate {
  task_id: string;
  repo: string;
  instruction: string;
}

export interface CiWatch {
  /** Takes a task in `awaiting_ci`, until it has ended or `signal`; does not reject. */
  watch(task: Task, signal: AbortSignal): Promise<void>;
}

export interface TaskQueue {
  enqueue(request: SubmitRequest): Promise<QueueItemView>;
  list(): QueueItemView[];
  cancel(id: string): Promise<void>;
  /** Resolves once nothing of it runs any more. */
  stop(): Promise<void>;
}

/** Where a task that no person has just submitted comes from; part of the task's order. */
export type TaskOrigin = Pick<TaskOrder, "retry_of" | "ci_attempt" | "queue_id">;

/** What the queue and the watch may ask of the engine. */
export interface EngineOperations {
  /** As the listeners' `submit`. */
  submit(request: SubmitRequest, origin?: TaskOrigin): Promise<TaskRecord>;
  kill(id: string, reason: string): Promise<void>;
}

export interface EngineDeps {
  resolved: ResolvedSettings;
  tasks: TaskStore;
  git: Git;
  runtime: SandboxRuntime;
  /** Opens the gateway for a task. */
  gateway: { lease(options: LeaseOptions): GatewayLease };
  /** `http://host:port` of the gateway, as sandboxes reach it. */
  gateway_url: string;
  proxy: Pick<EgressProxy, "admit">;
  admission: Pick<Admission, "claim" | "adopt" | "settled" | "ceiling">;
  /** The operator's, for clone and push. */
  credentials: CredentialSources;
  /** Opens pull requests; absent where gh is not installed. */
  code_host?: Pick<Gh, "createPullRequest">;
  /** Says what keeps a lane from being paid; undefined when nothing does. */
  credentialProblem(lane: Lane, auth: VendorAuth): Promise<string | undefined>;
  setup(request: SetupRequest): Promise<SetupResult>;
  /** Branches of databases for tasks; absent where there is no branch store. */
  databases?: TaskDatabases;
  /** Called when a task begins to wait for a person. */
  notify?: (task: AtGate) => void;
  ci?: (engine: EngineOperations) => CiWatch;
  queue?: (engine: EngineOperations) => TaskQueue;
  log: Log;
  clock: Clock;
}
