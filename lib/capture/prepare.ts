/**
 * Opening a session: brings the checkout of a branch, whose lease the caller holds, into a state from which capturing
 * can go on, or refuses. Edits that the store does not have are adopted if they continue the branch's head, and never
 * dropped.
 */

import { TaskdError } from "../errors.ts";
import { CheckoutFile, type FileStamp, stampFile } from "../sqlite/checkout_file.ts";
import { RebaseNeeded, type WalMark, WalTail } from "../sqlite/wal_tail.ts";
import { imageSha256 } from "../store/chain_cache.ts";
import type { CheckoutView } from "../store/checkouts.ts";
import { type Point, type StoreContext, targetOf } from "../store/context.ts";
import type { LongOptions } from "../store/results.ts";

/** How long a session waits for a lock that another process holds; its event loop is blocked meanwhile. */
const SESSION_BUSY_TIMEOUT_MS = 1_000;

export interface Prepared {
  file: CheckoutFile;
  tail: WalTail;
  /** Why everything must be stored anew, when that is so. */
  rebase?: string;
  /** Where the durable head ends in the log, when capturing goes on where a former session was cut off. */
  resumed?: WalMark;
}

export async function prepareCheckout(
  context: StoreContext,
  point: Point,
  options: LongOptions = {},
): Promise<Prepared> {
  const target = targetOf(point);
  const path = context.workspace.checkout(target.db, target.branch);
  let fileStamp = context.checkouts.fileStamp(path);
  let stamp = stampFile(path);
  let view = context.checkouts.inspect(target);
  if (view && view.identity !== "current" && !view.stat_clean) {
    const same = await context.checkouts.unchangedStamp(path, target);
    if (same === undefined) {
      throw new TaskdError(
        "dirty",
        `Cannot open a session: ${path} holds edits that do not belong to the branch's present history`,
        { hint: "Save them with sqlite3 .backup, then check the branch out with --force" },
      );
    }
    fileStamp = same;
  }
  let known_clean = view?.stat_clean === true && view.identity === "current";
  if (!view || view.identity !== "current") {
    await context.checkouts.restore(target, { ...options, fileStamp });
    stamp = stampFile(path);
    view = context.checkouts.inspect(target)!;
    known_clean = view.stat_clean;
  }
  const file = CheckoutFile.open(view.path, { busy_timeout_ms: SESSION_BUSY_TIMEOUT_MS });
  try {
    return await attach(context, point, file, { view, clean_stamp: known_clean ? stamp : undefined });
  } catch (error) {
    file.close();
    if (!(error instanceof RebaseNeeded)) throw error;
    throw new TaskdError("capture_failed", `Cannot read ${view.path}: ${error.message}`, { cause: error });
  }
}

async function attach(
  context: StoreContext,
  point: Point,
  file: CheckoutFile,
  { view, clean_stamp }: { view: CheckoutView; clean_stamp: FileStamp | undefined },
): Promise<Prepared> {
  const mark = resumeMark(context, point, view);
  const { tail, resumed } = WalTail.attach(file, mark);
  if (tail.converted) return { file, tail, rebase: "the journal mode was not WAL" };
  if (mark && resumed) return { file, tail, resumed: mark };
  // Proved clean just now: still true if no process committed or folded a log before our pin was on it.
  const now = stampFile(file.path);
  const untouched = clean_stamp?.size === now?.size && clean_stamp?.mtime_ns === now?.mtime_ns;
  if (clean_stamp && untouched && tail.log_frames === 0) return { file, tail };
  const found = await imageSha256(tail.image());
  tail.assertNotReset();
  if (found === await context.cache.sha256(point.address.db, point.chain, point.head.digest)) {
    return { file, tail };
  }
  const rebase = view.interrupted
    ? "a former session was cut off and its place in the log is gone"
    : "the checkout was edited while no session was open";
  return { file, tail, rebase };
}

/** Where in the log the branch's present head ends, if a session that was cut off wrote that down. */
function resumeMark(context: StoreContext, { ref }: Point, view: CheckoutView): WalMark | undefined {
  if (!view.interrupted) return undefined;
  const record = context.workspace.sessionRecord(view.path);
  return record?.heads.find(({ txid, digest }) => txid === ref.txid && digest === ref.digest)?.mark ?? undefined;
}
