/**
 * A broker for the command line's tests: the real listeners on a real socket, real tasks
 * with real traces, and in the place of sandboxes a script that the test writes.
 */

import type { BrokerEngine } from "../../../broker/api/engine.ts";
import type { ApprovalRequest } from "../../../broker/task/approval.ts";
import {
  type BasesView,
  type CeilingView,
  type DatabaseDiffQuery,
  type DatabaseRows,
  type EgressGrantRequest,
  type PendingTask,
  type QueueItemView,
  taskLinks,
  type TaskView,
  type Verification,
} from "../../../broker/api/wire.ts";
import type { SpendFigures, SubmitRequest, TaskRecord, TrustBrief } from "../../../broker/task/schema.ts";
import { buildBrief } from "../../../broker/task/brief.ts";
import { serveHttp } from "../../../broker/http/serve.ts";
import { openConflicts } from "../../../broker/databases/evidence.ts";
import { decideAsRead, type PushRequest } from "../../../broker/task/decisions.ts";
import { type Decider, isWaiting } from "../../../broker/task/stages.ts";
import type { Task } from "../../../broker/task/task.ts";
import { TaskStore } from "../../../broker/task/task_store.ts";
import { systemRandom } from "../../../lib/clock.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { makePlace, type Place } from "./taskd.ts";
import { denoDirectory } from "../../support/deno_directory.ts";

/** What the test has an agent do; runs once the task is accepted. */
export type Script = (task: Task, engine: ScriptedEngine) => Promise<void>;

/** What the gateway would have metered. */
export const SPEND: SpendFigures = {
  usd: 0.0123,
  requests: 4,
  unmetered_requests: 0,
  input_tokens: 900,
  output_tokens: 90,
  priced: true,
};

/** A digest of a diff. */
export const DIFF_SHA256 = "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab";

/** What the scripted engine answers with. */
export class ScriptedEngine implements BrokerEngine {
  readonly tasks: TaskStore;
  readonly submitted: SubmitRequest[] = [];
  /** Tasks whose verification fails. */
  readonly altered = new Set<string>();
  readonly approvals: { id: string; diff_sha256: string; acknowledge: readonly string[] }[] = [];
  readonly granted: (string | number | undefined)[][] = [];
  readonly ended: { id: string; how: "deny" | "kill"; reason: string }[] = [];
  readonly diffs = new Map<string, string>();
  readonly briefs = new Map<string, TrustBrief>();
  readonly refused = new Map<string, TaskView["refused_egress"]>();
  readonly disks = new Map<string, NonNullable<TaskView["disk"]>>();
  readonly faults = new Map<string, string>();
  readonly items: QueueItemView[] = [];
  /** Tasks that a kill does not end at once: a model's answer is still metered. */
  readonly settling = new Set<string>();
  /** Runs with each new task. */
  script: Script = () => Promise.resolve();
  /** Runs with each approval: the first round of its push. */
  landing: Script = () => Promise.resolve();
  /** Runs with each further round of a push. */
  round: Script = () => Promise.resolve();
  /** What the next submission fails with. */
  refusal: TaskdError | undefined;
  /** Scripts under way: a test waits for them at its end. */
  readonly running: Promise<void>[] = [];
  readonly #spending = new Set<(task_id: string, spend: SpendFigures) => void>();
  readonly #live = new Map<string, SpendFigures>();

  constructor(tasks: TaskStore) {
    this.tasks = tasks;
  }

  async submit(request: SubmitRequest): Promise<TaskRecord> {
    if (this.refusal !== undefined) throw this.refusal;
    this.submitted.push(request);
    return await this.#begin({ ...request, agent: request.agent ?? "agent_a" });
  }

  async retry(id: string): Promise<TaskRecord> {
    const { repo, instruction, agent } = this.tasks.read(id);
    return await this.#begin({ repo, instruction, agent, retry_of: id });
  }

