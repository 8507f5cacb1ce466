/**
 * A session: captures what any stock SQLite client commits to a branch's checkout and makes
 * it durable in the store, flush by flush.
 *
 * Guarantees: what a flush has acknowledged is in the store, and a commit that was not seen
 * whole is never stored. A session that can no longer prove either ends in the error state, or
 * starts over from a full copy (a rebase), counts it and logs it.
 */

import { hasCode, type TaskdError } from "../errors.ts";
import type { CheckoutFile } from "../sqlite/checkout_file.ts";
import { RebaseNeeded, type WalTail } from "../sqlite/wal_tail.ts";
import { pointIn, type StoreContext } from "../store/context.ts";
import { keepRenewed, Lease, type Renewal } from "../store/lease.ts";
import type { Chain } from "../store/chain.ts";
import { type Address, parseName, type Txid } from "../store/names.ts";
import type { Head } from "../store/objects.ts";
import { refuseCheckpoint, withCheckpoint } from "../store/ops/checkpoint.ts";
import type { CheckpointResult, FlushResult, SessionStatus } from "../store/results.ts";
import type { Store } from "../store/store.ts";
import { DurableHead } from "./_durable_head.ts";
import { Flusher } from "./_flusher.ts";
import { PollSchedule } from "./_poll_schedule.ts";
import { retryWhileBusy } from "./_retry_while_busy.ts";
import { Pending } from "./_pending.ts";
import { Serial } from "./_serial.ts";
import type { FlushKind, SessionEvent } from "./_session_event.ts";
import { brokenError, closedError, endingError } from "./_session_error.ts";
import { prepareCheckout, type Prepared } from "./prepare.ts";

export type { FlushKind, SessionEvent } from "./_session_event.ts";

export interface SessionOptions {
  /** Milliseconds between flushes of the timer; 0 for none. */
  flush_every_ms: number;
  /** Segments past the last snapshot before the next one; at least 1. */
  snapshot_every: number;
  /** Receives each event, synchronously and in order. */
  onEvent?: (event: SessionEvent) => void;
  log?: (line: string) => void;
}

interface Begin {
  options: SessionOptions;
  renewal: Renewal;
  head: Head;
  chain: Chain;
}

/** An open session. It captures in the background until it is closed. */
export class CaptureSession {
  readonly address: Address;
  /** Path of the checkout, for any SQLite client. */
  readonly checkout: string;
  readonly #context: StoreContext;
  readonly #options: SessionOptions;
  readonly #lease: Lease;
  readonly #renewal: Renewal;
  readonly #file: CheckoutFile;
  readonly #tail: WalTail;
  readonly #schedule: PollSchedule;
  readonly #serial = new Serial();
  readonly #stop = new AbortController();
  readonly #durable: DurableHead;
  readonly #pending: Pending;
  readonly #flusher: Flusher;
  #error: TaskdError | undefined;
  #closing: Promise<void> | undefined;
  #closed = false;
  #running: Promise<void>;

