/**
 * What a session has to store next: the changes that were read since, or all of the database anew.
 *
 * A reason for a full copy that appears while one is stored waits for the next; a full copy that failed stays
 * requested.
 */

import { type Clock, nextTurn } from "../clock.ts";
import { TaskdError } from "../errors.ts";
import type { CheckoutFile } from "../sqlite/checkout_file.ts";
import { RebaseNeeded, type WalTail } from "../sqlite/wal_tail.ts";
import type { Lease } from "../store/lease.ts";
import type { StoredObject } from "../store/objects.ts";
import { TAKEOVER_BYTES } from "./_poll_schedule.ts";
import type { DurableHead } from "./_durable_head.ts";

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
  /** Receives the reason for a full copy, once for each. */
  onRebase: (reason: string) => void;
}

export class Pending {
  readonly #options: PendingOptions;
  /** Why only a full copy is safe. */
  #rebase: string | undefined;
  #rebases = 0;
  /** When the next full copy may be made that no one asked for. */
  #next_copy_ms = -Infinity;

  constructor(options: PendingOptions) {
    this.#options = options;
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

  /** Makes the next {@linkcode store} a full copy. */
  requestRebase(reason: string): void {
    if (this.#rebase === undefined) {
      this.#rebases++;
      this.#options.onRebase(reason);
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

  /**
   * Stores what is pending as a segment, or all as a snapshot; undefined when there is nothing, or not `asked` for a full copy
   * that is not due yet.
   */
  async store(asked: boolean): Promise<StoredObject | undefined> {
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
