/**
 * destroy, touch and protect. Destroy claims the branch by compare-and-swap before
 * anything irreversible; an interrupted one is finished by the next.
 */

import { join } from "node:path/posix";
import { hasCode, TaskdError } from "../../errors.ts";
import { exists, fileError } from "../../fs.ts";
import { removeEntry } from "../chain_cache.ts";
import { isoNow, type Point, pointIn, type StoreContext } from "../context.ts";
import type { TakenFile } from "../file_in_use.ts";
import { describeHolder, isLeased, refuseClaimed, STALE_CLAIM_MS } from "../lease.ts";
import { type Address, DEFAULT_BRANCH, requireBranch } from "../names.ts";
import type { Ref } from "../ref.ts";
import type { DestroyOptions, DestroyResult, TouchOptions, TouchResult } from "../results.ts";
import { keepField, parseLevels } from "../retention.ts";
import { touched, ttlField } from "../time_to_live.ts";
import { listVersion } from "../tombstones.ts";
import { keepCopy } from "../set_aside.ts";
import { endKeepers, keepContent } from "./keep.ts";
import { type OldCheckout, takeOld } from "./repoint.ts";

export interface InternalDestroyOptions extends DestroyOptions {
  /** Whose claim it is; default `destroy`. */
  kind?: "destroy" | "reap";
  /** Checks the ref that is about to be claimed, and throws to leave it. */
  refuse?: (ref: Ref) => void;
}

/** How often a branch that changes meanwhile is kept anew. */
const MAX_CHANGES = 3;

/**
 * Destroys a branch: its ref and local files at once, its objects when nothing resolves through them any more. What it
 * held is kept as a branch first, so that whatever interrupts a destroy, the content is in one of the two.
 */
export async function destroy(
  context: StoreContext,
  address: Address,
  options: InternalDestroyOptions = {},
): Promise<DestroyResult> {
  requireBranch(address, "destroy");
  const attempted = `Cannot destroy ${address.db}@${address.branch}`;
  for (let changes = 0;; changes++) {
    const since = await listVersion(context.backend);
    const { ref } = await context.refs.read(address.db, address.branch);
    refuseDestroy(context, ref, attempted, options);
    using old = await oldContent(context, address, ref, { ...options, attempted });
    refuseUnconfirmed(address, ref, old, options);
    let kept: Awaited<ReturnType<typeof keepContent>> | undefined;
    try {
      if (old.point !== undefined && old.problem !== undefined) await keepDamaged(context, address, old.taken!.path);
      // No person has asked for a reap: what it would drop is kept, and the content that the store has is not.
      if (old.point !== undefined && (options.kind !== "reap" || old.edits !== undefined)) {
        const once = options.kind === "reap";
        kept = await keepContent(context, old.point, { ...options, op: "destroy", since, edits: old.edits, once });
      }
      // One that heals a claim finishes what has done this.
      if (kept === undefined && ref.kept === undefined && ref.claim === undefined) await endKeepers(context, address);
      await removeBranch(context, address, attempted, { ...options, seen: ref, taken: old.taken! });
    } catch (error) {
      // Only what was refused before the branch was claimed has certainly left it: everything else may have ended it, or
      // may yet, and then this copy is all there is.
      if (kept !== undefined && (error instanceof Changed || hasCode(error, ...REFUSED))) {
        await context.refs.remove(address.db, kept.branch, kept.etag).catch(() => {});
      }
      if (error instanceof Changed && changes < MAX_CHANGES) continue;
      throw error instanceof Changed ? changedMeanwhile(attempted) : error;
    }
    const { db, branch } = address;
    return { db, branch, ...(kept === undefined ? {} : { safety_branch: kept.branch }) };
  }
}

/** Keeps a checkout's file that is no database; `Changed` when another process has just removed it. */
async function keepDamaged(context: StoreContext, { db, branch }: Address, path: string): Promise<void> {
  try {
    const folder = await keepCopy(context.workspace, path, context.clock.now());
    context.log(`destroy of ${db}@${branch}: the file of its checkout is kept in ${folder}`);
  } catch (error) {
    throw error instanceof Deno.errors.NotFound ? new Changed() : fileError(error, `Cannot keep ${path}`);
  }
}

const REFUSED = ["lease_held", "protected", "branch_deleting", "branch_reaping"] as const;

/** The branch is not what it was when its content was kept. */
class Changed extends Error {}

function changedMeanwhile(attempted: string): TaskdError {
  return new TaskdError("conflict", `${attempted}: another process changed it at the same moment`, {
    hint: "Try again",
  });
}

/** Refuses a branch that may not be destroyed, whatever it holds. */
function refuseDestroy(context: StoreContext, ref: Ref, attempted: string, options: InternalDestroyOptions): void {
  options.refuse?.(ref);
  if (ref.claim && !isStaleClaim(context, ref.claim)) refuseClaimed(ref);
  if (ref.protected && !options.force) {
    throw new TaskdError("protected", `${attempted}: it is protected`, {
      hint: "Unprotect it with taskd unprotect, or add --force",
    });
  }
  if (isLeased(ref, context)) {
    throw new TaskdError("lease_held", `${attempted}: ${describeHolder(ref.lease!)} holds it`, {
      hint: "Close the session first",
    });
  }
}

