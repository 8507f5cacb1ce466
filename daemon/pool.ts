/**
 * The engine as a fixed pool of workers.
 *
 * Half of the workers host sessions, half run what may take long: an integrity check
 * of gigabytes is one synchronous call into SQLite, and would keep the sessions beside it
 * from renewing their leases. Short operations go wherever least is running. A worker
 * that dies is replaced, its calls are rejected and its sessions are lost, which their
 * callers are told.
 *
 * @module
 */

import type { SessionEvent } from "../lib/capture/session.ts";
import type { Clock } from "../lib/clock.ts";
import { TaskdError } from "../lib/errors.ts";
import type { OpenAnswer } from "../lib/protocol/messages.ts";
import { type Address, formatAddress, type Txid } from "../lib/store/names.ts";
import type { CheckpointResult, FlushResult, SessionStatus } from "../lib/store/results.ts";
import {
  type Engine,
  type EngineSession,
  type OnSessionEvent,
  type OutsidePaths,
  type SessionAnswer,
  type SessionArgs,
  type SessionMethod,
  STORE_METHODS,
  type StoreAnswer,
  type StoreArgs,
  type StoreMethod,
} from "./engine.ts";
import { withDeadline } from "./deadline.ts";
import type { Log } from "./log.ts";
import type { WorkerSetup } from "./worker_messages.ts";
import { type WorkerListener, WorkerThread } from "./worker_thread.ts";

/** Workers unless told otherwise: as many sessions' as others'. */
export const DEFAULT_WORKERS = 4;
/** How long the end of the pool waits for its workers. */
const END_DEADLINE_MS = 1_000;

/** Options of {@linkcode WorkerPool.start}. */
export interface WorkerPoolOptions {
  setup: WorkerSetup;
  /** The store's directory, and others whose files belong to it: all that workers may read and write. */
  directories: string[];
  /** At least 2; {@linkcode DEFAULT_WORKERS} when absent. */
  workers?: number;
  clock: Clock;
  log: Log;
  onEvent: OnSessionEvent;
  /** The workers' module; a test may put another in its place. */
  module?: string;
}

/** A place in the pool; its thread changes when it dies. */
interface Slot {
  for_sessions: boolean;
  thread: WorkerThread;
  sessions: Set<PooledSession>;
}

class PooledSession implements EngineSession {
  readonly id: number;
  readonly address: Address;
  readonly #slot: Slot;
  readonly #thread: WorkerThread;
  opened!: OpenAnswer;
  lost: TaskdError | undefined;

  constructor(id: number, address: Address, slot: Slot) {
    this.id = id;
    this.address = address;
    this.#slot = slot;
    this.#thread = slot.thread;
  }

  async open(): Promise<void> {
    this.#slot.sessions.add(this);
    try {
      this.opened = await this.#thread.call({ kind: "open", session: this.id, address: this.address }) as OpenAnswer;
    } catch (error) {
      this.#slot.sessions.delete(this);
      throw error;
    }
  }

  flush(): Promise<FlushResult> {
    return this.#call("flush", ["manual"]);
  }

  checkpoint(name: string, options: { note?: string }): Promise<CheckpointResult> {
    return this.#call("checkpoint", [name, options]);
  }

  status(): Promise<SessionStatus> {
    return this.#call("status", []);
  }

  async close(): Promise<Txid> {
    try {
      return await this.#call("close", []);
    } finally {
      this.#slot.sessions.delete(this);
    }
  }

  #call<M extends SessionMethod>(method: M, args: SessionArgs<M>): Promise<SessionAnswer<M>> {
    if (this.lost !== undefined) return Promise.reject(this.lost);
    return this.#thread.call({ kind: "session", session: this.id, method, args }) as Promise<SessionAnswer<M>>;
  }
}

/** An engine of workers. */
export class WorkerPool implements Engine {
  readonly #options: WorkerPoolOptions;
  readonly #slots: Slot[] = [];
  #last_session = 0;
  #closed = false;
  /** The SQLite library's version. */
  sqlite_version = "";

  private constructor(options: WorkerPoolOptions) {
    this.#options = options;
  }

