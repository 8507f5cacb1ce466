/**
 * The engine as a fixed pool of workers.
 *
 * Half of the workers host sessions, half run what may take long: an integrity check of gigabytes is one synchronous
 * call into SQLite, and would keep the sessions beside it from renewing their leases. Short operations go wherever
 * least is running. A worker that dies is replaced, its calls are rejected and its sessions are lost, as their callers
 * learn from `session_failed`.
 */

import type { S3Access } from "../lib/backend/s3_permissions.ts";
import type { Clock } from "../lib/clock.ts";
import { withDeadline } from "../lib/deadline.ts";
import { TaskdError } from "../lib/errors.ts";
import type { OpenAnswer } from "../lib/protocol/messages.ts";
import type { StoreAnswer, StoreArgs, StoreMethod } from "../lib/protocol/store_operations.ts";
import { type Address, formatAddress, type Txid } from "../lib/store/names.ts";
import type { LongOptions } from "../lib/store/results.ts";
import {
  type EngineSession,
  type OnSessionEvent,
  type OutsidePaths,
  type SessionAnswer,
  type SessionArgs,
  type SessionMethod,
  SHORT_METHODS,
  type StoreEngine,
} from "./store_engine.ts";
import { KeyedMutex } from "../lib/keyed_mutex.ts";
import type { DaemonLog } from "./log.ts";
import type { ProfileOf, SampledThreads, SamplingKind, ThreadProfile } from "./sampling.ts";
import type { Work, WorkerSetup } from "./worker_messages.ts";
import { type WorkerListener, WorkerThread } from "./worker_thread.ts";

/** Default number of workers: half for sessions, half for long operations. */
const DEFAULT_WORKERS = 4;
/** Workers at once that run a call with files outside the store. */
const MAX_ASIDE = 2;
/** Cost of starting a worker, in running calls or sessions: more than an idle worker's, less than one call's. */
const COLD_START = 0.5;
/** How long a profile waits for a worker that is in a long call. */
const SAMPLED_DEADLINE_MS = 1_000;
/** How long the end of the pool waits for its workers. */
const END_DEADLINE_MS = 1_000;

export interface WorkerPoolOptions {
  setup: WorkerSetup;
  /** The workspace, as it is spelled and as it really is: all that workers may read and write. */
  directories: string[];
  /** What they may touch beyond for a store in a bucket. */
  s3_access?: S3Access | undefined;
  /** At least 2; {@linkcode DEFAULT_WORKERS} when absent. */
  workers?: number | undefined;
  clock: Clock;
  log: DaemonLog;
  onEvent: OnSessionEvent;
  /** Whether {@linkcode WorkerPool.sample} is used, which needs a permission. */
  profiled?: boolean;
  /** The workers' module; a test may put another in its place. */
  module?: string;
}

/** A place in the pool. It has a thread from its first use on, and after the thread has died, from the next. */
interface Slot {
  for_sessions: boolean;
  thread?: WorkerThread;
  sessions: Map<number, PooledSession>;
}

class PooledSession implements EngineSession {
  readonly id: number;
  readonly address: Address;
  readonly #place: { slot: Slot; thread: WorkerThread; onEvent: OnSessionEvent };
  opened!: OpenAnswer;
  lost: TaskdError | undefined;

  constructor(id: number, address: Address, place: { slot: Slot; thread: WorkerThread; onEvent: OnSessionEvent }) {
    this.id = id;
    this.address = address;
    this.#place = place;
  }

  async open(): Promise<void> {
    const { slot, thread } = this.#place;
    slot.sessions.set(this.id, this);
    try {
      this.opened = await thread.call({ kind: "open", session: this.id, address: this.address }) as OpenAnswer;
    } catch (error) {
      slot.sessions.delete(this.id);
      throw error;
    }
  }