  async #begin(order: Parameters<TaskStore["create"]>[0]): Promise<TaskRecord> {
    const task = await this.tasks.create(order);
    const { record } = task;
    this.running.push(this.script(task, this));
    return record;
  }

  /** Says that a request of the task has been settled. */
  spend(id: string, figures: SpendFigures): void {
    this.#live.set(id, figures);
    for (const listener of this.#spending) listener(id, figures);
  }

  async view(id: string): Promise<TaskView> {
    const record = await this.tasks.load(id);
    const fault = this.faults.get(id);
    const live = this.liveSpend(id);
    const disk = this.disks.get(id);
    return {
      ...record,
      ...(live && { live }),
      trace: fault === undefined ? { intact: true, rows: record.seq } : { intact: false, fault },
      refused_egress: this.refused.get(id) ?? [],
      ...(disk && { disk }),
      links: taskLinks(id),
    };
  }

  liveSpend(id: string): SpendFigures | undefined {
    return this.#live.get(id);
  }

  onSpend(listener: (task_id: string, spend: SpendFigures) => void): () => void {
    this.#spending.add(listener);
    return () => this.#spending.delete(listener);
  }

  diff(id: string): Promise<Uint8Array<ArrayBuffer>> {
    const diff = this.diffs.get(id);
    if (diff === undefined) throw new TaskdError("not_found", "Cannot show the diff: there is none yet");
    return Promise.resolve(new TextEncoder().encode(diff));
  }

  /** Pages of changed rows, by `cursor`. */
  rows: (query: DatabaseDiffQuery) => DatabaseRows = () => ({ rows: [] });

  databaseDiff(_id: string, query: DatabaseDiffQuery): Promise<DatabaseRows> {
    return Promise.resolve(this.rows(query));
  }

  brief(id: string): Promise<TrustBrief> {
    const brief = this.briefs.get(id);
    if (brief === undefined) throw new TaskdError("not_found", "Cannot show the brief: there is none yet");
    return Promise.resolve(brief);
  }

  verification(id: string): Promise<Verification> {
    const checks = [{ what: "brief" as const, holds: !this.altered.has(id), detail: "\x1b[31mred" }];
    return Promise.resolve({ id, verified: checks[0]!.holds, checks });
  }

  /** What is said of a task's bases. */
  readonly base_notes: string[] = [];

  bases(_id: string): Promise<BasesView> {
    return Promise.resolve({ notes: this.base_notes });
  }

  pending(): PendingTask[] {
    return this.tasks.list({ stage: "awaiting_approval" }).toReversed().map(({ id }) => {
      const { repo, instruction, agent, stage_since, gate, sensitive } = this.tasks.read(id);
      return {
        id,
        repo,
        instruction,
        agent,
        since: stage_since,
        expires_in_ms: 7_200_000,
        gate: gate!,
        spend: SPEND,
        files_changed: 1,
        lines_changed: 2,
        sensitive: sensitive ?? false,
      };
    });
  }

  async approve(id: string, request: ApprovalRequest): Promise<void> {
    const task = await this.tasks.reopen(id);
    await task.approve(request);
    const { diff_sha256, acknowledge } = request;
    this.approvals.push({ id, diff_sha256, acknowledge });
    this.running.push(this.landing(task, this));
  }

  async deny(id: string, reason: string, by?: Decider): Promise<void> {
    await (await this.tasks.reopen(id)).deny(reason, by);
    this.ended.push({ id, how: "deny", reason });
  }

  async push(id: string, request: PushRequest = {}): Promise<void> {
    const task = await this.tasks.reopen(id);
    const { stage } = task.record;
    if (!isWaiting(stage)) throw new TaskdError("wrong_state", `Cannot push the task: it is in ${stage}`);
    const decisions = decideAsRead(openConflicts(task.record), request);
    await task.move({ from: stage, to: "pushing", reason: "a person asked for it", decisions });
    this.running.push(this.round(task, this));
  }

  async kill(id: string, reason: string): Promise<void> {
    const task = await this.tasks.reopen(id);
    const { stage } = task.record;
    if (stage === "pushing" || stage === "data_waits" || stage === "awaiting_ci" || stage === "done") {
      throw new TaskdError("wrong_state", `Cannot end the task: it is in ${stage}`);
    }
    if (!this.settling.has(id)) await task.move({ from: stage, to: "done", outcome: "cancelled", reason });
    this.ended.push({ id, how: "kill", reason });
  }

  grantEgress(id: string, { host, port, for_ms, uses }: EgressGrantRequest): Promise<void> {
    this.granted.push([id, `${host}:${port}`, for_ms, uses]);
    return Promise.resolve();
  }

  prune({ before_ms, dry_run }: { before_ms: number; dry_run: boolean }): ReturnType<BrokerEngine["prune"]> {
    const old = this.tasks.list({ stage: "done" }).filter(({ updated_at }) => Date.parse(updated_at) < before_ms);
    const mirrors = [{ repo: "https://code.example/a", bytes: 2048, last_used_at: "1970-01-02T00:00:00.000Z" }]
      .filter(({ last_used_at }) => Date.parse(last_used_at) < before_ms);
    return Promise.resolve({ pruned: old.map(({ id }) => id), mirrors, dry_run });
  }

  enqueue(request: SubmitRequest): Promise<QueueItemView> {
    const now = new Date().toISOString();
    const item: QueueItemView = {
      id: systemRandom(16).toHex(),
      state: "queued",
      repo: request.repo,
      instruction: request.instruction,
      agent: request.agent ?? "",
      queued_at: now,
      updated_at: now,
    };
    this.items.push(item);
    return Promise.resolve(item);
  }

  queue(): QueueItemView[] {
    return this.items;
  }

  cancelQueued(id: string): Promise<void> {
    const item = this.items.find((each) => each.id === id);
    if (item === undefined) throw new TaskdError("not_found", "Cannot find the queue item: there is none of this id");
    item.state = "cancelled";
    return Promise.resolve();
  }

  policy() {
    return { fields: [], hash: "0".repeat(64) };
  }

  ceiling(): CeilingView {
    throw new TaskdError("unavailable", "The test has no ceiling");
  }

  health() {
    const started_at = new Date().toISOString();
    return { ok: true, version: "dev", pid: Deno.pid, runtime: "test", started_at, running: 0, pending: 0 } as const;
  }

  metrics(): Promise<string> {
    return Promise.resolve("");
  }
}

