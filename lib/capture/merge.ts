/**
 * Merges between branches: what one branch changed goes into another as one ordinary transaction on its checkout, while
 * applications have that open. A branch without a session gets one for the time of the merge.
 *
 * A merge that has committed and was cut off before it was stored is taken up with the log, as every commit is; only its
 * record may be missing then, and the same merge again changes nothing.
 */

import { hasCode, TaskdError, throwIfInterrupted } from "../errors.ts";
import { SourceChanges } from "../merge/source_changes.ts";
import type { FoundTarget } from "../merge/taken_back.ts";
import type { MergeSide, Resolution } from "../merge/conflicts.ts";
import { mergeInto, type MergeReport } from "../merge/three_way.ts";
import { randomHex } from "../clock.ts";
import { isoNow, type Point, pointAt, type StoreContext } from "../store/context.ts";
import { leftOut } from "../store/left_out.ts";
import { alsoOf, forkBase, mergeBase, type MergeSideRef, mergesInForce, withMerge } from "../store/merge_base.ts";
import { requirePlace } from "../store/ops/repoint.ts";
import { type Address, formatAddress, requireBranch, type Txid } from "../store/names.ts";
import type { ContentPoint, MergeRecord, Ref } from "../store/ref.ts";
import type { LeftOut, LongOptions, WaitOptions } from "../store/results.ts";
import type { Store } from "../store/store.ts";
import { CaptureSession } from "./session.ts";

/** Segments after which a session that a merge opens writes a snapshot. */
const SNAPSHOT_EVERY = 16;

/** What a merge of branches accepts; `wait_ms` is for a writer that holds the lock. */
export interface MergeBranchesOptions extends WaitOptions, LongOptions {
  /** Find conflicts and count, and change nothing. */
  check?: boolean | undefined;
  /** Decides every conflict of two values. */
  prefer?: MergeSide | undefined;
  /** Decide single conflicts, before `prefer`. */
  resolutions?: readonly Resolution[] | undefined;
  /** Where the source has to stand, `<lineage>/<txid>`: `conflict` when it does not. Of a revert nothing. */
  expected?: string | undefined;
  /** Where the source was forked, `<lineage>/<txid>`: exactly what it changed since is brought. Of a revert nothing. */
  forked_at?: string | undefined;
}

/** Answer of a merge. */
export interface MergeBranchesResult extends MergeReport, LeftOut {
  /** The target. */
  db: string;
  /** The target. */
  branch: string;
  /** What was merged; of a revert, the merge that was taken back. */
  from: string;
  /** Where the target stands. */
  txid: Txid;
  /** Names the merge for a revert; absent when nothing was changed. */
  merge?: string;
}

/**
 * Merges what `from` has, and the target has not, into the branch `onto` of the same database.
 *
 * @throws {TaskdError} `invalid_request`, `not_found`, `conflict` (no common point, or a definition that cannot be run),
 * `busy`, `lease_held`, `dirty`. Rows in conflict are in the answer, and nothing is changed.
 *
 * @example
 * ```ts
 * import { mergeBranches, openStore, parseAddress, revertMerge } from "@taskd/taskd";
 * import { DatabaseSync } from "node:sqlite";
 *
 * const directory = await Deno.makeTempDir();
 * const store = await openStore(directory);
 * await store.create("shop");
 * const [main, fork] = [parseAddress("shop"), parseAddress("shop@try")];
 * await store.fork(main, "try");
 * const db = new DatabaseSync((await store.checkout(fork)).path);
 * db.exec("CREATE TABLE item (name TEXT); INSERT INTO item VALUES ('tea')");
 * db.close();
 * await store.checkpoint(fork, "v1");
 *
 * const { merged, conflicts, definitions } = await mergeBranches(store, fork, main);
 * console.log(merged, conflicts.length, definitions); // true 0 [ "item" ]
 * await revertMerge(store, main);
 * console.log((await store.merges(main)).length); // 2
 * store.close();
 * await Deno.remove(directory, { recursive: true });
 * ```
 */
export async function mergeBranches(
  store: Store,
  from: Address,
  onto: Address,
  options: MergeBranchesOptions = {},
): Promise<MergeBranchesResult> {
  requireTwo(from, onto);
  return await inSession(store, onto, options, (session) => mergeUnder(store, session, from, options));
}

