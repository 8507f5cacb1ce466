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

/** What {@linkcode reapExpired} did. */
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

/**
 * Finishes every destroy and reap whose process died or stalled, and destroys the branches whose time has passed. What
 * fails holds up no other branch and is in the answer, as is all that a reaper's claim ended.
 */
export async function reapExpired(context: StoreContext): Promise<ReapResult> {
  const ages = await context.timeline.look();
  const result: ReapResult = { reaped: [], failed: [] };
  for (const address of await context.refs.list()) {
    try {
      const found = await context.refs.find(address.db, address.branch);
      const reaped = found && await reap(context, ages, address, found.ref);
      if (reaped) result.reaped.push(reaped);
    } catch (error) {
      result.failed.push({ ...address, error: (error as Error).message });
    }
  }
  return result;
}

async function reap(
  context: StoreContext,
  ages: Ages,
  address: BranchName,
  seen: Ref,
): Promise<ReapedBranch | undefined> {
  const { claim } = seen;
  if (claim && isStaleClaim(context, claim)) {
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
    return gone && claim.kind === "reap" ? describe(address, seen) : undefined;
  }
  if (!isDue(context, ages, seen)) return undefined;
  let last = seen;
  const gone = await tryDestroy(context, address, {
    kind: "reap",
    safety: false,
    refuse: (ref) => {
      if (!isDue(context, ages, ref)) throw new Stays();
      last = ref;
    },
  });
  return gone ? describe(address, last) : undefined;
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