/** What is not destroyed by a slip: `main`, what is protected, and edits that no store object has. */
function refuseUnconfirmed(
  { db, branch }: Address,
  ref: Ref,
  old: Pick<OldCheckout, "edits" | "problem">,
  options: InternalDestroyOptions,
): void {
  if (options.confirm || options.kind === "reap") return;
  const reasons = [
    ...(branch === DEFAULT_BRANCH ? ["it is the database's main branch"] : []),
    ...(ref.protected ? ["it is protected"] : []),
    ...(old.edits === undefined ? [] : ["its file holds edits that were never checkpointed"]),
    ...(old.problem === undefined ? [] : [`what its file holds cannot be kept: ${old.problem}`]),
  ];
  if (reasons.length === 0) return;
  throw new TaskdError(
    "unconfirmed",
    `${db}@${branch} is not destroyed without a confirmation: ${reasons.join(", ")}`,
    {
      hint: "Add --yes (in a request, confirm: true) to destroy it",
    },
  );
}

/** The checkout of a branch that is about to go; `point` is what has to be kept, with the edits. */
async function oldContent(
  context: StoreContext,
  address: Address,
  ref: Ref,
  options: InternalDestroyOptions & { attempted: string },
): Promise<OldCheckout & { point?: Point }> {
  const { db, branch } = address;
  const keeps = options.kind === "reap"
    ? exists(context.workspace.checkout(db, branch))
    : options.safety !== false && ref.kept === undefined && ref.claim === undefined;
  // Without anything to find out, the stored content need not be readable.
  if (!keeps && (options.confirm || options.kind === "reap")) {
    const taken = await context.checkouts.take(db, branch, options.attempted, options);
    return { taken, edits: undefined, problem: undefined, [Symbol.dispose]: () => taken[Symbol.dispose]() };
  }
  try {
    const point = await pointIn(context, { db, branch }, ref);
    return { ...await takeOld(context, point, { ...options, refuse_in_use: true }), ...(keeps ? { point } : {}) };
  } catch (error) {
    if (!hasCode(error, "corrupt", "chain_gap", "unsupported_format")) throw error;
    throw new TaskdError(error.code, `Cannot keep what ${db}@${branch} holds: ${error.message}`, {
      cause: error,
      hint: "Add --no-safety and --yes to destroy it without",
    });
  }
}

/** Claims a branch that still is as it was `seen`, and removes its files and its ref. */
async function removeBranch(
  context: StoreContext,
  { db, branch }: Address,
  attempted: string,
  options: InternalDestroyOptions & { seen: Ref; taken: TakenFile },
): Promise<void> {
  const nonce = context.holder.next();
  const { seen } = options;
  const claimed = await context.refs.update(db, branch, (ref) => {
    // Our own claim succeeded, but its answer was lost.
    if (ref.claim?.nonce === nonce) return undefined;
    refuseDestroy(context, ref, attempted, options);
    const same = ref.epoch === seen.epoch && ref.lineage === seen.lineage && ref.txid === seen.txid &&
      ref.digest === seen.digest && ref.checkpoints.length === seen.checkpoints.length;
    if (!same) throw new Changed();
    return { ...ref, claim: { kind: options.kind ?? "destroy", since: isoNow(context), nonce } };
  });
  try {
    context.checkouts.remove(options.taken);
    removeReadOnly(context, db, branch);
  } catch (error) {
    await dropClaim(context, db, branch, nonce).catch(() => {});
    throw hasCode(error, "conflict") ? new Changed() : fileError(error, attempted);
  }
  try {
    if (!await context.refs.remove(db, branch, claimed.etag)) throw changedMeanwhile(attempted);
  } catch (error) {
    await dropClaim(context, db, branch, nonce).catch(() => {});
    throw error;
  }
}

/** Whether the process that made a claim is dead, or had enough time. */
export function isStaleClaim(context: StoreContext, claim: NonNullable<Ref["claim"]>): boolean {
  return context.holder.isDead(claim.nonce) ||
    context.clock.now() - Date.parse(claim.since) > STALE_CLAIM_MS;
}

async function dropClaim(context: StoreContext, db: string, branch: string, nonce: string): Promise<void> {
  await context.refs.update(db, branch, (ref) => {
    if (ref.claim?.nonce !== nonce) return undefined;
    const { claim: _, ...rest } = ref;
    return rest;
  });
}

function removeReadOnly({ workspace }: StoreContext, db: string, branch: string): void {
  const directory = join(workspace.root, "checkouts-ro", db);
  workspace.requireInside(join(directory, branch));
  let entries: Deno.DirEntry[];
  try {
    entries = [...Deno.readDirSync(directory)];
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw error;
  }
  for (const { name } of entries) {
    if (name.startsWith(`${branch}@`) && name.endsWith(".db")) removeEntry(join(directory, name));
  }
}

export async function touch(context: StoreContext, address: Address, options: TouchOptions = {}): Promise<TouchResult> {
  requireBranch(address, "touch");
  const { db, branch } = address;
  const { ref } = await context.refs.update(db, branch, (ref) => {
    refuseClaimed(ref);
    const { keep: before, ...rest } = touched(ref, options, isoNow(context));
    const keep = options.keep === undefined ? before : options.keep === null ? undefined : parseLevels(options.keep);
    return { ...rest, ...(keep === undefined ? {} : { keep }) };
  });
  return { db, branch, touched_at: ref.touched_at, ...ttlField(ref), ...keepField(ref) };
}

export async function protect(
  context: StoreContext,
  address: Address,
  on: boolean,
): Promise<{ db: string; branch: string; protected: boolean }> {
  const { db, branch } = address;
  requireBranch(address, "protect");
  await context.refs.update(db, branch, (ref) => {
    refuseClaimed(ref);
    if ((ref.protected === true) === on) return undefined;
    const { protected: _, ...rest } = ref;
    return on ? { ...rest, protected: true } : rest;
  });
  return { db, branch, protected: on };
}
