/**
 * A session: captures what any stock SQLite client commits to a branch's checkout and makes
 * it durable in the store, flush by flush.
 *
 * Guarantees: what a flush has acknowledged is in the store, and a commit that was not seen
 * whole is never stored. A session that can no longer prove either ends in the error state, or
 * starts over from a full copy (a rebase), counts it and logs it.
 */

import { hasCode, messageOf, type TaskdError } from "../errors.ts";
import { KeyedMutex } from "../keyed_mutex.ts";
import { retryWhileBusy } from "../retry_while_busy.ts";
import { type CheckoutFile, CheckoutOverwritten } from "../sqlite/checkout_file.ts";
import { RebaseNeeded, type WalTail } from "../sqlite/wal_tail.ts";
import { pointIn, type StoreContext } from "../store/context.ts";
import { keepRenewed, Lease, type Renewal } from "../store/lease.ts";
import type { Chain } from "../store/chain.ts";
import { type Address, parseName, type Txid } from "../store/names.ts";
import type { Head } from "../store/objects.ts";
import type { Ref } from "../store/ref.ts";
import { refuseCheckpoint, withCheckpoint } from "../store/ops/checkpoint.ts";
import type { CheckpointResult, FlushResult, Recovery, SessionStatus } from "../store/results.ts";
import type { Store } from "../store/store.ts";
import { DurableHead } from "./_durable_head.ts";
import { PollSchedule, TAKEOVER_BYTES } from "./_poll_schedule.ts";
import { Pending } from "./_pending.ts";
import type { FlushKind, SessionEvent } from "./_session_event.ts";
import { brokenError, closedError, endingError } from "./_session_error.ts";
import { prepareCheckout, type Prepared } from "./prepare.ts";

export type { FlushKind, SessionEvent } from "./_session_event.ts";

export interface SessionOptions {
  /** Milliseconds between flushes of the timer; 0 for none. */
  flush_every_ms: number;
  /** Segments past the last snapshot before the next one; at least 1. */
  snapshot_every: number;
  /** Has the system tell of a write to an idle log: a checkpoint right after it need not wait up to 0.6 s for a poll. */
  watch_log?: boolean;
  /** Receives each event, synchronously and in order. */
  onEvent?: (event: SessionEvent) => void;
  log?: (line: string) => void;
}

interface Begin {
  options: SessionOptions;
  renewal: Renewal;
  head: Head;
  chain: Chain;
  boot: string | undefined;
}

/** A session that is closed waits so long for an application's transaction to end. */
const SETTLE_MS = 1_000;

/** The one key of a session's jobs. */
const JOBS = ["jobs"];

/** An open session. It captures in the background until it is closed. */
export class CaptureSession {
  readonly address: Address;
  /** Path of the checkout, for any SQLite client. */
  readonly checkout: string;
  /** What became of a checkout that was not known to be the branch's head. */
  readonly recovery: Recovery | undefined;
  readonly #context: StoreContext;
  readonly #options: SessionOptions;
  readonly #lease: Lease;
  readonly #renewal: Renewal;
  readonly #file: CheckoutFile;
  readonly #tail: WalTail;
  readonly #schedule: PollSchedule;
  /** Flushes, takeovers and changes never overlap, and go one after the other. */
  readonly #jobs = new KeyedMutex();
  readonly #stop = new AbortController();
  /** Ends the wait for the next poll. */
  #wake = new AbortController();
  #unwatch: (() => void) | undefined;
  readonly #durable: DurableHead;
  readonly #pending: Pending;
  #error: TaskdError | undefined;
  #left = false;
  #closing: Promise<void> | undefined;
  #closed = false;
  /** Makes the name of the last record durable. */
  #settling: Promise<void> | undefined;
  #running: Promise<void>;

