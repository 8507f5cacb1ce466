/**
 * Reaping: branches whose time to live has passed are destroyed, and what an interrupted
 * destroy or reap left is finished. Whether a branch goes is decided inside the compare-and-swap that
 * claims it, so a branch that is touched, protected or opened until then stays. Edits in a checkout that were never
 * stored are kept as after a destroy: no person was asked about them.
 */

import { hasCode } from "../errors.ts";
import type { StoreContext } from "./context.ts";
import { isLeased } from "./lease.ts";
import type { BranchName, Txid } from "./names.ts";
import { destroy, isStaleClaim } from "./ops/lifecycle.ts";
import type { Ref } from "./ref.ts";
import { isExpired } from "./time_to_live.ts";
import { type Ages, STEP_MS } from "./timeline.ts";

/** A branch that was reaped. */
export interface ReapedBranch extends BranchName {
  /** Its head. */
  txid: Txid;
  /** Seconds after its last touch at which it expired; 0 when it had no such limit. */
  ttl_seconds: number;
}

/** A branch whose interrupted destroy was finished. */
export interface HealedBranch extends ReapedBranch {
  kind: "destroy" | "reap";
}

export interface ReapOptions {
  /** Receives each branch that could not be read or destroyed; the others proceed. */
  onError?: (address: BranchName, error: Error) => void;
}

/** Answer of {@linkcode reapAll}. */
export interface ReapResult {
  /** Branches that are gone now. */
  reaped: ReapedBranch[];
  /** Branches that could not be read or destroyed, and why. */
  failed: { db: string; branch: string; error: string }[];
}

/** The branch is not to be destroyed after all. */
class Stays extends Error {}

/** Codes of a branch that is in use, being removed or gone: nothing for a reaper to report. */
const PASSED_OVER = [
  "lease_held",
  "busy",
  "protected",
  "branch_deleting",
  "branch_reaping",
  "not_found",
  "conflict",
] as const;

/** Heals claims, destroys the branches whose time has passed, and returns all that a reaper's claim ended. */
export async function reapExpired(context: StoreContext, options: ReapOptions = {}): Promise<ReapedBranch[]> {
  const ages = await context.timeline.look();
  const reaped: ReapedBranch[] = [];
  for (const { kind, ...branch } of await healClaims(context, options)) {
    if (kind === "reap") reaped.push(branch);
  }
  await forEachRef(context, options, async (address, seen) => {
    if (!isDue(context, ages, seen)) return;
    let last = seen;
    const gone = await tryDestroy(context, address, {
      kind: "reap",
      safety: false,
      refuse: (ref) => {
        if (!isDue(context, ages, ref)) throw new Stays();
        last = ref;
      },
    });
    if (gone) reaped.push(describe(address, last));
  });
  return reaped;
}

/** Finishes every destroy and reap whose process died or stalled; returns the branches that are gone now. */
export async function healClaims(context: StoreContext, options: ReapOptions = {}): Promise<HealedBranch[]> {
  const healed: HealedBranch[] = [];
  await forEachRef(context, options, async (address, seen) => {
    const { claim } = seen;
    if (!claim || !isStaleClaim(context, claim)) return;
    const gone = await tryDestroy(context, address, {
      kind: claim.kind,
      // Its claimant was allowed to, and has kept what was to be kept.
      force: true,
      confirm: true,
      safety: false,
      refuse: (ref) => {
        if (ref.claim?.nonce !== claim.nonce) throw new Stays();
      },
    });
    if (gone) healed.push({ ...describe(address, seen), kind: claim.kind });
  });
  return healed;
}

function describe(address: BranchName, ref: Ref): ReapedBranch {
  return { ...address, txid: ref.txid, ttl_seconds: (ref.ttl_ms ?? 0) / 1000 };
}

/** By the wall clock, which people and other hosts go by, and by what has certainly passed. */
function isDue(context: StoreContext, ages: Ages, ref: Ref): boolean {
  const { ttl_ms = Infinity, touched_at } = ref;
  return !ref.protected && !isLeased(ref, context) && isExpired(ref, context.clock.now()) &&
    ages.since(Date.parse(touched_at), ttl_ms) + STEP_MS >= ttl_ms;
}

/** False when the branch stays, or another process removes it. */
async function tryDestroy(
  context: StoreContext,
  address: BranchName,
  options: Parameters<typeof destroy>[2],
): Promise<boolean> {
  try {
    await destroy(context, address, options);
    return true;
  } catch (error) {
    if (error instanceof Stays || hasCode(error, ...PASSED_OVER)) return false;
    throw error;
  }
}

async function forEachRef(
  { refs, log }: StoreContext,
  options: ReapOptions,
  work: (address: BranchName, ref: Ref) => Promise<void>,
): Promise<void> {
  for (const address of await refs.list()) {
    try {
      const found = await refs.find(address.db, address.branch);
      if (found) await work(address, found.ref);
    } catch (error) {
      if (options.onError) options.onError(address, error as Error);
      else log(`reap: ${address.db}@${address.branch}: ${(error as Error).message}`);
    }
  }
}

/** The same; what fails holds up no other branch and is in the answer. */
export async function reapAll(context: StoreContext): Promise<ReapResult> {
  const failed: ReapResult["failed"] = [];
  const onError = (address: BranchName, error: Error) => {
    failed.push({ ...address, error: error.message });
  };
  return { reaped: await reapExpired(context, { onError }), failed };
}
