/**
 * What a session has to store next: the changes that were read since, or all of the database anew.
 *
 * A reason for a full copy that appears while one is stored waits for the next; a full copy that failed stays
 * requested.
 */

import { TaskdError } from "../errors.ts";
import type { CheckoutFile } from "../sqlite/checkout_file.ts";
import { RebaseNeeded, type WalTail } from "../sqlite/wal_tail.ts";
import type { Lease } from "../store/lease.ts";
import type { StoredObject } from "../store/objects.ts";
import type { DurableHead } from "./_durable_head.ts";

/** Further tries within one storing, for an application that breaks the log while it is read. */
const MAX_RETRIES = 3;

export interface PendingOptions {
  file: CheckoutFile;
  tail: WalTail;
  lease: Lease;
  durable: DurableHead;
  snapshot_every: number;
  /** Receives the reason for a full copy, once for each. */
  onRebase: (reason: string) => void;
}

export class Pending {
  readonly #options: PendingOptions;
  /** Why only a full copy is safe. */
  #rebase: string | undefined;
  #rebases = 0;

  constructor(options: PendingOptions) {
    this.#options = options;
  }

  /** Whether only a full copy is safe: until it is stored, the log cannot be folded. */
  get needs_rebase(): boolean {
    return this.#rebase !== undefined;
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

  /** Stores what is pending as a segment, or all as a snapshot; undefined when there is nothing. */
  async store(): Promise<StoredObject | undefined> {
    const { file, tail, lease, durable, snapshot_every } = this.#options;
    file.assertInPlace();
    lease.assertHeld();
    for (let attempt = 0;; attempt++) {
      try {
        if (this.#rebase !== undefined) return await this.#storeAnew(this.#rebase);
        tail.drain();
        // An empty log proves nothing: SQLite may count a commit that cannot be read in the log.
        if (!tail.dirty) tail.confirm();
        if (!tail.dirty) return undefined;
        return await durable.store(durable.depth >= snapshot_every);
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
    this.#rebase = undefined;
    try {
      this.#options.tail.resync();
      return await this.#options.durable.store(true);
    } catch (error) {
      this.#rebase ??= reason;
      throw error;
    }
  }
}
