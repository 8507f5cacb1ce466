/**
 * fork: a new branch from a point of another, in constant time unless it materializes.
 */

import { hasCode, TaskdError } from "../../errors.ts";
import { pointAt, type StoreContext } from "../context.ts";
import { refuseClaimed } from "../lease.ts";
import { leftOut } from "../left_out.ts";
import { type Address, formatAddress, parseName } from "../names.ts";
import type { ForkOptions, ForkResult } from "../results.ts";
import { damagedError, knownDamage } from "../scrub.ts";
import { ttlField } from "../time_to_live.ts";
import { listVersion } from "../tombstones.ts";
import { abandonLineage, baseOf, beginLineage, copies, createForkedBranch } from "./lineage.ts";

export async function fork(
  context: StoreContext,
  address: Address,
  branch: string,
  options: ForkOptions = {},
): Promise<ForkResult> {
  const { db } = address;
  parseName(branch, "branch");
  const since = await listVersion(context.backend);
  const point = await pointAt(context, address);
  refuseClaimed(point.ref);
  const damage = await knownDamage(context, point.chain);
  if (damage !== undefined) throw damagedError(`Cannot fork ${formatAddress(address)}`, address, damage);
  // Writing the ref shows it too: only a copy is worth asking first.
  if (copies(context, point, options) && await context.refs.find(db, branch)) {
    throw new TaskdError("already_exists", `Cannot create the branch ${db}@${branch}: it exists already`, {
      hint: "Choose another name",
    });
  }
  const begun = await beginLineage(context, point, { ...options, epoch: 1 });
  try {
    const origin = { ...baseOf(point), digest: point.head.digest };
    const more = { ...ttlField(options), [begun.base === undefined ? "origin" : "base"]: origin };
    await createForkedBranch(context, { db, branch }, { point, begun, since, more });
  } catch (error) {
    // After any other error the ref may exist, and then it needs the lineage.
    if (hasCode(error, "already_exists")) await abandonLineage(context.backend, begun.lineage);
    throw error;
  }
  return { db, branch, txid: begun.head.txid, mode: begun.mode, path: begun.path, ...await leftOut(context, point) };
}