  private constructor(context: StoreContext, lease: Lease, prepared: Prepared, begin: Begin) {
    this.address = { db: lease.address.db, branch: lease.address.branch };
    this.checkout = prepared.file.path;
    this.#context = context;
    this.#options = begin.options;
    this.#lease = lease;
    this.#renewal = begin.renewal;
    this.#file = prepared.file;
    this.#tail = prepared.tail;
    this.#schedule = new PollSchedule(context.clock);
    const { tail } = prepared;
    const { head, chain } = begin;
    this.#durable = new DurableHead({ context, lease, tail, checkout: this.checkout, head, chain });
    this.#pending = new Pending({
      file: prepared.file,
      tail,
      lease,
      durable: this.#durable,
      snapshot_every: begin.options.snapshot_every,
      onRebase: (reason) => this.#onRebase(reason),
    });
    this.#flusher = new Flusher({
      clock: context.clock,
      pending: this.#pending,
      durable: this.#durable,
      every_ms: begin.options.flush_every_ms,
      onEvent: (event) => begin.options.onEvent?.(event),
    });
    if (prepared.rebase !== undefined) this.#pending.requestRebase(prepared.rebase);
    if (prepared.resumed) {
      this.#durable.resume(prepared.resumed);
      this.#log("resumed where a former session was cut off");
    } else {
      this.#durable.record(this.#pending.needs_rebase ? undefined : this.#tail.mark);
    }
    this.#running = this.#run();
  }

  /**
   * Opens a session: takes the branch's lease and brings its checkout up to date.
   *
   * @throws {TaskdError} `lease_held`, `branch_deleting`, `branch_reaping`, `dirty`, and what restoring a checkout can throw.
   */
  static async open(store: Store, address: Address, options: SessionOptions): Promise<CaptureSession> {
    const { context } = store;
    const branch = { db: address.db, branch: address.branch };
    const lease = await Lease.acquire(context, branch);
    let lost: unknown;
    let session: CaptureSession | undefined;
    // Outside the session's queue of jobs: a flush may take longer than a lease lasts.
    const renewal = keepRenewed(context, lease, {
      onLost: (error) => session ? session.#handleError(error) : lost = error,
      onFault: (error) => options.log?.(`session ${branch.db}@${branch.branch}: lease not renewed: ${error.message}`),
    });
    try {
      const point = await pointIn(context, branch, lease.ref);
      const prepared = await retryWhileBusy(context.clock, () => prepareCheckout(context, point));
      const { head, chain } = point;
      session = CaptureSession.#begin(context, lease, prepared, { options, renewal, head, chain });
      options.onEvent?.({ type: "session_opened", detail: { holder: lease.holder, epoch: lease.epoch } });
      if (lost !== undefined) session.#handleError(lost);
      return session;
    } catch (error) {
      await renewal.stop();
      // The first failure is the error to report; a lease that could not be released expires.
      await lease.release().catch(() => {});
      throw error;
    }
  }

  static #begin(context: StoreContext, lease: Lease, prepared: Prepared, begin: Begin): CaptureSession {
    try {
      return new CaptureSession(context, lease, prepared, begin);
    } catch (error) {
      prepared.file.close();
      throw error;
    }
  }

  get epoch(): number {
    return this.#lease.epoch;
  }

  get holder(): string {
    return this.#lease.holder;
  }

  get txid(): Txid {
    return this.#durable.head.txid;
  }

  /**
   * Stores everything committed so far and returns what is durable then. Emits its event also when
   * there was nothing to store.
   */
  flush(): Promise<FlushResult> {
    return this.#serial.run(() => this.#flush("manual", true));
  }

  /** {@linkcode flush} on behalf of another operation: emits its event only if there was something to store. */
  flushPending(): Promise<FlushResult> {
    return this.#serial.run(() => this.#flush("manual"));
  }

  /** Flushes and names the state: checkpoint of a live branch. It is an explicit flush, with a name. */
  checkpoint(name: string, options: { note?: string } = {}): Promise<CheckpointResult> {
    parseName(name, "checkpoint");
    return this.#serial.run(async () => {
      refuseCheckpoint(this.#lease.ref, this.address, name, options.note);
      const { pages, bytes } = await this.#flush("manual", true);
      const { head } = this.#durable;
      await this.#lease.write((ref) => withCheckpoint(this.#context, ref, head, name, options.note));
      return { ...this.address, checkpoint: name, txid: head.txid, kind: head.kind, pages, stored_bytes: bytes };
    });
  }

  /** The session's state. Reads the log to its end, so the lag is current. */
  status(): SessionStatus {
    let lag_bytes = 0;
    if (!this.#error && !this.#closing) {
      try {
        lag_bytes = this.#observe(() => this.#tail.lagBytes());
      } catch (error) {
        this.#handleError(error);
      }
    }
    return {
      ...this.address,
      state: this.#error ? "error" : "active",
      checkout: this.checkout,
      holder: this.holder,
      epoch: this.epoch,
      durable_txid: this.txid,
      durable_age_seconds: this.#flusher.durable_age_seconds,
      capture_lag_bytes: lag_bytes,
      wal_bytes: this.#file.walSize(),
      rebases: this.#pending.rebases,
      ...(this.#error ? { error: { code: this.#error.code, message: this.#error.message } } : {}),
    };
  }

  /** Flushes, releases the lease and closes. What could not be flushed stays in the checkout and is recovered by the next session. */
  close(): Promise<void> {
    return this.#closing ??= this.#close();
  }

  async #run(): Promise<void> {
    const { clock } = this.#context;
    while (!this.#stop.signal.aborted) {
      try {
        await clock.sleep(this.#schedule.delay_ms, this.#stop.signal);
      } catch {
        return;
      }
      if (this.#stop.signal.aborted || this.#error) return;
      try {
        this.#poll();
        // An idle session polls thousands of times for each chore.
        if (!this.#serial.busy && this.#choreDue()) await this.#serial.run(() => this.#chores());
      } catch (error) {
        this.#handleError(error);
      }
    }
  }

  /** Reads what was committed. Runs also while a flush is writing. */
  #poll(): void {
    const started = this.#context.clock.monotonic();
    const saw = this.#observe(() => this.#tail.drain());
    this.#schedule.polled(saw, this.#context.clock.monotonic() - started);
  }

  /**
   * Reads the log. A log that was restarted while nothing was pending holds all that is new from its start, which
   * is recorded as a place to resume from.
   */
  #observe<T>(read: () => T): T {
    const clean = !this.#pending.any && !this.#serial.busy;
    const result = read();
    const { generation } = this.#tail;
    if (clean && generation && generation.salt2 !== this.#durable.recorded?.salt2) {
      this.#durable.record(generation);
    }
    return result;
  }

  #choreDue(): boolean {
    return this.#schedule.inPlaceDue() || this.#tail.pin_in_the_way || this.#flusher.due || this.#takeoverDue();
  }

  #takeoverDue(): boolean {
    return !this.#pending.needs_rebase && this.#schedule.takeoverDue(this.#tail.log_bytes);
  }

  /** Runs what is due: checking the file's path, the flush of the timer, folding the log. */
  async #chores(): Promise<void> {
    if (this.#schedule.inPlaceDue()) {
      this.#schedule.checkedInPlace();
      this.#file.assertInPlace();
    }
    this.#tail.leaveIdlePin();
    if (this.#flusher.due) {
      this.#flusher.restartTimer();
      if (this.#pending.maybe) await this.#flush("auto").catch(() => {});
    }
    if (this.#takeoverDue()) this.#takeOver();
  }

  #takeOver(): void {
    let done = false;
    let why = "";
    try {
      done = this.#tail.takeover();
    } catch (error) {
      why = `: ${(error as Error).message}`;
      throw error;
    } finally {
      this.#schedule.tookOver(done);
      if (!done && this.#schedule.blocked === 1) {
        this.#log(`the log cannot be folded yet, it has ${this.#file.walSize()} bytes${why}`);
      }
    }
  }

  async #flush(kind: FlushKind, explicit = false): Promise<FlushResult> {
    if (this.#closed) throw closedError(this.#name);
    if (this.#error) throw brokenError(this.#name, this.#error);
    try {
      return await this.#flusher.flush(kind, explicit);
    } catch (error) {
      this.#handleError(error);
      throw error;
    }
  }

  async #close(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    let failure: unknown = this.#error;
    await this.#serial.run(async () => {
      try {
        if (!failure) await this.#settle();
      } catch (error) {
        failure = error;
      }
      this.#closed = true;
      this.#file.close();
    });
    await this.#renewal.stop();
    await this.#lease.release().catch((error) => failure ??= error);
    const detail = failure === undefined ? {} : { error: (failure as Error).message };
    this.#options.onEvent?.({ type: "session_closed", detail });
    if (failure !== undefined && failure !== this.#error) throw failure;
  }

  /** The last flush, and the checkout's stamp, with writers held off so that nothing comes between the two. */
  async #settle(): Promise<void> {
    await this.#flush("manual");
    let held: { complete: boolean; release: () => void };
    try {
      held = this.#tail.hold();
    } catch (error) {
      // A writer at work, or a log that needs a new start: the record stays, and the next session compares.
      if (hasCode(error, "busy") || error instanceof RebaseNeeded) return;
      throw error;
    }
    try {
      if (this.#tail.dirty) await this.#flush("manual");
      if (!held.complete) return;
      const { ref } = this.#lease;
      const { chain } = await pointIn(this.#context, this.address, ref);
      this.#context.checkouts.stampHeld(this.checkout, { ref, chain }, this.#file.header().change_counter);
    } finally {
      held.release();
    }
  }

  #onRebase(reason: string): void {
    this.#log(`starting over from a full copy: ${reason}`);
    // At once where there is a timer: until then the log cannot be folded.
    this.#flusher.makeDue();
  }

  /** Decides what an error means for the session: a rebase, its end, or nothing if a later try may succeed. */
  #handleError(error: unknown): void {
    if (error instanceof RebaseNeeded) return this.#pending.requestRebase(error.message);
    const ending = endingError(error);
    if (!ending || this.#error) return;
    this.#error = ending;
    this.#stop.abort();
    if (hasCode(error, "fenced")) this.#options.onEvent?.({ type: "fenced", detail: { cause: error.message } });
    this.#log(`broken: ${ending.message}`);
  }

  get #name(): string {
    return `${this.address.db}@${this.address.branch}`;
  }

  #log(line: string): void {
    this.#options.log?.(`session ${this.#name}: ${line}`);
  }
}
