/**
 * Leases: the right to write a branch. A lease lives in the ref, so lease and head
 * share one compare-and-swap. Acquiring bumps the epoch, which is in every object's
 * key: what a paused former holder still uploads lands under a dead epoch, and its
 * compare-and-swap of the ref fails. Expiry on the clock is only advice.
 */

import type { Clock } from "../clock.ts";
import { hasCode, TaskdError } from "../errors.ts";
import type { Holder } from "./holder.ts";
import type { Address } from "./names.ts";
import type { Ref, Refs, VersionedRef } from "./ref.ts";

/** How long a lease lasts unless it is renewed. */
export const LEASE_TTL_MS = 30_000;
export const LEASE_RENEW_MS = LEASE_TTL_MS / 3;
/**
 * Renewals are due at whole multiples of this on the holder's clock, so that hundreds of leases wake their thread, and
 * make the disk write its journal, together.
 */
const LEASE_TOGETHER_MS = 1_000;
/** A renewal that failed is tried again after this long. */
const LEASE_RETRY_MS = 1_000;
/** A holder that has less than this left on its own clock no longer writes. */
export const LEASE_MARGIN_MS = 5_000;
/** A claim older than this belongs to an interrupted destroy and may be taken over. */
export const STALE_CLAIM_MS = 60_000;

export interface LeaseContext {
  refs: Refs;
  holder: Holder;
  clock: Clock;
}

export function isLeased(ref: Ref, context: Pick<LeaseContext, "clock" | "holder">): boolean {
  return ref.lease !== undefined &&
    Date.parse(ref.lease.expires_at) > context.clock.now() &&
    !context.holder.isDead(ref.lease.holder);
}

/** Refuses a branch that is being deleted, with the two messages of the contract. */
export function refuseClaimed(ref: Ref): void {
  if (!ref.claim) return;
  const reap = ref.claim.kind === "reap";
  throw new TaskdError(
    reap ? "branch_reaping" : "branch_deleting",
    `branch is being ${reap ? "reaped" : "deleted"}`,
    { hint: "Try again shortly" },
  );
}

export class Lease {
  readonly address: Address;
  /** The holder's string in the ref. */
  readonly holder: string;
  /** The epoch of everything written under this lease. */
  readonly epoch: number;
  readonly previous_epoch: number;
  readonly #context: LeaseContext;
  #current: VersionedRef;
  #deadline_ms: number;
  #last: Promise<unknown> = Promise.resolve();

  private constructor(context: LeaseContext, address: Address, taken: {
    holder: string;
    previous_epoch: number;
    current: VersionedRef;
    deadline_ms: number;
  }) {
    this.#context = context;
    this.address = address;
    this.holder = taken.holder;
    this.epoch = taken.current.ref.epoch;
    this.previous_epoch = taken.previous_epoch;
    this.#current = taken.current;
    this.#deadline_ms = taken.deadline_ms;
  }

  /** Takes the lease of a branch, or refuses with `lease_held`, `branch_deleting` or `branch_reaping`. */
  static async acquire(context: LeaseContext, address: Address): Promise<Lease> {
    const { refs, clock } = context;
    const holder = context.holder.next();
    const asked_ms = clock.monotonic();
    let previous_epoch = 0;
    const current = await refs.update(address.db, address.branch, (ref) => {
      refuseClaimed(ref);
      // Our own write succeeded, but its answer was lost and the ref has been changed since.
      if (ref.lease?.holder === holder) return undefined;
      if (isLeased(ref, context)) {
        throw new TaskdError(
          "lease_held",
          `Cannot take ${address.db}@${address.branch}: ${ref.lease!.holder} holds it until ${ref.lease!.expires_at}`,
          { hint: "Close the session or wait for the other command to end" },
        );
      }
      previous_epoch = ref.epoch;
      return {
        ...ref,
        epoch: ref.epoch + 1,
        lease: { holder, expires_at: new Date(clock.now() + LEASE_TTL_MS).toISOString() },
      };
    });
    return new Lease(context, address, { holder, previous_epoch, current, deadline_ms: asked_ms + LEASE_TTL_MS });
  }

  /** The ref as this holder last wrote or read it. */
  get ref(): Ref {
    return this.#current.ref;
  }

  /** Milliseconds left on the holder's own monotonic clock. */
  get left_ms(): number {
    return this.#deadline_ms - this.#context.clock.monotonic();
  }

  /** Throws `fenced` unless the holder can prove that it is well inside its lease. */
  assertHeld(): void {
    if (this.left_ms < LEASE_MARGIN_MS) {
      throw new TaskdError("fenced", `The lease of ${this.address.db}@${this.address.branch} ran out`);
    }
  }

