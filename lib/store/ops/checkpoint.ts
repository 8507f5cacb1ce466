/**
 * checkpoint at rest: names the branch's state, storing first what was edited in its
 * checkout: the pages that differ from the shadow as a segment, or a snapshot where there
 * is no shadow, the chain is long, or most of the database changed.
 */

import { passing, TaskdError } from "../../errors.ts";
import { ImageFile } from "../../sqlite/checkout_file.ts";
import { changedPages } from "../../sqlite/changed_pages.ts";
import type { QuietCheckout } from "../quiet_checkout.ts";
import { type Point, pointIn, type StoreContext, targetOf } from "../context.ts";
import { type Lease, withLease } from "../lease.ts";
import { damagedError, knownDamage } from "../scrub.ts";
import { headTrouble } from "../head_check.ts";
import { type Address, formatAddress, parseName, requireBranch } from "../names.ts";
import { recoverCheckout } from "./recover.ts";
import { type Head, type StoredObject, writeSegment, writeSnapshot } from "../objects.ts";
import { encodeRef, type Ref, type RefCheckpoint } from "../ref.ts";
import type { CheckpointResult, LongOptions } from "../results.ts";

/** A person's note on a checkpoint has at most this many characters. */
export const MAX_NOTE = 1024;
/** A branch has at most this many checkpoints: its ref is read and written whole. */
export const MAX_CHECKPOINTS = 10_000;
/** A ref with this many bytes takes no further checkpoint: half of what a backend reads at once. */
export const MAX_REF_BYTES = 8 << 20;

/** Stores the edits in a branch's checkout, if there are any, and names the state `name`. */
export async function checkpoint(
  context: StoreContext,
  address: Address,
  name: string,
  options: { note?: string } & LongOptions = {},
): Promise<CheckpointResult> {
  parseName(name, "checkpoint");
  requireBranch(address, "make a checkpoint of");
  const { db, branch } = address;
  return await withLease(context, address, async (lease) => {
    refuseCheckpoint(lease.ref, address, name, options.note);
    const before = await pointIn(context, { db, branch }, lease.ref);
    // A whole snapshot needs nothing of what is damaged before it.
    const damage = await knownDamage(context, before.chain);
    const stored = await storeEdits(context, lease, before, { ...options, whole: damage !== undefined });
    if (damage !== undefined && !stored) {
      const attempted = `Cannot make the checkpoint ${formatAddress({ db, branch, checkpoint: name })}`;
      throw damagedError(attempted, address, damage);
    }
    // Released in every case: until then no application can write.
    using quiet = stored?.quiet;
    const head = stored?.object.head ?? before.head;
    if (stored) {
      const { txid, digest } = head;
      context.checkouts.recordPending(targetOf(before), { txid, digest, same_content: false });
    }
    await lease.write((ref) => withCheckpoint(context, ref, head, name, options.note));
    if (quiet) await stampBestEffort(context, quiet, lease);
    const trouble = stored && await headTrouble(context.backend, before.ref.lineage, head);
    if (trouble !== undefined) {
      context.log(
        `checkpoint ${formatAddress({ db, branch, checkpoint: name })}: the head may not be its own: ${trouble}`,
      );
    }
    return {
      db,
      branch,
      checkpoint: name,
      txid: head.txid,
      kind: head.kind,
      pages: stored?.object.pages ?? 0,
      stored_bytes: stored?.object.stored_bytes ?? 0,
      ...(trouble === undefined ? {} : { overwrite_detected: true as const }),
    };
  });
}

export function refuseCheckpoint(ref: Ref, address: Address, name: string, note?: string): void {
  const attempted = `Cannot make the checkpoint ${address.db}@${address.branch}@${name}`;
  if (ref.checkpoints.some((known) => known.name === name)) {
    throw new TaskdError("already_exists", `${attempted}: it exists already`, { hint: "Choose another name" });
  }
  if (ref.checkpoints.length >= MAX_CHECKPOINTS || encodeRef(ref).length >= MAX_REF_BYTES) {
    throw new TaskdError("too_large", `${attempted}: the branch has as many as it can, ${ref.checkpoints.length}`, {
      hint: "Fork the branch and go on in the fork",
    });
  }
  if (note !== undefined && note.length > MAX_NOTE) {
    throw new TaskdError("too_large", `${attempted}: the note is longer than ${MAX_NOTE} characters`);
  }
}