  /** Starts the workers; resolves once each has opened the store. */
  static async start(options: WorkerPoolOptions): Promise<WorkerPool> {
    const pool = new WorkerPool(options);
    const count = Math.max(2, options.workers ?? DEFAULT_WORKERS);
    try {
      // The first opens the store alone: it may have to be made.
      for (let index = 0; index < count; index++) {
        const slot: Slot = { for_sessions: index % 2 === 0, thread: pool.#thread(() => slot), sessions: new Set() };
        pool.#slots.push(slot);
        if (index === 0) pool.sqlite_version = await slot.thread.ready;
      }
      await Promise.all(pool.#slots.map((slot) => slot.thread.ready));
    } catch (error) {
      await pool.close();
      throw error;
    }
    return pool;
  }

  async store<M extends StoreMethod>(method: M, args: StoreArgs<M>, outside?: OutsidePaths): Promise<StoreAnswer<M>> {
    const work = { kind: "store", method, args } as const;
    if (outside !== undefined) return await this.#aside(outside, (thread) => thread.call(work)) as StoreAnswer<M>;
    const fit = STORE_METHODS[method] === "short" ? this.#slots : this.#slots.filter((slot) => !slot.for_sessions);
    const { thread } = least(fit, (slot) => slot.thread.running);
    return await thread.call(work) as StoreAnswer<M>;
  }

  async openSession(address: Address): Promise<EngineSession> {
    const slot = least(this.#slots.filter((one) => one.for_sessions), (one) => one.sessions.size);
    const session = new PooledSession(++this.#last_session, address, slot);
    await session.open();
    return session;
  }

  async close(): Promise<void> {
    this.#closed = true;
    // A worker may be stuck in a long call into SQLite, and then never answers.
    const ending = Promise.all(this.#slots.map((slot) => slot.thread.end()));
    await withDeadline(ending, this.#options.clock, END_DEADLINE_MS).catch(() => {});
    for (const slot of this.#slots) slot.thread.terminate();
  }

  #thread(slot: () => Slot): WorkerThread {
    return this.#start({}, {
      onEvent: (session, event) => this.#event(slot(), session, event),
      onLog: this.#options.log,
      onLost: () => this.#replace(slot()),
    });
  }

  #start(outside: OutsidePaths, listener: WorkerListener): WorkerThread {
    const { setup, directories, module } = this.#options;
    const write = [...directories, ...outside.write ?? []];
    const access = { read: [...write, ...outside.read ?? []], write };
    return new WorkerThread(setup, { access, listener, ...(module === undefined ? {} : { module }) });
  }

  /** A call that needs files outside the store gets a worker of its own, which may use exactly those. */
  async #aside(outside: OutsidePaths, work: (thread: WorkerThread) => Promise<unknown>): Promise<unknown> {
    let thread: WorkerThread;
    try {
      thread = this.#start(outside, { onEvent: () => {}, onLog: this.#options.log, onLost: () => {} });
    } catch (error) {
      if (!(error instanceof Deno.errors.NotCapable)) throw error;
      const paths = [...new Set([...outside.read ?? [], ...outside.write ?? []])].join(", ");
      throw new TaskdError("denied", `Cannot use ${paths}: the daemon was not given access to it`, {
        cause: error,
        hint: "Run the command on the store itself, which needs no daemon",
      });
    }
    try {
      await thread.ready;
      return await work(thread);
    } finally {
      await thread.end();
    }
  }

  #event(slot: Slot, id: number, event: SessionEvent): void {
    for (const session of slot.sessions) {
      if (session.id === id) return this.#options.onEvent(session.address, event);
    }
  }

  #replace(slot: Slot): void {
    for (const session of slot.sessions) {
      const address = formatAddress(session.address);
      session.lost = new TaskdError("session_failed", `The session of ${address} died with its worker`, {
        hint: "Close it and open it again: what was committed is still in the checkout",
      });
      // Nobody else is left to tell it.
      this.#options.onEvent(session.address, { type: "session_closed", detail: { error: session.lost.message } });
    }
    slot.sessions = new Set();
    if (!this.#closed) slot.thread = this.#thread(() => slot);
  }
}

function least<T>(from: readonly T[], cost: (one: T) => number): T {
  return from.reduce((best, one) => cost(one) < cost(best) ? one : best);
}