  /**
   * Changes the ref under the lease and renews it in the same write, or only renews it; throws `fenced` when it is lost.
   * Writes of one holder happen one after the other, so that {@linkcode ref} never goes back to what an earlier one left.
   */
  write(change?: (ref: Ref) => Ref | undefined): Promise<Ref> {
    const done = this.#last.then(() => this.#write(change));
    this.#last = done.catch(() => {});
    return done;
  }

  async #write(change?: (ref: Ref) => Ref | undefined): Promise<Ref> {
    this.assertHeld();
    const { refs, clock } = this.#context;
    const asked_ms = clock.monotonic();
    let renewed = false;
    try {
      this.#current = await refs.update(
        this.address.db,
        this.address.branch,
        (ref) => {
          this.#refuseForeign(ref);
          const next = change === undefined ? ref : change(ref);
          renewed = next !== undefined;
          return next && {
            ...next,
            lease: { holder: this.holder, expires_at: new Date(clock.now() + LEASE_TTL_MS).toISOString() },
          };
        },
        // A renewal is no weaker for beginning with the ref that this holder knows: the swap is refused unless the ref
        // is still that one, nonce, holder and epoch included. If it is refused, the ref is read and shows its holder.
        // A renewal may revert: only a power failure does that, which ends the holder, too. The ref that is left has
        // the same head and a lease that runs out sooner.
        change === undefined ? { known: this.#current, may_revert: true } : {},
      );
    } catch (error) {
      if (hasCode(error, "not_found")) {
        throw new TaskdError(
          "fenced",
          `The branch ${this.address.db}@${this.address.branch} is gone`,
          { cause: error },
        );
      }
      throw error;
    }
    if (renewed) this.#deadline_ms = asked_ms + LEASE_TTL_MS;
    return this.#current.ref;
  }

  /** Gives the lease back, together with a last change; a lease that is lost already is left alone. */
  async release(change: (ref: Ref) => Ref = (ref) => ref): Promise<void> {
    try {
      await this.#context.refs.update(
        this.address.db,
        this.address.branch,
        (ref) => {
          this.#refuseForeign(ref);
          const { lease: _, ...rest } = change(ref);
          return rest;
        },
      );
    } catch (error) {
      if (hasCode(error, "fenced", "not_found")) return;
      this.#context.holder.retire(this.holder);
      throw error;
    }
  }

  #refuseForeign(ref: Ref): void {
    if (ref.lease?.holder === this.holder && ref.epoch === this.epoch) return;
    throw new TaskdError(
      "fenced",
      `The lease of ${this.address.db}@${this.address.branch} was lost to ${ref.lease?.holder ?? "another holder"}`,
    );
  }
}

export interface Renewal {
  /** Ends it; resolves once no write is under way. */
  stop(): Promise<void>;
}

/**
 * Renews a lease until it is stopped or lost. A passing fault is tried again soon, until the lease is nearly out.
 *
 * @param events.onLost Receives `fenced`, once; a lost lease also shows at the holder's own next write.
 * @param events.onFault Receives each fault.
 */
export function keepRenewed(
  context: LeaseContext,
  lease: Lease,
  events: { onLost?: (error: TaskdError) => void; onFault?: (error: Error) => void } = {},
): Renewal {
  const stop = new AbortController();
  const renewing = (async () => {
    for (let wait_ms = untilRenewal(context.clock);;) {
      try {
        await context.clock.sleep(wait_ms, stop.signal);
      } catch {
        return;
      }
      try {
        await lease.write();
        wait_ms = untilRenewal(context.clock);
      } catch (error) {
        if (hasCode(error, "fenced")) return events.onLost?.(error);
        events.onFault?.(error as Error);
        wait_ms = LEASE_RETRY_MS;
      }
    }
  })();
  return {
    stop: () => {
      stop.abort();
      return renewing;
    },
  };
}

/** Milliseconds until the next renewal: {@linkcode LEASE_RENEW_MS} or up to {@linkcode LEASE_TOGETHER_MS} less. */
function untilRenewal(clock: Clock): number {
  return LEASE_RENEW_MS - clock.monotonic() % LEASE_TOGETHER_MS;
}

/** Runs `work` under a lease that is renewed while it lasts and released at its end. */
export async function withLease<T>(
  context: LeaseContext,
  address: Address,
  work: (lease: Lease) => Promise<T>,
): Promise<T> {
  const lease = await Lease.acquire(context, address);
  const renewal = keepRenewed(context, lease);
  try {
    return await work(lease);
  } finally {
    await renewal.stop();
    // The work's result counts. A lease that could not be released is free in this process, and elsewhere soon.
    await lease.release().catch(() => {});
  }
}
