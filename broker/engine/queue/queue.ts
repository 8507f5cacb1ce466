/**
 * The durable queue: items begin one after the other as slots become free. An item that was accepted is on the disk.
 * What was in flight when a broker died never begins again, because the first row of the task that an item became names
 * the item, and is written before anything is done for the task.
 */

import { type Clock, type RandomBytes, systemRandom } from "../../../lib/clock.ts";
import { hasCode, messageOf, TaskdError } from "../../../lib/errors.ts";
import { makeDirectories, removeIfPresent, withFileError, writeFileAtomic } from "../../../lib/fs.ts";
import type { Submitter } from "../../api/engine.ts";
import type { QueueItemView } from "../../api/wire.ts";
import type { SubmitRequest, TaskRecord } from "../../task/schema.ts";
import type { EngineOperations, TaskQueue } from "../engine_deps.ts";
import type { Log } from "../../../lib/log.ts";
import { type Identified, newTaskId, resolveTaskId } from "../../task/ids.ts";
import { NO_CI_CONCLUSION } from "../../task/recover.ts";
import type { Decider } from "../../task/stages.ts";
import type { TaskStore } from "../../task/task_store.ts";
import { encodeItem, FINAL_STATES, type QueueItem, readItems, standing } from "./item.ts";

const MAX_QUEUED = 10_000;
/** Bytes of all items that have not ended: a list of them is one answer. */
export const MAX_OPEN_BYTES = 64 << 20;
const MAX_ENDED = 1_000;
export const MAX_ENDED_BYTES = 16 << 20;
/** How long a refused start is left alone at first, unless a task ends before; it doubles with each refusal. */
const AGAIN_MS = 5_000;
const MAX_AGAIN_MS = 60_000;
/** Refusals that pass by themselves; what a broker that stops does not begin is the next one's. */
const PASSING = ["at_capacity", "no_space", "overloaded", "busy", "stopping"] as const;
/** Those that may be about one vendor: its ceiling, its credential. */
const PASSING_OF_A_VENDOR = ["ceiling_reached", "unavailable"] as const;
/** A branch store that is not there for a moment. */
const PASSING_OF_A_STORE = ["daemon_unreachable", "timed_out", "interrupted"] as const;
const ITEMS: Identified = { called: "queue item", listed_by: "taskd queue list" };

export interface QueueOptions {
  /** Its directory, made 0700 when there is none; files are 0600. */
  directory: string;
  tasks: Pick<TaskStore, "list" | "read" | "onChange">;
  engine: Pick<EngineOperations, "submit" | "kill">;
  log: Log;
  clock: Clock;
  random?: RandomBytes;
}

export class DurableQueue implements TaskQueue {
  readonly #options: QueueOptions;
  readonly #items = new Map<string, QueueItem>();
  readonly #stopping = new AbortController();
  readonly #forget: () => void;
  readonly #dispatching: Promise<void>;
  readonly #writes = new Map<string, Promise<void>>();
  /** Items whose last change the disk did not take; each is written again until it does. */
  readonly #unwritten = new Set<string>();
  #rewriting: Promise<void> | undefined;
  #last = 0;
  /** Of items that are being written. */
  #arriving_bytes = 0;
  #news = Promise.withResolvers<void>();

  /**
   * Reads the directory, settles what its items have become, and begins to dispatch.
   *
   * @throws {TaskdError} `denied`, `no_space` or `unavailable` when the directory cannot be used.
   */
  constructor(options: QueueOptions) {
    this.#options = options;
    this.#load();
    this.#forget = options.tasks.onChange(({ record }) => this.#follow(record));
    this.#dispatching = this.#dispatch();
  }

