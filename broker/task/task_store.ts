/**
 * All tasks of a broker: an audit directory (0700) with one trace each. Lists come from memory, where a task takes a
 * few hundred bytes; whole records and rows come from the traces. Each reader follows a trace at its own rate, so a
 * slow one costs nothing, and one that comes back resumes after the last row that it has.
 */

import { type Clock, type RandomBytes, systemClock, systemRandom } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { fileError, makeDirectories, withFileError } from "../../lib/fs.ts";
import { isTaskId, newTaskId, resolveTaskId } from "./ids.ts";
import type { TaskOrder, TaskRecord, TaskSummary } from "./schema.ts";
import type { Row } from "./rows.ts";
import type { Stage } from "./stages.ts";
import type { Log } from "../../lib/log.ts";
import { summarize } from "./summary.ts";
import { Task, type TaskChange } from "./task.ts";
import {
  type DamagedTask,
  readRecord,
  recordSteps,
  saveIndex,
  stamp,
  type Survey,
  surveyTraces,
  type TraceEntry,
} from "./task_index.ts";
import { DamagedTrace, EMPTY_HEAD, inTurns, scanTrace, tracePath, type Verdict } from "./trace.ts";

export interface TaskStoreOptions {
  clock?: Clock;
  random?: RandomBytes;
  /** Gets what keeps the index from being written; nothing by default. */
  log?: Log;
}

export interface ListOptions {
  limit?: number;
  /** Only tasks older than this one: for the next page. */
  before?: string;
  stage?: Stage;
}

const DEFAULT_LIMIT = 100;
/** Rows that are read for a follower before others have their turn; each is at most a megabyte and usually a kilobyte. */
const ROWS_PER_READ = 32;

/** The tasks of one audit directory. One store for one broker. */
export class TaskStore {
  readonly audit_root: string;
  readonly #options: Required<TaskStoreOptions>;
  readonly #entries: Map<string, TraceEntry>;
  readonly #damaged: Map<string, DamagedTask>;
  readonly #open = new Map<string, Task>();
  readonly #listeners = new Set<(change: TaskChange) => void>();
  #stale: boolean;
  #order: string[] | undefined;

  private constructor(audit_root: string, found: Survey, options: Required<TaskStoreOptions>) {
    this.audit_root = audit_root;
    this.#options = options;
    this.#entries = found.entries;
    this.#damaged = found.damaged;
    this.#stale = found.stale;
  }

  /**
   * Opens an audit directory, which is made when there is none, and finds its tasks.
   *
   * @throws {TaskdError} `denied`, `no_space` or `unavailable`.
   */
  static async open(audit_root: string, options: TaskStoreOptions = {}): Promise<TaskStore> {
    const { clock = systemClock, random = systemRandom, log = () => {} } = options;
    withFileError(`Cannot prepare the audit directory ${audit_root}`, () => {
      makeDirectories(audit_root);
      // It may be older than this program: diffs and logs lie there, and are for the owner alone.
      if ((Deno.statSync(audit_root).mode ?? 0o700) & 0o077) Deno.chmodSync(audit_root, 0o700);
    });
    const store = new TaskStore(audit_root, await surveyTraces(audit_root), { clock, random, log });
    await store.#saveOrLog();
    return store;
  }

