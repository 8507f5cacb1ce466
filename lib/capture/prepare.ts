/**
 * Opening a session: brings the checkout of a branch, whose lease the caller holds, into a state from which capturing
 * can go on, or refuses. Edits that the store does not have are adopted if they continue the branch's head, and never
 * dropped.
 */

import { TaskdError } from "../errors.ts";
import { LOCK_TIMEOUT_MS } from "../retry_while_busy.ts";
import { CheckoutFile, type FileStamp, stampFile } from "../sqlite/checkout_file.ts";
import { RebaseNeeded, type WalMark, WalTail } from "../sqlite/wal_tail.ts";
import { imageSha256 } from "../store/chain_cache.ts";
import { type CheckoutView, goneMeanwhile } from "../store/checkouts.ts";
import { type Point, type StoreContext, targetOf } from "../store/context.ts";
import { foreignEdits, recoverCheckout } from "../store/ops/recover.ts";
import type { Recovery } from "../store/results.ts";

export interface Prepared {
  file: CheckoutFile;
  tail: WalTail;
  /** Why everything must be stored anew, when that is so. */
  rebase?: string;
  /** Where the durable head ends in the log, when capturing goes on where a former session was cut off. */
  resumed?: WalMark;
  recovery?: Recovery | undefined;
}

export async function prepareCheckout(context: StoreContext, point: Point): Promise<Prepared> {
  const target = targetOf(point);
  const path = context.workspace.checkout(target.db, target.branch);
  const inspect = () => ({
    fileStamp: context.checkouts.fileStamp(path),
    stamp: stampFile(path),
    view: context.checkouts.inspect(target),
  });
  let { fileStamp, stamp, view } = inspect();
  const recovered = view && !view.stat_clean ? await recoverCheckout(context, point, { view, fileStamp }) : undefined;
  if (recovered) ({ fileStamp, stamp, view } = inspect());
  if (view && view.identity !== "current" && !view.stat_clean) throw foreignEdits(view);
  if (!view || view.identity !== "current") {
    await context.checkouts.restore(target, { fileStamp });
    stamp = stampFile(path);
    view = context.checkouts.inspect(target);
    if (!view) throw goneMeanwhile(path);
  }
  const file = CheckoutFile.open(view.path, { busy_timeout_ms: LOCK_TIMEOUT_MS });
  try {
    const prepared = await attach(context, point, file, { view, clean_stamp: view.stat_clean ? stamp : undefined });
    const adopted: Recovery | undefined = prepared.rebase === undefined ? undefined : { outcome: "adopted" };
    return { ...prepared, recovery: recovered?.recovery ?? adopted };
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
  const mark = view.interrupted ? view.marks.at(-1) : undefined;
  const { tail, resumed } = WalTail.attach(file, mark);
  if (tail.converted) return { file, tail, rebase: "the journal mode was not WAL" };
  if (mark && resumed) return { file, tail, resumed: mark };
  // Proved clean just now: still true if no process committed or folded a log before our pin was on it.
  const now = stampFile(file.path);
  const untouched = clean_stamp?.size === now?.size && clean_stamp?.mtime_ns === now?.mtime_ns;
  if (clean_stamp && untouched && tail.log_frames === 0) return { file, tail };
  const found = await imageSha256(tail.image());
  tail.endImage();
  if (found === await context.cache.sha256(point.address.db, point.chain, point.head.digest)) {
    return { file, tail };
  }
  const rebase = view.interrupted
    ? "a former session was cut off and its place in the log is gone"
    : "the checkout was edited while no session was open";
  return { file, tail, rebase };
}