/** The way to the gate, with a change to read there. */
export async function toGate(task: Task, engine: ScriptedEngine, second_look: string[] = []): Promise<void> {
  await task.move({ from: "admission", to: "staging" });
  await task.move({ from: "staging", to: "running" });
  await task.append({ type: "output", channel: "stdout", text: "Looking at \x1b[31mit\n" });
  await task.append({ type: "spend", spend: SPEND });
  await task.move({ from: "running", to: "collecting" });
  engine.diffs.set(task.id, DIFF);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(DIFF)));
  await task.append({
    type: "evidence",
    name: "change",
    value: { shown_sha256: digest.toHex(), diff_sha256: DIFF_SHA256 },
  });
  engine.briefs.set(task.id, briefOf(task.record, second_look));
  const gate = { diff_sha256: DIFF_SHA256, second_look, timeout_ms: 0 };
  await task.move({ from: "collecting", to: "awaiting_approval", gate });
}

/** The way from the gate to the end, once it was approved. */
export async function toPushed(task: Task): Promise<void> {
  const pushed = { branch: `agent/${task.id}`, commit: "c".repeat(40), pull_request: "https://example.com/pull/7" };
  await task.move({ from: "pushing", to: "done", outcome: "pushed", reason: "the remote has it", pushed });
}

/** A change with an escape sequence in it. */
const DIFF = [
  "diff --git a/deno.lock b/deno.lock",
  "--- a/deno.lock",
  "+++ b/deno.lock",
  "@@ -1 +1 @@",
  "-old",
  "+new \x1b[2J\u202e",
  "",
].join("\n");

function briefOf({ id, instruction, repo, agent }: TaskRecord, second_look: string[]): TrustBrief {
  const brief = buildBrief({
    task_id: id,
    instruction,
    repo,
    agent,
    base_commit: "b".repeat(40),
    runtime: "podman",
    image: "taskd-sandbox:latest",
    policy_hash: "f".repeat(64),
    budget_usd: 2,
    spend: SPEND,
  });
  const flags = second_look.map((category) => ({ category, reason: "why", count: 1, paths: [{ path: "deno.lock" }] }));
  return { ...brief, flags };
}

/** A host of its own with a broker. */
export interface BrokerHost extends Place {
  engine: ScriptedEngine;
  socket: string;
  /** What a call finds in its environment. */
  env: Record<string, string>;
  /** Stops the broker and starts another one on the same tasks. */
  restart(): Promise<void>;
  /** Stops the broker for good. */
  stop(): Promise<void>;
}

/** Starts a broker in this process; `taskd` finds it by the variable of the environment. */
export async function makeBrokerHost(): Promise<BrokerHost> {
  const deno_dir = await denoDirectory();
  const socketOf = (base: string) => `${base}/run/broker.sock`;
  const envOf = (base: string) => ({ HOME: `${base}/home`, DENO_DIR: deno_dir, BROKER_SOCKET: socketOf(base) });
  const place = await makePlace({ env: envOf });
  const socket = socketOf(place.base);
  await Deno.mkdir(`${place.base}/home/.taskd`, { recursive: true, mode: 0o700 });
  const engine = new ScriptedEngine(await TaskStore.open(`${place.base}/audit`));
  const serve = () =>
    serveHttp({
      engine,
      socket,
      tokens: `${place.base}/home/.taskd/api-tokens.json`,
      log: (line) => {
        throw new Error(line);
      },
    });
  let http = await serve();
  const stop = async () => {
    await http.close();
  };
  return {
    ...place,
    engine,
    socket,
    env: envOf(place.base),
    stop,
    restart: async () => {
      await stop();
      http = await serve();
    },
    [Symbol.asyncDispose]: async () => {
      await stop();
      await Promise.all(engine.running);
      await engine.tasks.close();
      await place[Symbol.asyncDispose]();
    },
  };
}