  readonly flush = () => {
    // The worker that would have published it is gone.
    if (this.lost !== undefined) {
      const { code, message: error } = this.lost;
      const detail = { kind: "manual", code, error, duration_seconds: 0 } as const;
      this.#place.onEvent(this.address, { type: "flush_failed", detail });
    }
    return this.#call("flush", []);
  };
  readonly flushPending = () => this.#call("flushPending", []);
  readonly checkpoint = (...args: SessionArgs<"checkpoint">) => this.#call("checkpoint", args);
  readonly merge = (...args: SessionArgs<"merge">) => this.#call("merge", args);
  readonly revert = (...args: SessionArgs<"revert">) => this.#call("revert", args);
  readonly status = () => this.#call("status", []);

  async close(): Promise<Txid> {
    try {
      return await this.#call("close", []);
    } finally {
      this.#place.slot.sessions.delete(this.id);
    }
  }

  #call<M extends SessionMethod>(method: M, args: SessionArgs<M>): Promise<SessionAnswer<M>> {
    if (this.lost !== undefined) return Promise.reject(this.lost);
    const { plain, long } = withoutCallbacks(args);
    const work = { kind: "session", session: this.id, method, args: plain, long: long !== undefined } as const;
    return this.#place.thread.call(work, long) as Promise<SessionAnswer<M>>;
  }
}

export class WorkerPool implements StoreEngine, SampledThreads {
  readonly #options: WorkerPoolOptions;
  readonly #slots: Slot[] = [];
  readonly #asides = new KeyedMutex();
  #last_aside = 0;
  #last_session = 0;
  #closed = false;
  sqlite_version = "";

  private constructor(options: WorkerPoolOptions) {
    this.#options = options;
  }

  /** Starts one worker of each sort and resolves once they have opened the store; the others start when needed. */
  static async start(options: WorkerPoolOptions): Promise<WorkerPool> {
    const pool = new WorkerPool(options);
    const count = Math.max(2, options.workers ?? DEFAULT_WORKERS);
    for (let index = 0; index < count; index++) {
      pool.#slots.push({ for_sessions: index % 2 === 0, sessions: new Map() });
    }
    try {
      // Side by side: a worker that is started in a worker takes half a second. Should the store have to be made, its
      // manifest is create-only, and the second worker opens it.
      const first = pool.#slots.slice(0, 2).map((slot) => pool.#threadOf(slot).ready);
      [pool.sqlite_version = ""] = await Promise.all(first);
    } catch (error) {
      await pool.close();
      throw error;
    }
    return pool;
  }

  async store<M extends StoreMethod>(method: M, args: StoreArgs<M>, outside?: OutsidePaths): Promise<StoreAnswer<M>> {
    const { plain, long } = withoutCallbacks(args);
    const work = { kind: "store", method, args: plain, long: long !== undefined } as const;
    if (outside !== undefined) return await this.#aside(outside, (thread) => thread.call(work, long)) as StoreAnswer<M>;
    const fit = SHORT_METHODS.has(method) ? this.#slots : this.#slots.filter((slot) => !slot.for_sessions);
    const slot = least(fit, ({ thread }) => thread?.running ?? COLD_START);
    return await this.#threadOf(slot).call(work, long) as StoreAnswer<M>;
  }