  #load(): void {
    const { directory, log, tasks } = this.#options;
    withFileError(`Cannot use the queue in ${directory}`, () => {
      makeDirectories(directory);
      const { items, damaged } = readItems(directory);
      for (const path of damaged) {
        log("error", "queue_item_damaged", `Cannot read the queue's item ${path}; it is left as it is`);
      }
      for (const item of items) {
        this.#items.set(item.id, item);
        this.#last = Math.max(this.#last, item.number);
      }
    });
    // A task's trace decides: a crash may have come between its first row and the write of its item.
    for (const { id, queue_id } of tasks.list({ limit: Infinity })) {
      const item = queue_id === undefined ? undefined : this.#items.get(queue_id);
      if (item === undefined || FINAL_STATES.has(item.state) && item.task_id !== undefined) continue;
      try {
        this.#follow(tasks.read(id));
      } catch (error) {
        // A trace that went bad on the disk keeps no other task from going on.
        log(
          "error",
          "queue_task_unreadable",
          `Cannot follow the task of the queue's item ${item.id}: ${messageOf(error)}`,
        );
      }
    }
    for (const item of this.#items.values()) {
      if (item.state === "queued" || FINAL_STATES.has(item.state)) continue;
      const reason = this.#lost(item);
      if (reason !== undefined) this.#change(item, { state: "dead_letter", reason });
    }
  }

  /** Why no task goes on with a begun item; undefined when its task can be followed, or may be once it can be read. */
  #lost({ task_id, state }: QueueItem): string | undefined {
    const gone = "its task is gone from the audit directory";
    if (task_id === undefined) return gone;
    try {
      this.#options.tasks.read(task_id);
      return undefined;
    } catch (error) {
      if (hasCode(error, "not_found")) return gone;
      // What waits at the gate goes on once its trace is repaired; what ran or was watched has ended with the broker.
      if (!hasCode(error, "corrupt") || state === "awaiting_approval") return undefined;
      return state === "awaiting_ci" ? NO_CI_CONCLUSION : `its task cannot be followed: ${error.message}`;
    }
  }

  /**
   * Adds an item; it is on the disk when this resolves.
   *
   * @throws {TaskdError} `overloaded` at {@linkcode MAX_QUEUED} or {@linkcode MAX_OPEN_BYTES}; `no_space`, `denied` or `unavailable`.
   */
  async enqueue(request: SubmitRequest, origin: Submitter = {}): Promise<QueueItemView> {
    const { clock, random = systemRandom } = this.#options;
    if (this.#waiting().length >= MAX_QUEUED) {
      throw new TaskdError("overloaded", `Cannot queue the task: ${MAX_QUEUED} wait already`, {
        hint: "Cancel some, or wait until they have begun",
      });
    }
    let open_bytes = this.#arriving_bytes + sizeOf(request);
    for (const item of this.#items.values()) if (!FINAL_STATES.has(item.state)) open_bytes += sizeOf(item.request);
    if (open_bytes > MAX_OPEN_BYTES) {
      throw new TaskdError(
        "overloaded",
        `Cannot queue the task: those that have not ended have ${MAX_OPEN_BYTES >> 20} MiB already`,
        { hint: "Put the material into the repository and refer to it, or wait until some have ended" },
      );
    }
    const now = new Date(clock.now()).toISOString();
    const id = newTaskId(random);
    const item: QueueItem = {
      v: 1,
      id,
      number: ++this.#last,
      request,
      ...origin,
      state: "queued",
      queued_at: now,
      updated_at: now,
    };
    this.#arriving_bytes += sizeOf(request);
    try {
      await this.#write(item);
    } finally {
      this.#arriving_bytes -= sizeOf(request);
    }
    this.#items.set(id, item);
    this.#wake();
    return view(item);
  }

  list(): QueueItemView[] {
    return this.#sorted().map(view);
  }

  /**
   * Takes an item off the queue, or ends its task; `id` may be a prefix.
   *
   * @throws {TaskdError} `not_found`; `wrong_state` when it has ended or its change is being pushed.
   */
  async cancel(id: string, by?: Decider): Promise<void> {
    const item = this.#items.get(resolveTaskId(id, this.#items.keys(), ITEMS))!;
    if (FINAL_STATES.has(item.state)) {
      throw new TaskdError("wrong_state", `Cannot cancel the item ${item.id}: it is ${item.state}`);
    }
    if (item.task_id !== undefined) {
      return await this.#options.engine.kill(item.task_id, "its queue item was cancelled", by);
    }
    const cancelled = this.#changed(item, { state: "cancelled", reason: "cancelled before it began" });
    // Not begun any more from here on, whether or not it can be written.
    this.#items.set(item.id, cancelled);
    await this.#write(cancelled);
    this.#prune();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#forget();
    this.#wake();
    await this.#dispatching;
    await Promise.allSettled([...this.#writes.values(), this.#rewriting]);
  }

  #sorted(): QueueItem[] {
    return [...this.#items.values()].sort((a, b) => a.number - b.number);
  }

  #waiting(): QueueItem[] {
    return this.#sorted().filter(({ state }) => state === "queued");
  }

  #wake(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers();
  }

  async #dispatch(): Promise<void> {
    const { signal } = this.#stopping;
    let again_ms = AGAIN_MS;
    while (!signal.aborted) {
      const news = this.#news.promise;
      if (await this.#beginNext() || signal.aborted) {
        again_ms = AGAIN_MS;
        continue;
      }
      if (this.#waiting().length === 0) {
        await news;
        again_ms = AGAIN_MS;
        continue;
      }
      const stop = new AbortController();
      const slept = this.#options.clock.sleep(again_ms, stop.signal).then(() => true, () => false);
      // News is no refusal: only a wait that came to its end makes the next one longer.
      if (await Promise.race([news, slept])) again_ms = Math.min(again_ms * 2, MAX_AGAIN_MS);
      stop.abort();
    }
  }

  /** Begins the first item that may begin now; false when there is none. */
  async #beginNext(): Promise<boolean> {
    const refused = new Set<string>();
    for (const { id, request } of this.#waiting()) {
      // One try for each agent, and for its databases: a vendor's ceiling or a branch store holds up no other's items.
      const vendor = request.agent ?? "";
      const store = JSON.stringify([vendor, request.databases]);
      const item = this.#items.get(id);
      if (item?.state !== "queued" || refused.has(vendor) || refused.has(store)) continue;
      const came_to = await this.#begin(item);
      if (came_to === "begun" || came_to === "full") return came_to === "begun";
      refused.add(came_to === "vendor" ? vendor : store);
    }
    return false;
  }

  /** Begins an item; `vendor` refuses its agent's items, `store` those with its databases too, `full` all. */
  async #begin(item: QueueItem): Promise<"begun" | "vendor" | "store" | "full"> {
    try {
      const record = await this.#options.engine.submit(item.request, {
        queue_id: item.id,
        ...(item.over_network && { over_network: true }),
        ...(item.submitted_by && { submitted_by: item.submitted_by }),
      });
      this.#follow(record);
      // Cancelled while its task was being made, and perhaps forgotten since.
      if ((this.#items.get(item.id)?.state ?? "cancelled") === "cancelled") {
        await this.#options.engine.kill(record.id, "its queue item was cancelled").catch(() => {});
      }
      return "begun";
    } catch (error) {
      const known = this.#items.get(item.id);
      if (hasCode(error, ...PASSING, ...PASSING_OF_A_VENDOR, ...PASSING_OF_A_STORE)) {
        // Not worth a write: the next start asks again.
        if (known?.state === "queued") this.#items.set(item.id, { ...known, reason: error.message });
        // The branch store refuses with the same codes as the broker.
        const needs_store = (item.request.databases ?? []).length > 0;
        if (hasCode(error, "at_capacity", "no_space") || !needs_store && hasCode(error, ...PASSING)) return "full";
        return needs_store && !hasCode(error, "ceiling_reached") ? "store" : "vendor";
      }
      if (known?.state === "queued") await this.#refuse(known, messageOf(error));
      return "begun";
    }
  }

  #follow(record: TaskRecord): void {
    const item = record.queue_id === undefined ? undefined : this.#items.get(record.queue_id);
    // Any change may have freed a slot.
    this.#wake();
    if (item === undefined) return;
    if (FINAL_STATES.has(item.state)) {
      // Cancelled while its task was being made: it names the task all the same.
      if (item.task_id === undefined) this.#change(item, { ...item, task_id: record.id });
      return;
    }
    const { state, reason } = standing(record);
    if (item.task_id === record.id && item.state === state) return;
    this.#change(item, { state, task_id: record.id, ...(reason === undefined ? {} : { reason }) });
  }

  #changed(item: QueueItem, change: Partial<QueueItem>): QueueItem {
    const { reason: _, ...kept } = item;
    return { ...kept, ...change, updated_at: new Date(this.#options.clock.now()).toISOString() };
  }

  /** Changes an item at once, and on the disk soon: at the next start the task says it again. */
  #change(item: QueueItem, change: Partial<QueueItem>): void {
    const changed = this.#changed(item, change);
    this.#items.set(item.id, changed);
    this.#unwritten.add(item.id);
    this.#store(changed).catch((error) => {
      this.#options.log("error", "queue_write_failed", error.message, { item: item.id });
      this.#rewriting ??= this.#rewrite().finally(() => this.#rewriting = undefined);
    });
    if (FINAL_STATES.has(changed.state)) this.#prune();
  }

  async #store(item: QueueItem): Promise<void> {
    await this.#write(item);
    if (this.#items.get(item.id) === item) this.#unwritten.delete(item.id);
  }

  /** Writes what the disk did not take, until it does or the broker stops: the next start reads it from the tasks. */
  async #rewrite(): Promise<void> {
    while (this.#unwritten.size > 0) {
      const waited = await this.#options.clock.sleep(AGAIN_MS, this.#stopping.signal).then(() => true, () => false);
      if (!waited) return;
      for (const id of [...this.#unwritten]) {
        const item = this.#items.get(id);
        if (item === undefined) this.#unwritten.delete(id);
        else await this.#store(item).catch(() => {});
      }
    }
  }

  /** Whether an item's file says what became of it: until then its task alone keeps it from beginning again. */
  isSettled(id: string): boolean {
    return !this.#unwritten.has(id);
  }

  /** No task will say again at the next start why this item ended: it is shown as ended once that is on the disk. */
  async #refuse(item: QueueItem, reason: string): Promise<void> {
    const refused = this.#changed(item, { state: "dead_letter", reason });
    await this.#write(refused).catch((error) => {
      this.#options.log("error", "queue_write_failed", error.message, { item: item.id });
    });
    // Cancelled meanwhile, which is written after this.
    if (this.#items.get(item.id)?.state !== "queued") return;
    this.#items.set(item.id, refused);
    this.#prune();
  }

  /** Writes of one item come one after the other, so that the last one stands. */
  #write(item: QueueItem): Promise<void> {
    const path = `${this.#options.directory}/${item.id}.json`;
    const before = this.#writes.get(item.id) ?? Promise.resolve();
    const writing = before.catch(() => {}).then(() => writeFileAtomic(path, encodeItem(item), 0o600));
    this.#writes.set(item.id, writing);
    const done = () => {
      if (this.#writes.get(item.id) === writing) this.#writes.delete(item.id);
    };
    writing.then(done, done);
    return writing;
  }

  #prune(): void {
    const ended = this.#sorted().filter(({ state }) => FINAL_STATES.has(state));
    let [kept, kept_bytes] = [0, 0];
    for (const { id, request } of ended.reverse()) {
      kept_bytes += sizeOf(request);
      if (++kept <= MAX_ENDED && kept_bytes <= MAX_ENDED_BYTES || this.#writes.has(id)) continue;
      try {
        removeIfPresent(`${this.#options.directory}/${id}.json`);
      } catch (error) {
        // Tried again when the next one ends: no other item must fail for it.
        const reason = messageOf(error);
        this.#options.log("error", "queue_write_failed", `Cannot remove an ended item: ${reason}`, { item: id });
        return;
      }
      this.#items.delete(id);
    }
  }
}

/** What a request takes in memory and in a list, nearly: instructions are most of it. */
function sizeOf({ instruction, repo, egress_extra }: SubmitRequest): number {
  return instruction.length + repo.length + (egress_extra?.length ?? 0) * 256 + 512;
}

function view({ request, id, state, queued_at, updated_at, task_id, reason }: QueueItem): QueueItemView {
  return {
    id,
    state,
    repo: request.repo,
    instruction: request.instruction,
    agent: request.agent ?? "",
    queued_at,
    updated_at,
    ...(task_id === undefined ? {} : { task_id }),
    ...(reason === undefined ? {} : { reason }),
  };
}
