/**
 * Says when an operation reads a branch's stored content while its checkout holds edits that are not in the store. A fork
 * or an export of what an application wrote an hour ago would otherwise be without it, and no one would know.
 */

import { TaskdError } from "../errors.ts";
import { type Point, type StoreContext, targetOf } from "./context.ts";
import { isLeased } from "./lease.ts";
import { formatAddress } from "./names.ts";
import type { LeftOut } from "./results.ts";

/**
 * The branches among `points`, read at their heads, whose checkouts hold something else. A checkpoint is what it was
 * when it was made; a session's checkout was flushed. A checkout whose size and time do not prove it clean is compared
 * in full; one that cannot be read counts as edited.
 */
export async function leftOut(context: StoreContext, ...points: Point[]): Promise<LeftOut> {
  const found: string[] = [];
  for (const point of points) {
    if (point.address.checkpoint !== undefined || isLeased(point.ref, context)) continue;
    const address = formatAddress(point.address);
    if (!found.includes(address) && await isEdited(context, point)) found.push(address);
  }
  return found.length === 0 ? {} : { left_out: found };
}

async function isEdited({ checkouts }: StoreContext, point: Point): Promise<boolean> {
  const target = targetOf(point);
  try {
    const view = checkouts.inspect(target);
    if (view === undefined || view.stat_clean && view.identity === "current") return false;
    return !await checkouts.hasContentOf(view, target);
  } catch (error) {
    if (error instanceof TaskdError) return true;
    throw error;
  }
}