  async openSession(address: Address): Promise<EngineSession> {
    const fit = this.#slots.filter((slot) => slot.for_sessions);
    const slot = least(fit, ({ thread, sessions }) => thread === undefined ? COLD_START : sessions.size);
    const session = new PooledSession(++this.#last_session, address, {
      slot,
      thread: this.#threadOf(slot),
      onEvent: this.#options.onEvent,
    });
    await session.open();
    return session;
  }

  /** Profiles the workers that run; one that does not answer in time is left out. */
  async sample<K extends SamplingKind>(kind: K): Promise<() => Promise<ThreadProfile<K>[]>> {
    const { clock } = this.#options;
    const asked = <T>(thread: WorkerThread, work: Work) =>
      withDeadline(thread.call(work) as Promise<T>, clock, SAMPLED_DEADLINE_MS).catch(() => undefined);
    const threads = this.#slots.flatMap(({ thread, for_sessions }, index) =>
      thread === undefined ? [] : [{ thread, name: `${for_sessions ? "sessions" : "work"}-${(index >> 1) + 1}` }]
    );
    await Promise.all(threads.map(({ thread }) => asked(thread, { kind: "sample", profile: kind })));
    return async () => {
      const found = await Promise.all(threads.map(async ({ thread, name }) => {
        const profile = await asked<ProfileOf<K>>(thread, { kind: "sampled" });
        return profile === undefined ? [] : [{ thread: name, profile }];
      }));
      return found.flat();
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    // A worker may be stuck in a long call into SQLite, and then never answers.
    const ending = Promise.all(this.#slots.map((slot) => slot.thread?.end()));
    await withDeadline(ending, this.#options.clock, END_DEADLINE_MS).catch(() => {});
    for (const slot of this.#slots) slot.thread?.terminate();
  }

  #threadOf(slot: Slot): WorkerThread {
    if (this.#closed) throw new TaskdError("stopping", "The daemon is shutting down");
    return slot.thread ??= this.#start({}, {
      onEvent: (id, event) => {
        const session = slot.sessions.get(id);
        if (session !== undefined) this.#options.onEvent(session.address, event);
      },
      onLog: this.#options.log,
      onLost: () => this.#lose(slot),
    });
  }

  #start(outside: OutsidePaths, listener: WorkerListener): WorkerThread {
    const { setup, directories, s3_access, profiled = false, module } = this.#options;
    const write = [...directories, ...outside.write ?? []];
    const read = [...write, ...outside.read ?? []];
    const access = { read, write, ...(s3_access === undefined ? {} : { s3: s3_access }) };
    return new WorkerThread(setup, { access, listener, profiled, ...(module === undefined ? {} : { module }) });
  }

  /** A call that needs files outside the store gets a worker of its own, which may use exactly those. */
  #aside(outside: OutsidePaths, work: (thread: WorkerThread) => Promise<unknown>): Promise<unknown> {
    const turn = ++this.#last_aside % MAX_ASIDE;
    return this.#asides.run([String(turn)], async () => {
      const thread = this.#startAside(outside);
      try {
        await thread.ready;
        return await work(thread);
      } finally {
        await thread.end();
      }
    });
  }

  #startAside(outside: OutsidePaths): WorkerThread {
    try {
      return this.#start(outside, { onEvent: () => {}, onLog: this.#options.log, onLost: () => {} });
    } catch (cause) {
      if (!(cause instanceof Deno.errors.NotCapable)) throw cause;
      const paths = [...new Set([...outside.read ?? [], ...outside.write ?? []])].join(", ");
      const hint = "Run the command on the store itself, which needs no daemon";
      throw new TaskdError("denied", `Cannot use ${paths}: the daemon was not given access to it`, { cause, hint });
    }
  }

  #lose(slot: Slot): void {
    delete slot.thread;
    for (const session of slot.sessions.values()) {
      const address = formatAddress(session.address);
      session.lost = new TaskdError("session_failed", `The session of ${address} died with its worker`, {
        hint: "Close it and open it again: what was committed is still in the checkout",
      });
      // The worker that published the session's events is gone.
      this.#options.onEvent(session.address, { type: "session_closed", detail: { error: session.lost.message } });
    }
    slot.sessions.clear();
  }
}

function least<T>(from: readonly T[], cost: (one: T) => number): T {
  return from.reduce((best, one) => cost(one) < cost(best) ? one : best);
}

/** Takes the callback and the signal, which cannot cross to a worker, out of the options of a long method. */
function withoutCallbacks(args: readonly unknown[]): { plain: unknown[]; long?: LongOptions } {
  const last = args.at(-1);
  if (typeof last !== "object" || last === null || !("signal" in last || "onProgress" in last)) {
    return { plain: [...args] };
  }
  const { signal, onProgress, ...options } = last as LongOptions;
  return { plain: [...args.slice(0, -1), options], long: { signal, ...(onProgress && { onProgress }) } };
}
