/**
 * What a session has to store next: the changes that were read since, or all of the database anew.
 *
 * A further reason for a full copy that comes up while one is stored is left to the next time; one that could not be
 * stored stays wanted.
 *
 * @module
 */

import { TaskdError } from "../errors.ts";
import type { CheckoutFile } from "../sqlite/checkout_file.ts";
import { RebaseNeeded, type WalTail } from "../sqlite/wal_tail.ts";
import type { Lease } from "../store/lease.ts";
import type { StoredObject } from "../store/objects.ts";
import type { DurableHead } from "./_durable_head.ts";

/** Further tries within one storing, for an application that breaks the log while it is read. */
const MAX_RETRIES = 3;

/** What a session's pending changes are made of. */
export interface PendingParts {
  file: CheckoutFile;
  tail: WalTail;
  lease: Lease;
  durable: DurableHead;
  /** Segments past the last snapshot before the next one. */
  snapshot_every: number;
  /** Told why a full copy is wanted, once for each. */
  onRebase: (reason: string) => void;
}

/** The pending changes of one session. */
export class Pending {
  readonly #parts: PendingParts;
  /** Why only a full copy is safe. */
  #rebase: string | undefined;
  #rebases = 0;

  /** Begins with nothing that is pending but what the tail has read. */
  constructor(parts: PendingParts) {
    this.#parts = parts;
  }

  /** Whether only a full copy is safe: until it is stored, the log cannot be folded. */
  get wants_rebase(): boolean {
    return this.#rebase !== undefined;
  }

  /** How often a full copy was wanted. */
  get rebases(): number {
    return this.#rebases;
  }

  /** Whether there is anything to store of what was read. */
  get any(): boolean {
    return this.#parts.tail.dirty || this.wants_rebase;
  }

  /** Whether there may be something to store. */
  get maybe(): boolean {
    return this.any || this.#parts.tail.in_doubt;
  }

  /** Has all be stored anew. */
  wantRebase(reason: string): void {
    if (this.#rebase === undefined) {
      this.#rebases++;
      this.#parts.onRebase(reason);
    }
    this.#rebase = reason;
  }

  /** Stores what is pending as a segment, or all as a snapshot; undefined when there is nothing. */
  async store(): Promise<StoredObject | undefined> {
    const { file, tail, lease, durable, snapshot_every } = this.#parts;
    file.assertInPlace();
    lease.assertHeld();
    for (let attempt = 0;; attempt++) {
      try {
        if (this.#rebase !== undefined) return await this.#storeAnew(this.#rebase);
        tail.drain();
        // Nothing to be seen is no proof: SQLite may count a commit that cannot be read in the log.
        if (!tail.dirty) tail.confirm();
        if (!tail.dirty) return undefined;
        return await durable.store(durable.depth >= snapshot_every);
      } catch (error) {
        if (!(error instanceof RebaseNeeded)) throw error;
        this.wantRebase(error.message);
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
      this.#parts.tail.resync();
      return await this.#parts.durable.store(true);
    } catch (error) {
      this.#rebase ??= reason;
      throw error;
    }
  }
}
