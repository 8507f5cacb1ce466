/**
 * The broker's metrics in Prometheus text format. Events are counted as they happen; states are read at each scrape.
 * Every label has a few values that are known beforehand: no task, repository, model or host name is one, so that
 * nothing an agent does can make more of them.
 */

import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { ErrorCode } from "../../lib/errors.ts";
import { LANES } from "../agents.ts";
import type { CeilingView, QueueItemView, QueueState } from "../api/wire.ts";
import type { EgressDecision } from "../egress/decision.ts";
import { DISK, diskOf } from "./trace_evidence.ts";
import { REASONS } from "../egress/reasons.ts";
import type { Settlement } from "../gateway/lease.ts";
import { type Outcome, OUTCOMES, type Stage } from "../task/stages.ts";
import type { TaskChange } from "../task/task.ts";

/** Bounds of the stages' durations in seconds: from a clone that takes no time to a gate that waits for a day. */
const STAGE_BUCKETS_SECONDS = [0.1, 0.5, 1, 5, 15, 60, 300, 900, 1_800, 3_600, 14_400, 86_400];
const REQUEST_BUCKETS_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];

/** From a small repository to what no quota allows: 16 MiB, then four times as much each. */
const DISK_BUCKETS_BYTES = Array.from({ length: 8 }, (_, at) => 4 ** at * 2 ** 24);

const AUTH_MODES = ["api_key", "subscription"] as const;
const REFUSALS: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["at_capacity", "ceiling_reached", "no_space"]);

const OPEN_STATES: readonly QueueState[] = ["queued", "running", "awaiting_approval", "awaiting_ci"];

export interface Standing {
  running: number;
  pending: number;
  waiting?: ReadonlyMap<Stage, readonly unknown[]>;
  slots: number;
  ceiling: CeilingView;
  /** Items of the queue; those that have ended are not counted. */
  queue?: readonly Pick<QueueItemView, "state">[];
  /** Disk space of running tasks, as last counted. */
  disk_bytes?: number;
  /** Undefined while it is not known. */
  stage_free_bytes?: Promise<number | undefined>;
}

