/**
 * What a session has to store next: the changes that were read since, or all of the database anew. And the flushes that
 * store it, with their timer.
 *
 * A reason for a full copy that appears while one is stored waits for the next; a full copy that failed stays
 * requested. A flush answers once all that was committed before it is in the store, and waits a while for other processes'
 * locks. It emits an event when it stored something or failed.
 */

import { type Clock, nextTurn } from "../clock.ts";
import { TaskdError } from "../errors.ts";
import { retryWhileBusy } from "../retry_while_busy.ts";
import type { CheckoutFile } from "../sqlite/checkout_file.ts";
import { RebaseNeeded, type WalTail } from "../sqlite/wal_tail.ts";
import type { Lease } from "../store/lease.ts";
import type { StoredObject } from "../store/objects.ts";
import type { FlushResult } from "../store/results.ts";
import { TAKEOVER_BYTES } from "./_poll_schedule.ts";
import type { DurableHead } from "./_durable_head.ts";
import type { FlushKind, SessionEvent } from "./_session_event.ts";

/** Further tries within one storing, for an application that breaks the log while it is read. */
const MAX_RETRIES = 3;

/** Between the beginnings of two full copies that no one asked for, at least; after a long one, so many times as long as it took. */
const COPY = { pause_ms: 60_000, times: 10 };

export interface PendingOptions {
  file: CheckoutFile;
  tail: WalTail;
  lease: Lease;
  durable: DurableHead;
  clock: Clock;
  snapshot_every: number;
  flush_every_ms: number;
  onEvent: (event: SessionEvent) => void;
  /** Receives the reason for a full copy, once for each. */
  onRebase: (reason: string) => void;
}

/** The caller never runs two flushes at once. */
export class Pending {
  readonly #options: PendingOptions;
  /** Why only a full copy is safe. */
  #rebase: string | undefined;
  #rebases = 0;
  /** When the next full copy may be made that no one asked for. */
  #next_copy_ms = -Infinity;
  #durable_at_ms: number;
  #next_flush_ms: number;

  /** Begins where all is durable; the timer starts. */
  constructor(options: PendingOptions) {
    this.#options = options;
    this.#durable_at_ms = options.clock.monotonic();
    this.#next_flush_ms = this.#durable_at_ms + options.flush_every_ms;
  }

  /** Whether only a full copy is safe: until it is stored, the log cannot be folded. */
  get needs_rebase(): boolean {
    return this.#rebase !== undefined;
  }

  /** Whether a full copy is due: at most one a minute, and less than one part in ten of the time, except those asked for. */
  get may_copy(): boolean {
    return this.#options.clock.monotonic() >= this.#next_copy_ms;
  }

  get rebases(): number {
    return this.#rebases;
  }

  /** Whether there is anything to store of what was read. */
  get any(): boolean {
    return this.#options.tail.dirty || this.needs_rebase;
  }

  /** Whether there may be something to store. */
  get maybe(): boolean {
    return this.any || this.#options.tail.in_doubt;
  }

  /** Seconds since the last flush that succeeded. */
  get durable_age_seconds(): number {
    return (this.#options.clock.monotonic() - this.#durable_at_ms) / 1000;
  }

  /** Whether the timer asks for a flush. */
  get flush_due(): boolean {
    return this.#options.flush_every_ms > 0 && this.#options.clock.monotonic() >= this.#next_flush_ms;
  }

  restartTimer(): void {
    this.#next_flush_ms = this.#options.clock.monotonic() + this.#options.flush_every_ms;
  }

  /** Makes the next flush a full copy: at once where there is a timer, since until then the log cannot be folded. */
  requestRebase(reason: string): void {
    if (this.#rebase === undefined) {
      this.#rebases++;
      this.#options.onRebase(reason);
      this.#next_flush_ms = this.#options.clock.monotonic();
    }
    this.#rebase = reason;
  }

  /** Reads what {@linkcode catchUp} compares with. Checkpoints of the application can go on meanwhile. */
  async prepareToUnpin(): Promise<void> {
    const { tail } = this.#options;
    // A session that ends in error meanwhile is off the pin already.
    while (tail.complete && !tail.prepareToUnpin()) {
      await nextTurn();
      if (!tail.outgrew(TAKEOVER_BYTES)) tail.followPin();
    }
  }

  /** Pins the log again where the session got out of the application's way, and finds out what was changed meanwhile. */
  async catchUp(): Promise<void> {
    const { tail } = this.#options;
    if (tail.unpinned) tail.repin();
    while (!tail.compare()) {
      await nextTurn();
      tail.followPin();
    }
  }

  /** Stores what is pending. An `explicit` flush emits its event also when nothing was pending. */
  async flush(kind: FlushKind, explicit: boolean): Promise<FlushResult> {
    const { clock, durable, onEvent } = this.#options;
    const started = clock.monotonic();
    const seconds = () => (clock.monotonic() - started) / 1000;
    try {
      const stored = await retryWhileBusy(clock, () => this.#store(kind === "manual"));
      if (!this.needs_rebase) this.#durable_at_ms = clock.monotonic();
      const { txid } = durable.head;
      if (stored || explicit) onEvent({ type: "flushed", detail: { kind, txid, duration_seconds: seconds() } });
      return { txid, kind: stored?.head.kind ?? "none", pages: stored?.pages ?? 0, bytes: stored?.stored_bytes ?? 0 };
    } catch (error) {
      throw this.refuse(kind, error as Error, seconds());
    }
  }

  /** Emits the event of a flush that failed after so long, or was not even begun, and returns the error. */
  refuse(kind: FlushKind, error: Error & { code?: string }, duration_seconds = 0): Error {
    const { code = "internal", message } = error;
    this.#options.onEvent({ type: "flush_failed", detail: { kind, code, error: message, duration_seconds } });
    return error;
  }

  /**
   * Stores what is pending as a segment, or all as a snapshot; undefined when there is nothing, or not `asked` for a full copy
   * that is not due yet.
   */
  async #store(asked: boolean): Promise<StoredObject | undefined> {
    const { file, tail, lease, durable, snapshot_every } = this.#options;
    file.assertInPlace();
    await lease.ensureHeld();
    for (let attempt = 0;; attempt++) {
      try {
        if (this.#rebase !== undefined && !asked && !this.may_copy) return undefined;
        if (this.#rebase !== undefined) return await this.#storeAnew(this.#rebase);
        await this.catchUp();
        tail.drain();
        // An empty log proves nothing: SQLite may count a commit that cannot be read in the log.
        if (!tail.dirty) tail.confirm();
        await durable.assertExplained();
        if (!tail.dirty) return undefined;
        return await durable.store(durable.depth >= snapshot_every ? "snapshot" : "segment");
      } catch (error) {
        if (!(error instanceof RebaseNeeded)) throw error;
        this.requestRebase(error.message);
        if (attempt < MAX_RETRIES) continue;
        throw new TaskdError("capture_failed", `Cannot read the log of ${file.path}: ${error.message}`, {
          cause: error,
        });
      }
    }
  }

  async #storeAnew(reason: string): Promise<StoredObject> {
    const { clock, tail, durable } = this.#options;
    const began_ms = clock.monotonic();
    this.#rebase = undefined;
    try {
      tail.resync();
      return await durable.store("anew");
    } catch (error) {
      this.#rebase ??= reason;
      throw error;
    } finally {
      this.#next_copy_ms = began_ms + Math.max(COPY.pause_ms, (clock.monotonic() - began_ms) * COPY.times);
    }
  }
}
