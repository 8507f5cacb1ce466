/**
 * Leases: the right to write a branch. A lease lives in the ref, so lease and head
 * share one compare-and-swap. Acquiring bumps the epoch, which is in every object's
 * key: what a paused former holder still uploads lands under a dead epoch, and its
 * compare-and-swap of the ref fails. Expiry on the clock is only advice: a holder that was
 * paused beyond it, or could not reach the store, takes its lease again if no one else has it.
 */

import type { Clock } from "../clock.ts";
import { hasCode, TaskdError } from "../errors.ts";
import type { Holder } from "./holder.ts";
import { type Address, type BranchName, formatAddress } from "./names.ts";
import type { Ref, Refs, VersionedRef } from "./ref.ts";

export const LEASE_TTL_MS = 30_000;
/** Half of that: each renewal writes a file, which is most of what an idle session costs. */
export const LEASE_RENEW_MS = LEASE_TTL_MS / 2;
/**
 * Renewals are due at whole multiples of this on the holder's clock, so that hundreds of leases wake their thread, and
 * make the disk write its journal, together.
 */
const LEASE_TOGETHER_MS = 1_000;
/** A renewal that failed is tried again after this long; once the lease has run out, less often. */
const LEASE_RETRY_MS = { held: 1_000, run_out: LEASE_TTL_MS / 3 };
/** A holder that has less than this left on its own clock renews the lease before it stores anything. */
export const LEASE_MARGIN_MS = 5_000;
/** A claim older than this belongs to an interrupted destroy and may be taken over. */
export const STALE_CLAIM_MS = 60_000;

export interface LeaseContext {
  refs: Refs;
  holder: Holder;
  clock: Clock;
  /** Name of this host, named where a lease is refused. */
  host?: string | undefined;
  /** Checks a branch that no one has used yet: its maker may have died before it did. */
  confirm?: (address: Address, ref: Ref) => Promise<void>;
}

export function isLeased(ref: Ref, context: Pick<LeaseContext, "clock" | "holder">): boolean {
  return ref.lease !== undefined &&
    Date.parse(ref.lease.expires_at) > context.clock.now() &&
    !context.holder.isDead(ref.lease.holder);
}

/** Who holds a lease, for a person: its holder, on which host, and since when. */
export function describeHolder({ holder, host, since }: NonNullable<Ref["lease"]>): string {
  return `${holder}${host === undefined ? "" : ` on ${host}`}${since === undefined ? "" : ` since ${since}`}`;
}

/** Refuses a branch that is being deleted, with the two messages of the contract. */
export function refuseClaimed(ref: Ref): void {
  if (!ref.claim) return;
  const reap = ref.claim.kind === "reap";
  throw new TaskdError(reap ? "branch_reaping" : "branch_deleting", `branch is being ${reap ? "reaped" : "deleted"}`, {
    hint: "Try again shortly",
  });
}

export class Lease {
  /** The branch: one that was named by a checkpoint is leased as a whole. */
  readonly address: BranchName;
  /** The holder's string in the ref. */
  readonly holder: string;
  /** The epoch of everything written under this lease. */
  readonly epoch: number;
  readonly #context: LeaseContext;
  #current: VersionedRef;
  #deadline_ms: number;
  #last: Promise<unknown> = Promise.resolve();
  /** Called when the lease had run out and was taken again, with how long ago it had. */
  onRetaken: (late_seconds: number) => void = () => {};

  private constructor(context: LeaseContext, address: BranchName, taken: {
    holder: string;
    current: VersionedRef;
    deadline_ms: number;
  }) {
    this.#context = context;
    this.address = address;
    this.holder = taken.holder;
    this.epoch = taken.current.ref.epoch;
    this.#current = taken.current;
    this.#deadline_ms = taken.deadline_ms;
  }

  /** Takes the lease of a branch, or refuses with `lease_held`, `branch_deleting` or `branch_reaping`. */
  static async acquire(context: LeaseContext, { db, branch }: BranchName): Promise<Lease> {
    const { refs, clock } = context;
    const address = { db, branch };
    const holder = context.holder.next();
    const known = await refs.read(address.db, address.branch);
    if (known.ref.epoch === 1) await context.confirm?.(address, known.ref);
    const asked_ms = clock.monotonic();
    const current = await refs.update(address.db, address.branch, (ref) => {
      if (ref.epoch === 1 && ref.nonce !== known.ref.nonce) {
        throw new TaskdError("conflict", `Cannot take ${formatAddress(address)}: it was changed before its first use`, {
          hint: "Try again",
        });
      }
      refuseClaimed(ref);
      // Our own write succeeded, but its answer was lost and the ref has been changed since.
      if (ref.lease?.holder === holder) return undefined;
      if (isLeased(ref, context)) {
        throw new TaskdError(
          "lease_held",
          `Cannot take ${formatAddress(address)}: ${describeHolder(ref.lease!)} holds it until ${
            ref.lease!.expires_at
          }`,
          { hint: "Close the session or wait for the other command to end" },
        );
      }
      return {
        ...ref,
        epoch: ref.epoch + 1,
        lease: {
          holder,
          expires_at: expiryFrom(clock),
          since: new Date(clock.now()).toISOString(),
          ...(context.host === undefined ? {} : { host: context.host }),
        },
      };
    }, { known });
    return new Lease(context, address, { holder, current, deadline_ms: asked_ms + LEASE_TTL_MS });
  }