export class BrokerMetrics {
  readonly #registry = new Registry();
  readonly #read: () => Standing;
  readonly #standing = new Map<string, { stage: Stage; since_ms: number }>();
  readonly #running = this.#gauge("tasks_running", "Tasks that are being worked on.");
  readonly #pending = this.#gauge("tasks_pending", "Tasks that wait for approval.");
  readonly #waiting = this.#gauge(
    "tasks_waiting",
    "Approved changes that could not be pushed (push_failed), or whose data could not be promoted (data_waits).",
    ["stage"],
  );
  readonly #slots = this.#gauge("task_slots", "Tasks that may run at the same time.");
  readonly #started = this.#counter("tasks_started_total", "Tasks that were begun.");
  readonly #ended = this.#counter("tasks_ended_total", "Tasks that have ended, by outcome.", ["outcome"]);
  readonly #refused = this.#counter("starts_refused_total", "Starts that were refused, by code.", ["code"]);
  readonly #stage_duration = new Histogram({
    name: "taskd_broker_stage_duration_seconds",
    help: "Time that tasks spent in a stage, once they have left it.",
    labelNames: ["stage"],
    buckets: STAGE_BUCKETS_SECONDS,
    registers: [this.#registry],
  });
  readonly #task_disk = new Histogram({
    name: "taskd_broker_task_disk_bytes",
    help: "Most disk space that a task was found to take, once its agent has ended.",
    buckets: DISK_BUCKETS_BYTES,
    registers: [this.#registry],
  });
  readonly #queue = this.#gauge("queue_items", "Items of the queue that have not ended, by state.", ["state"]);
  readonly #requests = this.#counter(
    "gateway_requests_total",
    "Settled requests to vendors, by how they ended.",
    ["lane", "auth", "ending"],
  );
  readonly #request_duration = new Histogram({
    name: "taskd_broker_gateway_request_duration_seconds",
    help: "Time from a request's arrival to its settlement.",
    labelNames: ["lane"],
    buckets: REQUEST_BUCKETS_SECONDS,
    registers: [this.#registry],
  });
  readonly #unmetered = this.#counter(
    "gateway_unmetered_requests_total",
    "Requests of which the cost is not known, or not all of it.",
    ["lane", "auth"],
  );
  readonly #usd = this.#counter(
    "gateway_spend_usd_total",
    "USD metered by the gateway; with a subscription, what the same tokens cost by list price.",
    ["lane", "auth"],
  );
  readonly #egress = this.#counter("egress_decisions_total", "Decisions of the egress proxy, by reason.", ["reason"]);
  readonly #headroom_usd = this.#gauge("ceiling_headroom_usd", "USD left below the global ceiling. Its limb on only.");
  readonly #headroom_starts = this.#gauge(
    "ceiling_headroom_starts",
    "Task starts left below the global ceiling. Its limb on only.",
  );
  readonly #blocked = this.#gauge("ceiling_blocked", "1 while the limb of the global ceiling refuses starts.", [
    "limb",
  ]);
  readonly #damaged = this.#gauge("ceiling_damaged_lines", "Lines of the global ceiling's ledger that are damaged.");

  readonly #disk = this.#gauge("tasks_disk_bytes", "Disk space that running tasks take, as last counted.");
  readonly #stage_free = this.#gauge(
    "stage_free_bytes",
    "Free space of the file system of stage_root. Once a task has begun.",
  );

  constructor(version: string, read: () => Standing) {
    this.#read = read;
    this.#gauge("build_info", "Always 1; the label is the running build.", ["version"]).set({ version }, 1);
    this.#beginAtZero();
  }

  /** What is known beforehand begins at 0, so that its first event is an increase. */
  #beginAtZero(): void {
    for (const outcome of Object.keys(OUTCOMES)) this.#ended.inc({ outcome }, 0);
    for (const code of REFUSALS) this.#refused.inc({ code }, 0);
    for (const lane of LANES) {
      for (const auth of AUTH_MODES) {
        this.#unmetered.inc({ lane, auth }, 0);
        this.#usd.inc({ lane, auth }, 0);
      }
    }
    for (const reason of Object.keys(REASONS)) this.#egress.inc({ reason }, 0);
  }

  started(): void {
    this.#started.inc();
  }

  ended(outcome: Outcome): void {
    this.#ended.inc({ outcome });
  }

  /** A start was refused; other codes than those of slots, ceilings and room are not counted. */
  refused(code: ErrorCode): void {
    if (REFUSALS.has(code)) this.#refused.inc({ code });
  }

  changed({ rows, record }: TaskChange): void {
    for (const row of rows) {
      const at_ms = Date.parse(row.ts);
      if (row.type === "evidence" && row.name === DISK) this.#task_disk.observe(diskOf(record)?.peak_bytes ?? 0);
      if (row.type === "created") this.#standing.set(record.id, { stage: "admission", since_ms: at_ms });
      if (row.type !== "stage") continue;
      const before = this.#standing.get(record.id);
      // Since when an earlier broker's task has been in its stage is unknown.
      if (before?.stage === row.from) {
        this.#stage_duration.observe({ stage: row.from }, Math.max(0, at_ms - before.since_ms) / 1_000);
      }
      if (row.to === "done") this.#standing.delete(record.id);
      else this.#standing.set(record.id, { stage: row.to, since_ms: at_ms });
    }
  }

  settled({ lane, auth, ending, usd, unmetered, duration_ms }: Settlement): void {
    this.#requests.inc({ lane, auth, ending });
    this.#request_duration.observe({ lane }, duration_ms / 1_000);
    if (usd > 0 && Number.isFinite(usd)) this.#usd.inc({ lane, auth }, usd);
    if (unmetered) this.#unmetered.inc({ lane, auth });
  }

  decided({ reason }: Pick<EgressDecision, "reason">): void {
    this.#egress.inc({ reason });
  }

  async text(): Promise<string> {
    const { running, pending, waiting, slots, ceiling, queue = [], disk_bytes = 0, stage_free_bytes } = this.#read();
    for (const stage of ["push_failed", "data_waits"] as const) {
      this.#waiting.set({ stage }, waiting?.get(stage)?.length ?? 0);
    }
    this.#running.set(running);
    this.#pending.set(pending);
    this.#slots.set(slots);
    for (const state of OPEN_STATES) this.#queue.set({ state }, queue.filter((item) => item.state === state).length);
    setOrClear(this.#headroom_usd, ceiling.headroom_usd);
    setOrClear(this.#headroom_starts, ceiling.headroom_starts);
    this.#blocked.set({ limb: "usd" }, ceiling.usd.blocked ? 1 : 0);
    this.#blocked.set({ limb: "tasks" }, ceiling.tasks.blocked ? 1 : 0);
    this.#damaged.set(ceiling.damaged);
    this.#disk.set(disk_bytes);
    setOrClear(this.#stage_free, await stage_free_bytes ?? null);
    return await this.#registry.metrics();
  }

  #gauge<L extends string>(name: string, help: string, labelNames: readonly L[] = []): Gauge<L> {
    return new Gauge({ name: `taskd_broker_${name}`, help, labelNames, registers: [this.#registry] });
  }

  #counter<L extends string>(name: string, help: string, labelNames: readonly L[] = []): Counter<L> {
    return new Counter({ name: `taskd_broker_${name}`, help, labelNames, registers: [this.#registry] });
  }
}

/** A limb that is off has no headroom, which differs from none left. */
function setOrClear(gauge: Gauge, value: number | null): void {
  if (value === null) gauge.remove();
  else gauge.set(value);
}