/** The ref with `head` as its head and a checkpoint there; unchanged when it is so already. */
export function withCheckpoint(
  context: Pick<StoreContext, "clock">,
  ref: Ref,
  head: Head,
  name: string,
  note?: string,
): Ref | undefined {
  const known = ref.checkpoints.find((entry) => entry.name === name);
  if (known?.txid === head.txid && known.digest === head.digest && ref.txid === head.txid) return undefined;
  const now = new Date(context.clock.now()).toISOString();
  const entry: RefCheckpoint = { name, ...head, created_at: now, ...(note === undefined ? {} : { note }) };
  return { ...ref, txid: head.txid, digest: head.digest, touched_at: now, checkpoints: [...ref.checkpoints, entry] };
}

/** Stores the checkout's edits; undefined when there are none. The checkout of stored ones stays quiet. */
async function storeEdits(
  context: StoreContext,
  lease: Lease,
  before: Point,
  { whole, ...options }: LongOptions & { whole: boolean },
): Promise<{ object: StoredObject; quiet: QuietCheckout } | undefined> {
  const { checkouts, backend } = context;
  const target = targetOf(before);
  let view = checkouts.inspect(target);
  // Of a session that was cut off: it may be behind what is stored.
  const fileStamp = view?.interrupted ? checkouts.fileStamp(view.path) : "";
  if (view?.interrupted && await recoverCheckout(context, before, { view, fileStamp }, options)) {
    view = checkouts.inspect(target);
  }
  if (!view || view.stat_clean && view.identity === "current") return undefined;
  if (view.identity !== "current") {
    if (view.stat_clean || await checkouts.hasContentOf(view, target)) return undefined;
    const why = view.identity === "unknown"
      ? `what it continues is not known, because ${view.path}.sum or ${view.path}.session is missing or damaged`
      : "it does not belong to the branch's present history";
    throw new TaskdError("dirty", `Cannot store the edits in ${view.path}: ${why}`, {
      hint: "Save them with sqlite3 .backup, then check the branch out again with --force",
    });
  }
  const place = { lineage: before.ref.lineage, epoch: lease.epoch };
  const txid = Math.max(before.head.txid, await context.chains.taken(place.lineage, place.epoch)) + 1;
  const quiet = await checkouts.open(view.path);
  try {
    const shadow = checkouts.shadow(view.path, target);
    const changed = shadow === undefined ? undefined : await changedSince(shadow, quiet, options);
    if (!whole && (changed?.length === 0 || (!changed && await checkouts.sameContent(quiet, target)))) {
      await stampBestEffort(context, quiet, lease);
      quiet[Symbol.dispose]();
      return undefined;
    }
    const { image } = quiet;
    const small = changed !== undefined &&
      changed.length * 2 < image.page_count;
    const object = small && !whole && before.chain.depth < context.depth_floor
      ? await writeSegment(backend, place, {
        prev: before.head,
        txid,
        changes: { pages: changed, page_count: image.page_count, low_page_count: image.page_count, commits: 1 },
        image,
      })
      : await writeSnapshot(backend, place, {
        txid,
        image,
        ...(quiet.complete ? { clone_path: quiet.path } : {}),
        ...options,
      });
    return { object, quiet };
  } catch (error) {
    quiet[Symbol.dispose]();
    throw error;
  }
}

/** Pages that differ from the shadow; undefined when the two cannot be compared page by page. */
async function changedSince(shadow: string, { image }: QuietCheckout, options: LongOptions) {
  using before = passing(["not_a_database", "corrupt", "not_found"], () => ImageFile.open(shadow));
  // Of a database that only shrank, page 1 has changed: it holds the size.
  return before?.page_size === image.page_size ? await changedPages(before, image, options) : undefined;
}

async function stampBestEffort(context: StoreContext, quiet: QuietCheckout, lease: Lease): Promise<void> {
  try {
    await context.checkouts.stamp(quiet, targetOf(await pointIn(context, lease.address, lease.ref)));
  } catch (error) {
    // Without a stamp the next inspection compares contents: slower, not wrong.
    context.log(`stamp of ${quiet.path}: ${(error as Error).message}`);
  }
}
