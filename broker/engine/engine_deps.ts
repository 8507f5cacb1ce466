/**
 * What the engine works with. It only knows what it asks of each part, so that a test can put another in its place.
 */

import type { Clock } from "../../lib/clock.ts";
import type { Admission } from "../admission/admission.ts";
import type { Lane } from "../agents.ts";
import type { Submitter } from "../api/engine.ts";
import type { QueueItemView } from "../api/wire.ts";
import type { SubmitRequest, TaskOrder, TaskRecord } from "../task/schema.ts";
import type { TaskDatabases } from "../databases/task_databases.ts";
import type { Dialer } from "../egress/dialer.ts";
import type { EgressProxy } from "../egress/proxy.ts";
import type { GatewayLease, LeaseOptions } from "../gateway/lease.ts";
import type { CredentialSources } from "../git/credentials.ts";
import type { Git } from "../git/git.ts";
import type { Mirrors } from "../git/mirrors.ts";
import type { RepoUrl } from "../git/repo_url.ts";
import type { Gh } from "../git/gh.ts";
import type { Log } from "../../lib/log.ts";
import type { CommandWorkload, SandboxRuntime } from "../sandbox/runtime.ts";
import type { ResolvedSettings } from "../settings/load.ts";
import type { VendorAuth } from "../settings/settings.ts";
import type { Decider, WaitingStage } from "../task/stages.ts";
import type { Task } from "../task/task.ts";
import type { TaskStore } from "../task/task_store.ts";
import type { DiskMeter } from "./disk_count.ts";
import type { StageRoom } from "./stage_room.ts";
import type { RunSetupResult, SetupOptions } from "./profile/run_setup.ts";

export interface SetupRequest
  extends Pick<SetupOptions, "profile" | "work_dir" | "proxy_url" | "log_path" | "signal" | "onLine"> {
  order: TaskOrder;
  repo: RepoUrl;
  /** What was staged: lockfiles are read from there. */
  git_dir: string;
  base_commit: string;
  /** Called with each folder beside the work tree that its commands may fill, before they begin. */
  onFolder(path: string): void;
}

export interface SetupResult extends RunSetupResult {
  /** What the agent gets to see of the dependency cache. */
  mounts: CommandWorkload["mounts"];
  env: Readonly<Record<string, string>>;
  /** Releases the cache; called once, when the agent has ended. */
  release(): Promise<void>;
}

/** A task that came to a stage in which it waits for a person, for notifications. */
export interface AtGate {
  task_id: string;
  stage: WaitingStage | "awaiting_approval";
  repo: string;
  instruction: string;
}

export interface CiWatch {
  /** Takes a task in `awaiting_ci`, until it has ended or `signal`; does not reject. */
  watch(task: Task, signal: AbortSignal): Promise<void>;
}

export interface TaskQueue {
  enqueue(request: SubmitRequest, origin?: Submitter): Promise<QueueItemView>;
  list(): QueueItemView[];
  cancel(id: string, by?: Decider): Promise<void>;
  /** Whether an item's file says what became of it; a task whose item's does not is not to be removed. */
  isSettled(id: string): boolean;
  stop(): Promise<void>;
}

/** Where a task that no person has just submitted comes from; part of the task's order. */
export type TaskOrigin = Pick<TaskOrder, "retry_of" | "ci_attempt" | "queue_id" | "over_network" | "submitted_by">;

export interface EngineOperations {
  submit(request: SubmitRequest, origin?: TaskOrigin): Promise<TaskRecord>;
  kill(id: string, reason: string, by?: Decider): Promise<void>;
}

export interface EngineDeps {
  resolved: ResolvedSettings;
  tasks: TaskStore;
  git: Git;
  runtime: SandboxRuntime;
  gateway: { lease(options: LeaseOptions): GatewayLease };
  gateway_url: string;
  proxy: Pick<EgressProxy, "admit">;
  admission: Pick<Admission, "claim" | "adopt" | "settled" | "ceiling" | "hold" | "release">;
  credentials: CredentialSources;
  /** Looks repositories up for those who submit over the network. */
  dialer: Pick<Dialer, "addresses">;
  /** What was fetched of repositories; absent when nothing of it is kept. */
  mirrors?: Mirrors;
  /** Opens pull requests; absent where gh is not installed. */
  code_host?: Pick<Gh, "createPullRequest">;
  /** Says what keeps a lane from being paid; undefined when nothing does. */
  credentialProblem(lane: Lane, auth: VendorAuth): Promise<string | undefined>;
  meter: DiskMeter;
  room: StageRoom;
  setup(request: SetupRequest): Promise<SetupResult>;
  /** Branches of databases for tasks; absent where there is no branch store. */
  databases?: TaskDatabases;
  notify?: (task: AtGate) => void;
  ci?: (engine: EngineOperations) => CiWatch;
  queue?: (engine: EngineOperations) => TaskQueue;
  /** Ends the broker, also while it opens. */
  signal?: AbortSignal | undefined;
  log: Log;
  clock: Clock;
}
