/**
 * checkout: a branch as a file that any SQLite client can open, writable at its head or
 * read-only at a checkpoint.
 */

import { hasCode, TaskdError } from "../../errors.ts";
import { discard, fileError } from "../../fs.ts";
import { leaveWalMode, readHeader, requirePlainFile } from "../../sqlite/checkout_file.ts";
import { contentIn, sealEntry } from "../chain_cache.ts";
import type { CheckoutView } from "../checkouts.ts";
import { type Point, pointAt, pointIn, type StoreContext, targetOf } from "../context.ts";
import { isLeased, refuseClaimed, withLease } from "../lease.ts";
import { materialize } from "../materialize.ts";
import { type Address, formatAddress } from "../names.ts";
import type { CheckoutOptions, CheckoutResult, LongOptions } from "../results.ts";

/** Makes, refreshes or finds a checkout; with `force`, edits that are not in the store are dropped. */
export async function checkout(
  context: StoreContext,
  address: Address,
  options: CheckoutOptions = {},
): Promise<CheckoutResult> {
  if (address.checkpoint !== undefined) return await readOnly(context, await pointAt(context, address), options);
  return await keptCheckout(context, address, options) ??
    await withLease(context, address, async (lease) => {
      return await refreshCheckout(context, await pointIn(context, address, lease.ref), options);
    });
}

/** The checkout as it is, when inspecting it is enough: nothing is changed, so no lease is taken. */
async function keptCheckout(
  context: StoreContext,
  address: Address,
  options: { force?: boolean },
): Promise<CheckoutResult | undefined> {
  if (options.force) return undefined;
  const point = await pointAt(context, address);
  refuseClaimed(point.ref);
  if (isLeased(point.ref, context)) return undefined;
  const view = context.checkouts.inspect(targetOf(point));
  if (view?.identity !== "current" || !view.stat_clean) return undefined;
  const { db, branch } = address;
  return { db, branch, path: view.path, txid: point.head.txid, read_only: false, source: "kept" };
}

/** The writable half, for a caller that holds the branch's lease. */
async function refreshCheckout(
  context: StoreContext,
  point: Point,
  options: CheckoutOptions = {},
): Promise<CheckoutResult> {
  const { db, branch } = point.address;
  const answer = { db, branch, txid: point.head.txid, read_only: false };
  const target = targetOf(point);
  const fileStamp = context.checkouts.fileStamp(context.workspace.checkout(db, branch));
  const view = context.checkouts.inspect(target);
  if (view && !options.force) {
    if (view.identity === "current" && view.stat_clean) return { ...answer, path: view.path, source: "kept" };
    const clean = view.identity === "foreign" && view.stat_clean;
    // Edits in the log of a session that was cut off stay there, for the opening that takes them up.
    const keepable = !clean && (!view.interrupted || await context.checkouts.hasContentOf(view, target));
    if (keepable && await context.checkouts.stampIfSame(view.path, target)) {
      return { ...answer, path: view.path, source: "kept" };
    }
    if (!clean) throw unsaved(view);
  }
  const restored = await context.checkouts.restore(target, { ...options, ...(options.force ? {} : { fileStamp }) });
  return { ...answer, ...restored };
}

function unsaved({ path, identity, interrupted }: CheckoutView): TaskdError {
  // Neither a checkpoint nor a session takes edits that continue another or an unknown history.
  const keep = identity !== "current"
    ? "Save them with sqlite3 .backup"
    : interrupted
    ? "Open a session on the branch to recover them"
    : "Make a checkpoint or open a session to keep them";
  return new TaskdError("dirty", `Cannot replace ${path}: it holds edits that are not in the store`, {
    hint: `${keep}, or add --force to drop them; taskd path prints the file's path as it is`,
  });
}

/** Path of a checkout, which must exist. */
export async function checkoutPath(context: StoreContext, address: Address): Promise<string> {
  const { db, branch, checkpoint } = address;
  await context.refs.read(db, branch);
  const { workspace } = context;
  const path = checkpoint === undefined ? workspace.checkout(db, branch) : workspace.readOnly(db, branch, checkpoint);
  try {
    requirePlainFile(path);
  } catch (cause) {
    if (!hasCode(cause, "not_found")) throw cause;
    throw new TaskdError("not_found", `${formatAddress(address)} is not checked out`, {
      cause,
      hint: `Run: taskd checkout ${formatAddress(address)}`,
    });
  }
  return path;
}

async function readOnly(context: StoreContext, point: Point, options: LongOptions): Promise<CheckoutResult> {
  const { workspace } = context;
  const { db, branch, checkpoint } = point.address;
  const path = workspace.readOnly(db, branch, checkpoint!);
  const answer = { db, branch, checkpoint: checkpoint!, path, txid: point.head.txid, read_only: true };
  workspace.requireInside(path);
  const { chain, head } = point;
  const origin = { chain_id: chain.id, digest: head.digest };
  // One of an earlier version may be in WAL mode.
  if (await context.cache.look(path, chain, head.digest) === "sound" && readHeader(path)?.write_version === 1) {
    workspace.touchUsed(path, context.clock.now());
    return { ...answer, source: "cached" };
  }
  const temporary = workspace.beside(path);
  try {
    const cloned = await context.cache.cloneTo(db, chain, head.digest, temporary, options);
    if (!cloned) await materialize(context.backend, chain, head.digest, temporary, options);
    const content = cloned ? cloned.content : await contentIn(temporary);
    Deno.chmodSync(temporary, 0o600);
    leaveWalMode(temporary);
    sealEntry(workspace, temporary, path, { ...origin, content, now_ms: context.clock.now() });
  } catch (error) {
    discard(temporary);
    throw fileError(error, `Cannot write ${path}`);
  }
  return { ...answer, source: "materialized" };
}