  /** The ref as this holder last wrote or read it. */
  get ref(): Ref {
    return this.#current.ref;
  }

  /** Milliseconds left on the holder's own monotonic clock. */
  get left_ms(): number {
    return this.#deadline_ms - this.#context.clock.monotonic();
  }

  /** Renews the lease unless the holder can prove on its own clock that it is well inside it; `fenced` when it is lost. */
  async ensureHeld(): Promise<void> {
    if (this.left_ms < LEASE_MARGIN_MS) await this.write();
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
    const { refs, clock } = this.#context;
    const asked_ms = clock.monotonic();
    const late_ms = -this.left_ms;
    let renewed = false;
    try {
      // A renewal is no weaker for beginning with the ref that this holder knows: the swap is refused unless the ref is
      // still that one, nonce, holder and epoch included. If it is refused, the ref is read and shows its holder. A
      // renewal may revert: only a power failure does that, which ends the holder, too. The ref that is left has the
      // same head and a lease that runs out sooner.
      const how = change === undefined ? { known: this.#current, may_revert: true } : {};
      this.#current = await refs.update(this.address.db, this.address.branch, (ref) => {
        this.#refuseForeign(ref);
        // Of a lease that has run out, a destroy may have begun.
        refuseClaimed(ref);
        const next = change === undefined ? ref : change(ref);
        renewed = next !== undefined;
        return next && { ...next, lease: { ...ref.lease!, expires_at: expiryFrom(clock) } };
      }, how);
    } catch (error) {
      if (hasCode(error, "not_found")) {
        throw new TaskdError("fenced", `The branch ${this.address.db}@${this.address.branch} is gone`, {
          cause: error,
        });
      }
      throw error;
    }
    if (renewed) {
      this.#deadline_ms = asked_ms + LEASE_TTL_MS;
      if (late_ms > 0) this.onRetaken(late_ms / 1000);
    }
    return this.#current.ref;
  }

  /** Gives the lease back, together with a last change; a lease that is lost already is left alone. */
  async release(change: (ref: Ref) => Ref = (ref) => ref): Promise<void> {
    try {
      await this.#context.refs.update(this.address.db, this.address.branch, (ref) => {
        this.#refuseForeign(ref);
        const { lease: _, ...rest } = change(ref);
        return rest;
      });
    } catch (error) {
      if (hasCode(error, "fenced", "not_found")) return;
      this.#context.holder.retire(this.holder);
      throw error;
    }
  }

  #refuseForeign(ref: Ref): void {
    if (ref.lease?.holder === this.holder && ref.epoch === this.epoch) return;
    throw lost(this.address, ref);
  }
}

/**
 * Renews the lease that the caller has of a branch, who knows it by a ref that was read under it; `fenced` when it is lost,
 * a claim's code when the branch is being removed.
 */
export async function renewHeld(
  { refs, clock }: Pick<LeaseContext, "refs" | "clock">,
  { db, branch, ref: known }: { db: string; branch: string; ref: Ref },
): Promise<void> {
  await refs.update(db, branch, (ref) => {
    if (ref.epoch !== known.epoch || ref.lease?.holder !== known.lease?.holder) throw lost({ db, branch }, ref);
    refuseClaimed(ref);
    return ref.lease && { ...ref, lease: { ...ref.lease, expires_at: expiryFrom(clock) } };
  }, { may_revert: true });
}

function expiryFrom(clock: Clock): string {
  return new Date(clock.now() + LEASE_TTL_MS).toISOString();
}

function lost(address: BranchName, { lease }: Ref): TaskdError {
  const taker = lease === undefined ? "another holder, which gave it back" : describeHolder(lease);
  return new TaskdError("fenced", `The lease of ${formatAddress(address)} was lost to ${taker}`, {
    hint: "Close this session; open one once the other has ended",
  });
}

export interface Renewal {
  /** Ends it; resolves once no write is under way. */
  stop(): Promise<void>;
}

/**
 * Renews a lease until it is stopped or lost. A passing fault is tried again soon; once the lease has run out, less often.
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
        wait_ms = lease.left_ms > 0 ? LEASE_RETRY_MS.held : LEASE_RETRY_MS.run_out;
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