function requireTwo(from: Address, onto: Address): void {
  if (from.db === onto.db && (from.checkpoint !== undefined || from.branch !== onto.branch)) return;
  throw new TaskdError("invalid_request", `Cannot merge ${formatAddress(from)} into ${formatAddress(onto)}`, {
    hint: "Name two different branches of one database",
  });
}

/** The same under an open session of the target. */
export async function mergeUnder(
  { context }: Store,
  session: CaptureSession,
  from: Address,
  options: MergeBranchesOptions = {},
): Promise<MergeBranchesResult> {
  const onto = session.address;
  requireTwo(from, onto);
  // What applications committed until now may be what both have.
  await session.flushPending();
  const point = await pointAt(context, from);
  const source = sideOf(point);
  requirePlace("merge", from, { lineage: point.lineage, txid: point.head.txid }, options.expected);
  const target = sideOf(await pointAt(context, onto));
  const { forked_at } = options;
  const base = forked_at === undefined
    ? await mergeBase(context, source, target)
    : await forkBase(context, source, target, forked_at);
  const also = await alsoOf(context, source);
  const merging = { from: formatAddress(point.address), base, source: source.at, also, before: target.at };
  const done = await apply(context, session, options, merging);
  return { ...done, ...await leftOut(context, point) };
}

/**
 * Takes a merge back, the newest that is in force unless one is named: its inverse, as a merge, so that what came since
 * stays.
 *
 * @throws {TaskdError} `not_found` (the merge), and what {@linkcode mergeBranches} throws.
 *
 * @example
 * ```ts
 * import { openStore, parseAddress, revertMerge } from "@taskd/taskd";
 *
 * const directory = await Deno.makeTempDir();
 * const store = await openStore(directory);
 * await store.create("shop");
 * await revertMerge(store, parseAddress("shop")).catch(({ code }) => console.log(code)); // not_found
 * store.close();
 * await Deno.remove(directory, { recursive: true });
 * ```
 */
export function revertMerge(
  store: Store,
  onto: Address,
  merge?: string,
  options: MergeBranchesOptions = {},
): Promise<MergeBranchesResult> {
  return inSession(store, onto, options, (session) => revertUnder(store, session, merge, options));
}

/** The same under an open session of the branch. */
export async function revertUnder(
  { context }: Store,
  session: CaptureSession,
  merge: string | undefined,
  options: MergeBranchesOptions = {},
): Promise<MergeBranchesResult> {
  await session.flushPending();
  const now = await pointAt(context, session.address);
  const known = await mergesInForce(context, session.address, now.ref);
  const found = mergeOf(known, session.address, merge);
  const { base, source, from, id } = found;
  const inverse = { from, base: source, source: base, before: sideOf(now).at, reverts: id };
  const had = foundBy(found, now.ref, session.address);
  return await apply(context, session, options, { ...inverse, had });
}

/** Where the branch stood before a merge; of one that took another back, first before that one, and so on. */
function foundBy(merge: MergeRecord, { merges = [] }: Ref, onto: Address): Found[] {
  const chain = [merge];
  for (let { reverts } = merge; reverts !== undefined; { reverts } = chain[0]!) {
    const first = merges.find(({ id }) => id === reverts);
    if (first === undefined) {
      throw new TaskdError(
        "conflict",
        `Cannot revert ${merge.id}: ${formatAddress(onto)} does not remember ${reverts}`,
        {
          hint: `What ${reverts} had brought is known no more: merge ${merge.from} again instead`,
        },
      );
    }
    chain.unshift(first);
  }
  // Version 0.1.0 wrote none: of such a merge everything counts as brought.
  const known = chain.findLastIndex(({ before }) => before === undefined);
  return chain.slice(known + 1).map(({ before, left }) => ({ point: before!, left }));
}

