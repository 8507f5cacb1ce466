/**
 * fork: a new branch from a point of another, in constant time unless it materializes.
 */

import { hasCode, TaskdError } from "../../errors.ts";
import { pointAt, type StoreContext } from "../context.ts";
import { refuseClaimed } from "../lease.ts";
import { type Address, parseName } from "../names.ts";
import type { ForkOptions, ForkResult } from "../results.ts";
import { ttlField } from "../time_to_live.ts";
import { momentOf } from "../tombstones.ts";
import { abandonLineage, beginLineage, createForkedBranch } from "./lineage.ts";

export async function fork(
  context: StoreContext,
  address: Address,
  branch: string,
  options: ForkOptions = {},
): Promise<ForkResult> {
  const { db } = address;
  parseName(branch, "branch");
  const since = momentOf(context.clock);
  const point = await pointAt(context, address);
  refuseClaimed(point.ref);
  if (await context.refs.find(db, branch)) {
    throw new TaskdError(
      "already_exists",
      `Cannot create the branch ${db}@${branch}: it exists already`,
      { hint: "Choose another name" },
    );
  }
  const begun = await beginLineage(context, point, { ...options, epoch: 1 });
  try {
    await createForkedBranch(context, { db, branch }, { point, begun, since, ttl: ttlField(options) });
  } catch (error) {
    // After any other error the ref may exist, and then it needs the lineage.
    if (hasCode(error, "already_exists")) await abandonLineage(context.backend, begun.lineage);
    throw error;
  }
  return { db, branch, txid: begun.head.txid, mode: begun.mode, path: begun.path };
}