  /**
   * Begins a task under a new id.
   *
   * @throws {TaskdError} `invalid_request`, `denied`, `no_space` or `unavailable`; there is then no task.
   */
  async create(order: Omit<TaskOrder, "id">): Promise<Task> {
    const id = newTaskId(this.#options.random);
    const task = await Task.create(this.audit_root, { ...order, id }, this.#taskOptions());
    this.#open.set(id, task);
    return task;
  }

  /**
   * Opens a task that an earlier broker left, or gives the one that is open.
   *
   * @throws {TaskdError} `not_found`, `corrupt`, `busy`, `denied`, `no_space` or `unavailable`.
   */
  async reopen(id: string): Promise<Task> {
    this.#assertId(id);
    const open = this.#open.get(id);
    if (open !== undefined) return open;
    const task = await Task.open(this.audit_root, id, this.#taskOptions());
    this.#open.set(id, task);
    return task;
  }

  #taskOptions() {
    return { clock: this.#options.clock, onChange: (change: TaskChange) => this.#take(change) };
  }

  live(id: string): Task | undefined {
    return this.#open.get(id);
  }

  async release(id: string): Promise<void> {
    const task = this.#open.get(id);
    await task?.close();
    this.#open.delete(id);
  }

  #take(change: TaskChange): void {
    const { record, head } = change;
    if (!this.#entries.has(record.id)) this.#order = undefined;
    // Its file is looked at when the index is saved: here only the list has to be right.
    this.#entries.set(record.id, { head, size: -1, mtime_ms: -1, summary: summarize(record) });
    this.#damaged.delete(record.id);
    this.#stale = true;
    // Later, so that a listener's error surfaces and keeps no row from those who wait for it.
    for (const listener of this.#listeners) queueMicrotask(() => listener(change));
  }

  /** Calls `listener` with every change of any task, once it is on the disk, until the returned function is called. */
  onChange(listener: (change: TaskChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** How many tasks there are, damaged ones included: each was started once. */
  get size(): number {
    return this.#entries.size + this.#damaged.size;
  }

  list(options: ListOptions = {}): TaskSummary[] {
    const { limit = DEFAULT_LIMIT, before, stage } = options;
    const order = this.#order ??= [...this.#entries.values()]
      .sort((a, b) => newestFirst(a.summary, b.summary))
      .map(({ summary }) => summary.id);
    const found: TaskSummary[] = [];
    for (
      let at = before === undefined ? 0 : order.indexOf(before) + 1;
      at < order.length && found.length < limit;
      at++
    ) {
      const summary = this.#entries.get(order[at]!)!.summary;
      if (stage === undefined || summary.stage === stage) found.push(summary);
    }
    return found;
  }

  /** Tasks that have not ended, oldest first: what a starting broker has to look after. */
  unfinished(): TaskSummary[] {
    const open = [...this.#entries.values()].map(({ summary }) => summary).filter(({ stage }) => stage !== "done");
    return open.sort((a, b) => newestFirst(b, a));
  }

  /** Traces that cannot be followed; they are left as they are. */
  damaged(): DamagedTask[] {
    return [...this.#damaged.values()];
  }

  /** The id that a person means by `prefix`; damaged tasks count; throws as `resolveTaskId` does. */
  resolve(prefix: string): string {
    return resolveTaskId(prefix, this.#ids());
  }

  *#ids(): Generator<string> {
    yield* this.#entries.keys();
    for (const id of this.#damaged.keys()) if (!this.#entries.has(id)) yield id;
  }

  /**
   * The whole record of a task.
   *
   * @throws {TaskdError} `not_found`; `corrupt` when its trace is not what was written; `denied` or `unavailable`.
   */
  read(id: string): TaskRecord {
    this.#assertId(id);
    return this.#open.get(id)?.record ?? readRecord(this.audit_root, id, { known: this.#entries.get(id)?.head }).record;
  }

  /** As {@linkcode read}, for callers that can wait: a long trace does not block the event loop. */
  async load(id: string): Promise<TaskRecord> {
    this.#assertId(id);
    const { record } = this.#open.get(id) ??
      await inTurns(recordSteps(this.audit_root, id, { known: this.#entries.get(id)?.head }));
    return record;
  }

  /**
   * Whether the trace of a task is what was written, by itself and by the head that was noted, and makes sense. A long
   * trace does not block the event loop.
   */
  async verify(id: string): Promise<Verdict> {
    this.#assertId(id);
    const known = this.#open.get(id)?.head ?? this.#entries.get(id)?.head ?? this.#damaged.get(id)?.noted?.head;
    try {
      const { head } = await inTurns(recordSteps(this.audit_root, id, { known }));
      return { intact: true, head };
    } catch (error) {
      if (error instanceof DamagedTrace) return { intact: false, fault: error.fault };
      throw error;
    }
  }

  #assertId(id: string): void {
    if (isTaskId(id) && (this.#entries.has(id) || this.#damaged.has(id))) return;
    throw new TaskdError("not_found", "Cannot find the task: there is none of this id", {
      hint: "`taskd tasks` lists what there is",
    });
  }

  /**
   * The rows of a task after `after_seq` (0 for all; an event stream's last id), then those to come; ends after the last
   * row of a task that has ended, or on `signal`.
   *
   * @throws {TaskdError} `not_found`, `corrupt`, `denied` or `unavailable`.
   */
  async *follow(id: string, options: { after_seq?: number; signal: AbortSignal }): AsyncGenerator<Row, void> {
    const { after_seq = 0, signal } = options;
    this.#assertId(id);
    const path = tracePath(this.audit_root, id);
    let news = Promise.withResolvers<void>();
    const wake = () => news.resolve();
    const forget = this.onChange(({ record }) => record.id === id && wake());
    signal.addEventListener("abort", wake);
    let head = EMPTY_HEAD;
    try {
      while (!signal.aborted) {
        const entry = this.#entries.get(id);
        // A damaged trace gets no more rows; reading it to its end says where the damage is.
        const end = entry?.head ?? { seq: Infinity, bytes: Infinity };
        if (head.seq < end.seq) {
          // In pieces: the file is not kept open while a reader is slow.
          const lines = scanTrace(path, head, { end: end.bytes }).take(ROWS_PER_READ).toArray();
          if (lines.length === 0) throw new TaskdError("corrupt", `Cannot follow ${path}: it has become shorter`);
          for (const line of lines) {
            head = line.head;
            if (line.row.seq > after_seq && !signal.aborted) yield line.row;
          }
          continue;
        }
        if (entry?.summary.stage === "done") return;
        await news.promise;
        news = Promise.withResolvers();
      }
    } finally {
      forget();
      signal.removeEventListener("abort", wake);
    }
  }

  /**
   * Writes the index, if anything has changed since; the next start is then fast.
   *
   * @returns What kept it from being written. The index can be built again: the traces have everything.
   */
  async save(): Promise<TaskdError | undefined> {
    if (!this.#stale) return undefined;
    const entries = new Map<string, TraceEntry>();
    for (const [id, entry] of this.#entries) {
      const now = entry.size < 0 ? stamp(tracePath(this.audit_root, id)) : entry;
      // Of another size than its rows: it is being written, and its entry would be old at once.
      if (now === undefined || (entry.size < 0 && now.size !== entry.head.bytes)) continue;
      entries.set(id, { ...entry, size: now.size, mtime_ms: now.mtime_ms });
    }
    for (const { id, noted } of this.#damaged.values()) if (noted !== undefined) entries.set(id, noted);
    try {
      await saveIndex(this.audit_root, entries);
      this.#stale = false;
      return undefined;
    } catch (error) {
      return fileError(error, `Cannot save the index of ${this.audit_root}`);
    }
  }

  /**
   * Removes the trace of a task that has ended; the caller removes what else there is of it.
   *
   * @throws {TaskdError} `not_found`; `wrong_state` while the task has not ended; `denied` or `unavailable`.
   */
  async remove(id: string): Promise<void> {
    this.#assertId(id);
    if (this.#entries.get(id)?.summary.stage !== "done") {
      throw new TaskdError("wrong_state", `Cannot remove the task ${id}: it has not ended, or cannot be read`);
    }
    await this.release(id);
    await withFileError(`Cannot remove the trace of ${id}`, () => Deno.remove(tracePath(this.audit_root, id)));
    this.#entries.delete(id);
    this.#order = undefined;
    this.#stale = true;
  }

  async close(): Promise<void> {
    for (const id of [...this.#open.keys()]) await this.release(id);
    await this.#saveOrLog();
  }

  async #saveOrLog(): Promise<void> {
    const unsaved = await this.save();
    if (unsaved === undefined) return;
    this.#options.log("warn", "index_unsaved", `${unsaved.message}; the next start is slower`);
  }
}

function newestFirst(a: TaskSummary, b: TaskSummary): number {
  if (a.created_at !== b.created_at) return a.created_at < b.created_at ? 1 : -1;
  return a.id < b.id ? 1 : -1;
}