function mergeOf(in_force: readonly MergeRecord[], onto: Address, merge: string | undefined): MergeRecord {
  const known = in_force.filter(({ reverts }) => merge !== undefined || reverts === undefined);
  const found = merge === undefined ? known.at(-1) : known.find(({ id }) => id === merge);
  if (found !== undefined) return found;
  const what = merge === undefined ? "" : ` ${merge}`;
  throw new TaskdError("not_found", `Cannot revert${what}: ${formatAddress(onto)} has no such merge in force`, {
    hint: known.length === 0
      ? "Nothing was merged into it that is not taken back"
      : `It has: ${known.map(({ id, from }) => `${id} (${from})`).join(", ")}`,
  });
}

async function inSession<T>(
  store: Store,
  onto: Address,
  { signal }: LongOptions,
  work: (session: CaptureSession) => Promise<T>,
): Promise<T> {
  requireBranch(onto, "merge into");
  throwIfInterrupted(signal);
  const session = await CaptureSession.open(store, onto, { flush_every_ms: 0, snapshot_every: SNAPSHOT_EVERY });
  try {
    return await work(session);
  } finally {
    await session.close();
  }
}

function sideOf({ address, ref, lineage, head }: Point): MergeSideRef {
  return { address, ref, at: { lineage, txid: head.txid, digest: head.digest } };
}

/** Where the target stood before a merge, and what of it that left; see {@linkcode SourceChanges.read}. */
interface Found {
  point: ContentPoint;
  left: readonly string[] | undefined;
}

type Merging = Pick<MergeRecord, "from" | "base" | "source" | "also" | "before" | "reverts"> & {
  /** Of a merge that is taken back. */
  had?: readonly Found[];
};

/** The most characters of what a merge left: the ref is read with every call. */
const MAX_LEFT_CHARS = 16 << 10;

async function apply(
  context: StoreContext,
  session: CaptureSession,
  options: MergeBranchesOptions,
  { from, base, source, also = [], before, reverts, had }: Merging,
): Promise<MergeBranchesResult> {
  const { db, branch } = session.address;
  using base_image = await imageOf(context, db, base, options).catch((error) => {
    if (!hasCode(error, "chain_gap")) throw error;
    throw new TaskdError("conflict", `Cannot merge ${from}: the common point ${base.lineage}/${base.txid} is lost`, {
      cause: error,
      hint: "Restore it from a backup, or replace the branch whole: taskd promote",
    });
  });
  using source_image = await imageOf(context, db, source, options);
  using held = new DisposableStack();
  const found: FoundTarget[] = [];
  for (const { point, left } of had ?? []) {
    found.push({ path: held.use(await imageOf(context, db, point, options)).path, left });
  }
  const { signal } = options;
  const seen_against = had === undefined ? {} : { before: found };
  using changes = await SourceChanges.read(base_image.path, source_image.path, { signal, ...seen_against });
  const { wait_ms, onProgress: _progress, expected: _expected, forked_at: _forked_at, ...rest } = options;
  const id = randomHex(context.random, 4);
  const record = (ref: Ref, decided: readonly string[]): Ref => {
    const onto = { lineage: ref.lineage, txid: ref.txid };
    let room = MAX_LEFT_CHARS;
    const remembered = decided.filter((place) => (room -= place.length) >= 0);
    const kept = remembered.length === 0 ? {} : { left: remembered };
    const merge: MergeRecord = {
      id,
      at: isoNow(context),
      from,
      base,
      source,
      ...also.length === 0 ? {} : { also },
      ...(before && { before }),
      onto,
      ...kept,
    };
    return withMerge(ref, reverts === undefined ? merge : { ...merge, reverts });
  };
  const { left: _left, ...report } = await session.change(
    (checkout) => mergeInto(checkout, changes, { ...rest, clock: context.clock, busy_timeout_ms: wait_ms }),
    ({ merged, tables, definitions, left }) =>
      merged && (tables.length > 0 || definitions.length > 0) ? (ref) => record(ref, left) : undefined,
  );
  const changed = report.merged && (report.tables.length > 0 || report.definitions.length > 0);
  return { db, branch, from, txid: session.txid, ...report, ...(changed ? { merge: id } : {}) };
}

async function imageOf(
  context: StoreContext,
  db: string,
  { lineage, txid, digest }: ContentPoint,
  options: LongOptions,
) {
  return await context.held_images.take(db, await context.chains.resolve(lineage, txid), digest, options);
}