  private constructor(context: StoreContext, lease: Lease, prepared: Prepared, begin: Begin) {
    this.address = lease.address;
    this.checkout = prepared.file.path;
    this.#context = context;
    this.#options = begin.options;
    this.#lease = lease;
    this.#renewal = begin.renewal;
    this.#file = prepared.file;
    this.#tail = prepared.tail;
    this.#schedule = new PollSchedule(context.clock);
    const { tail } = prepared;
    const { head, chain, boot } = begin;
    this.#durable = new DurableHead({
      context,
      lease,
      tail,
      checkout: this.checkout,
      head,
      chain,
      boot,
      onKept: (branch, pgno) =>
        this.#log(`page ${pgno} is what it was before, with no commit seen: the flush before is kept as ${branch}`),
    });
    this.#pending = new Pending({
      file: prepared.file,
      tail,
      lease,
      durable: this.#durable,
      clock: context.clock,
      snapshot_every: begin.options.snapshot_every,
      flush_every_ms: begin.options.flush_every_ms,
      onRebase: (reason) => this.#onRebase(reason),
      onEvent: (event) => begin.options.onEvent?.(event),
    });
    if (prepared.rebase !== undefined) this.#pending.requestRebase(prepared.rebase);
    this.recovery = prepared.recovery;
    if (prepared.resumed) this.#log("resumed where a former session was cut off");
    this.#durable.record(prepared.resumed ?? (this.#pending.needs_rebase ? undefined : this.#tail.mark));
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
    lease.onRetaken = (late_seconds) => session && session.#onRetaken(late_seconds);
    try {
      const point = await pointIn(context, branch, lease.ref);
      const boot = await context.boot();
      const prepared = await retryWhileBusy(context.clock, () => prepareCheckout(context, point));
      const { head, chain } = point;
      session = CaptureSession.#begin(context, lease, prepared, { options, renewal, head, chain, boot });
      // Of a file that an application commits to, the name has to be there after a power failure, and so has the record.
      await context.workspace.settle(session.checkout);
      options.onEvent?.({ type: "session_opened", detail: { holder: lease.holder, epoch: lease.epoch } });
      if (lost !== undefined) session.#handleError(lost);
      return session;
    } catch (error) {
      await session?.close().catch(() => {});
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
    return this.#jobs.run(JOBS, () => this.#flush("manual", true));
  }

  /** {@linkcode flush} on behalf of another operation: emits its event only if there was something to store. */
  flushPending(): Promise<FlushResult> {
    return this.#jobs.run(JOBS, () => this.#flush("manual"));
  }

  /** Flushes and names the state: checkpoint of a live branch. It is an explicit flush, with a name. */
  checkpoint(name: string, options: { note?: string } = {}): Promise<CheckpointResult> {
    parseName(name, "checkpoint");
    return this.#jobs.run(JOBS, async () => {
      refuseCheckpoint(this.#lease.ref, this.address, name, options.note);
      const { pages, bytes } = await this.#flush("manual", true);
      const { head } = this.#durable;
      await this.#lease.write((ref) => withCheckpoint(this.#context, ref, head, name, options.note));
      return { ...this.address, checkpoint: name, txid: head.txid, kind: head.kind, pages, stored_bytes: bytes };
    });
  }

  /**
   * Runs a transaction of this process's own on the checkout, and stores it: no flush begins while it runs.
   *
   * @param record What the branch's ref then says, written with the head that has the transaction: so it is known of each
   * that is stored. Nothing when undefined.
   */
  change<T>(
    work: (checkout: string) => Promise<T>,
    record: (result: T) => ((ref: Ref) => Ref) | undefined,
  ): Promise<T> {
    return this.#jobs.run(JOBS, async () => {
      await this.#flush("manual");
      const result = await work(this.checkout);
      const note = record(result);
      if (note !== undefined) this.#durable.noteWithNext(note);
      await this.#flush("manual");
      await this.#durable.writeNote();
      return result;
    });
  }

  /** The session's state. Reads the log to its end, so the lag is current. */
  status(): SessionStatus {
    const lag_bytes = this.#lagBytes();
    return {
      ...this.address,
      state: this.#error ? "error" : "active",
      checkout: this.checkout,
      holder: this.holder,
      epoch: this.epoch,
      durable_txid: this.txid,
      durable_age_seconds: this.#pending.durable_age_seconds,
      capture_lag_bytes: lag_bytes,
      wal_bytes: this.#file.walSize(),
      rebases: this.#pending.rebases,
      ...(this.#error ? { error: { code: this.#error.code, message: this.#error.message } } : {}),
    };
  }

  /** Bytes of the log that are not captured; of a session in error, nothing since the last flush is. */
  #lagBytes(): number {
    if (this.#closed) return 0;
    try {
      if (!this.#error) return this.#observe(() => this.#tail.lagBytes());
    } catch (error) {
      this.#handleError(error);
    }
    if (!this.#error) return 0;
    try {
      this.#tail.countUnseen();
    } catch {
      // It is in error already; what was counted before stands.
    }
    return this.#durable.unstored_log_bytes;
  }

  /** Flushes, releases the lease and closes. What could not be flushed stays in the checkout and is recovered by the next session. */
  close(): Promise<void> {
    return this.#closing ??= this.#close();
  }

  async #run(): Promise<void> {
    const { clock } = this.#context;
    while (!this.#stop.signal.aborted) {
      try {
        await clock.sleep(this.#schedule.delay_ms, this.#wake.signal);
      } catch {
        this.#wake = new AbortController();
      }
      if (this.#stop.signal.aborted) return;
      if (this.#error) {
        this.#schedule.polled(false, 0);
        this.#leave();
        this.#reportUnflushed();
        continue;
      }
      try {
        // Before the poll, which then sees what was written until now.
        if (this.#options.watch_log && this.#schedule.quiet) this.#unwatch ??= this.#file.watchWal(() => this.#woken());
        this.#schedule.watched = this.#unwatch !== undefined && !this.#pending.any;
        if (this.#poll()) this.#start(() => this.#stepAside());
        // An idle session polls thousands of times for each chore.
        if (!this.#busy && this.#choreDue()) this.#start(() => this.#chores());
      } catch (error) {
        this.#handleError(error);
      }
    }
  }

  #woken(): void {
    this.#unwatch = undefined;
    this.#schedule.woken();
    this.#wake.abort();
  }

  /** Whether a job is running or waiting. */
  get #busy(): boolean {
    return this.#jobs.size > 0;
  }

  /** Starts a job that polls do not wait for: checkpoints of the application wait for them. */
  #start(job: () => Promise<void>): void {
    this.#jobs.run(JOBS, job).catch((error) => this.#handleError(error));
  }

  /** Reads what was committed. Runs also while a flush is writing. Returns whether the session is in the application's way. */
  #poll(): boolean {
    const started = this.#context.clock.monotonic();
    const tail = this.#tail;
    const most_bytes = this.#schedule.outgrown_bytes;
    const saw = this.#observe(() => tail.drain(most_bytes));
    const outgrown = saw && tail.outgrew(most_bytes);
    const waited_for = !outgrown && !(this.#busy && tail.reading) && tail.followPin();
    // Off the pin the application is busy: the first look after the next flush must come soon.
    this.#schedule.polled(saw || tail.unpinned, this.#context.clock.monotonic() - started, waited_for);
    if (this.#busy || tail.unpinned) return false;
    return this.#schedule.inTheWay(tail.let_through, outgrown) || this.#pending.needs_rebase;
  }

  /**
   * Gets out of the application's way until the next flush, where what is committed meanwhile can be found: by comparing the
   * file, or else by a full copy now and then.
   */
  async #stepAside(): Promise<void> {
    const [tail, pending] = [this.#tail, this.#pending];
    // A full copy needs no pin until it begins.
    if (pending.needs_rebase) return tail.unpin();
    if (tail.comparable) await pending.prepareToUnpin();
    else if (pending.may_copy) {
      pending.requestRebase("the application outruns the session, and the file is too large to compare");
    } else return void this.#observe(() => tail.drain());
    tail.unpin();
    this.#options.onEvent?.({ type: "stepped_aside", detail: null });
  }

  /**
   * Reads the log. A log that was restarted while nothing was pending holds all that is new from its start, which
   * is recorded as a place to resume from.
   */
  #observe<T>(read: () => T): T {
    const clean = !this.#pending.any && !this.#busy;
    const result = read();
    const { generation } = this.#tail;
    if (clean && generation && generation.salt2 !== this.#durable.recorded?.salt2) {
      this.#durable.record(generation);
      // The log may be forced to disk by its application at any commit, and proves nothing without this.
      this.#settling = this.#context.workspace.settle(this.checkout).catch((error) => this.#log(messageOf(error)));
    }
    return result;
  }

  #choreDue(): boolean {
    return this.#schedule.inPlaceDue() || this.#flushDue() || this.#takeoverDue();
  }

  #flushDue(): boolean {
    return this.#pending.flush_due && !(this.#pending.needs_rebase && !this.#pending.may_copy);
  }

  #takeoverDue(): boolean {
    const { any, needs_rebase } = this.#pending;
    // After a power cut the log alone proves that what is not stored yet continues the head.
    return !needs_rebase && !this.#tail.unpinned && this.#schedule.takeoverDue(this.#tail.log_bytes, !any);
  }

  /** Runs what is due: checking the file's path, the flush of the timer, folding the log. */
  async #chores(): Promise<void> {
    if (this.#schedule.inPlaceDue()) {
      this.#schedule.checkedInPlace();
      this.#file.assertInPlace();
      if (this.#schedule.quiet && this.#tail.complete && !this.#pending.needs_rebase) {
        await this.#durable.assertExplained();
      }
      // An application that no longer checkpoints leaves that to the session.
      if (this.#tail.unpinned && this.#file.walSize() > TAKEOVER_BYTES) this.#tail.foldAside();
    }
    if (this.#flushDue()) {
      this.#pending.restartTimer();
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
    if (this.#error) throw this.#pending.refuse(kind, brokenError(this.#name, this.#error));
    try {
      return await this.#pending.flush(kind, explicit);
    } catch (error) {
      this.#handleError(error);
      throw error;
    }
  }

  async #close(): Promise<void> {
    this.#stop.abort();
    this.#wake.abort();
    await this.#running;
    this.#unwatch?.();
    await this.#settling;
    let failure: unknown = this.#error;
    await this.#jobs.run(JOBS, async () => {
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
    // Another host may store the next head, and then the ref no longer says where this one ends.
    this.#durable.record(this.#durable.recorded);
    const { digest } = this.#durable.head;
    const content = await this.#durable.content();
    let held: { complete: boolean; release: () => void };
    try {
      held = await retryWhileBusy(this.#context.clock, () => this.#tail.hold(), SETTLE_MS);
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
      // The records go by the path: of a file that was put there meanwhile they must not speak.
      this.#file.assertInPlace();
      this.#context.checkouts.stampHeld(this.checkout, { ref, chain }, {
        change_counter: this.#file.header().change_counter,
        content: ref.digest === digest ? content : undefined,
        log: this.#tail.mark,
      });
    } finally {
      held.release();
    }
  }

  #onRebase(reason: string): void {
    this.#log(`starting over from a full copy: ${reason}`);
    this.#options.onEvent?.({ type: "rebase", detail: null });
  }

  /** The lease ran out and no one had taken it: the file and the log have to be those that they were. */
  #onRetaken(late_seconds: number): void {
    this.#log(`took its lease again, ${late_seconds.toFixed(1)} s after it had run out`);
    const { holder, epoch } = this;
    this.#options.onEvent?.({ type: "lease_retaken", detail: { holder, epoch, late_seconds } });
    try {
      this.#file.assertInPlace();
      this.#observe(() => this.#tail.drain());
    } catch (error) {
      this.#handleError(error);
    }
  }

  /** What the timer's flush of a session in error comes to, where there is something to flush. */
  #reportUnflushed(): void {
    const lag_bytes = this.#lagBytes();
    if (!this.#pending.flush_due) return;
    this.#pending.restartTimer();
    if (lag_bytes > 0) this.#pending.refuse("auto", brokenError(this.#name, this.#error!));
  }

  /** Decides what an error means for the session: a rebase, its end, or nothing if a later try may succeed. */
  #handleError(error: unknown): void {
    if (error instanceof RebaseNeeded) return this.#pending.requestRebase(error.message);
    // The file was a database when the session began.
    const ending = hasCode(error, "not_a_database")
      ? new CheckoutOverwritten(this.checkout, "was overwritten: it is no database any more")
      : endingError(error);
    if (!ending || this.#error) return;
    this.#error = ending;
    this.#leave();
    if (hasCode(error, "fenced")) this.#options.onEvent?.({ type: "fenced", detail: { cause: error.message } });
    this.#log(`broken: ${ending.message}`);
  }

  /**
   * A session in error captures no more: the application's checkpoints must not wait for it until it is closed. What
   * fails is tried again at the next poll, and ends no other session.
   */
  #leave(): void {
    if (this.#left) return;
    try {
      this.#tail.unpin();
      if (this.#error instanceof CheckoutOverwritten) this.#context.checkouts.disown(this.checkout, this.#lease.ref);
      this.#left = true;
    } catch {
      // The disk may be full, or fail: until it is well again the session's error says enough.
    }
  }

  get #name(): string {
    return `${this.address.db}@${this.address.branch}`;
  }

  #log(line: string): void {
    this.#options.log?.(`session ${this.#name}: ${line}`);
  }
}
