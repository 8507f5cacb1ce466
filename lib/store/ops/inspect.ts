/**
 * status, branches, databases and lease: what there is, with each branch's state
 * computed anew at every call.
 */

import { hasCode, TaskdError } from "../../errors.ts";
import { unreadable } from "../errors.ts";
import { fileError, lstatIfPresent } from "../../fs.ts";
import { pointIn, type StoreContext, targetOf } from "../context.ts";
import { isLeased } from "../lease.ts";
import { type Address, type BranchName, parseName } from "../names.ts";
import type { Ref } from "../ref.ts";
import type { BranchInfo, BranchState, BranchStatus, DatabaseInfo } from "../results.ts";
import { historyOf } from "../points.ts";
import { keepField } from "../retention.ts";
import { ttlField } from "../time_to_live.ts";

/** What status and branches accept. */
export interface InspectOptions {
  /**
   * Whether checkouts of unleased branches are inspected; default true. Without, `dirty` and `detached` read
   * `idle`: for a caller that has to make sure first that no other process works there.
   */
  look?: boolean;
  /** Whether status counts what the points of the past cost, for which it lists each lineage that has some; default true. */
  history?: boolean;
}

export async function status(
  context: StoreContext,
  address: Address,
  options: InspectOptions = {},
): Promise<BranchStatus> {
  const { db, branch } = address;
  const { ref } = await context.refs.read(db, branch);
  const info = await branchInfo(context, { db, branch }, ref, options);
  const { chain } = await pointIn(context, { db, branch }, ref);
  return {
    ...info,
    storage: info.shared ? "shared" : "materialized",
    lineage: ref.lineage,
    depth: chain.depth,
    chain_bytes: chain.bytes,
    own_bytes: chain.objects.reduce((sum, { lineage, size }) => lineage === ref.lineage ? sum + size : sum, 0),
    ...keepField(ref),
    ...options.history === false ? {} : await historyOf(context, ref),
  };
}

/** All branches, or those of one database. One that cannot be read is listed with its problem. */
export async function branches(
  context: StoreContext,
  db?: string,
  options: InspectOptions = {},
): Promise<BranchInfo[]> {
  if (db !== undefined) parseName(db, "database");
  const names = await context.refs.list(db);
  if (db !== undefined && names.length === 0) {
    throw new TaskdError("not_found", `There is no database ${db}`, {
      hint: `${await context.refs.guessDatabase(db)}\`taskd databases\` lists what there is`,
    });
  }
  const infos: BranchInfo[] = [];
  for (const name of names) {
    try {
      const found = await context.refs.find(name.db, name.branch);
      if (found) infos.push(await branchInfo(context, name, found.ref, options));
    } catch (raw) {
      const error = unreadable(raw);
      if (!hasCode(error, "corrupt", "unsupported_format")) throw error;
      infos.push({ ...UNREADABLE, ...name, problem: error.message });
    }
  }
  return infos;
}

/** What is reported of a branch whose ref cannot be read. */
const UNREADABLE: Omit<BranchInfo, "db" | "branch"> = {
  state: "idle",
  shared: false,
  txid: 0,
  epoch: 0,
  checkpoints: [],
  protected: false,
  touched_at: new Date(0).toISOString(),
};

/** Errors in spite of which a branch is listed: its checkout or its stored content could not be inspected. */
const NOT_SEEN = [
  "chain_gap",
  "corrupt",
  "unsupported_format",
  "not_found",
  "denied",
  "no_space",
  "unavailable",
] as const;

export async function databases(context: StoreContext): Promise<DatabaseInfo[]> {
  const counts = new Map<string, number>();
  for (const { db } of await context.refs.list()) {
    counts.set(db, (counts.get(db) ?? 0) + 1);
  }
  return [...counts].map(([db, count]) => ({ db, branches: count }));
}

/** Who holds a branch. */
export interface LeaseInfo extends BranchName {
  /** Fencing epoch; every lease taken raises it. */
  epoch: number;
  /** Who took the lease last; absent when it was given back. */
  holder?: string;
  /** ISO 8601 UTC. */
  expires_at?: string;
  /** Where that was, if it is known. */
  host?: string;
  /** ISO 8601 UTC. */
  since?: string;
  /** Whether the lease holds now. */
  live: boolean;
}

export async function leaseInfo(context: StoreContext, { db, branch }: Address): Promise<LeaseInfo> {
  const { ref } = await context.refs.read(db, branch);
  return { db, branch, epoch: ref.epoch, ...ref.lease, live: isLeased(ref, context) };
}

async function branchInfo(
  context: StoreContext,
  { db, branch }: BranchName,
  ref: Ref,
  { look = true }: InspectOptions,
): Promise<BranchInfo> {
  const leased = isLeased(ref, context);
  const info: BranchInfo = {
    db,
    branch,
    state: leased ? "active" : "idle",
    shared: ref.base !== undefined,
    txid: ref.txid,
    epoch: ref.epoch,
    checkpoints: ref.checkpoints.map(({ digest: _digest, lineage: _lineage, ...shown }) => shown),
    protected: ref.protected === true,
    touched_at: ref.touched_at,
    ...ttlField(ref),
    ...(leased ? { holder: ref.lease!.holder } : {}),
  };
  const path = context.workspace.checkout(db, branch);
  try {
    if (lstatIfPresent(path)?.isFile) info.checkout = path;
  } catch (error) {
    info.problem = fileError(error, `Cannot inspect ${path}`).message;
  }
  if (leased || !look || info.checkout === undefined) return info;
  try {
    info.state = await stateAtRest(context, { db, branch }, ref);
  } catch (error) {
    // A chain with a gap must not hide the other branches, and a read-only store can at least be listed.
    if (!hasCode(error, ...NOT_SEEN)) throw error;
    info.problem = error.message;
  }
  return info;
}

/** The state of an unleased branch with a checkout. Never by size and time alone: the contract asks for the full hash. */
async function stateAtRest(context: StoreContext, address: BranchName, ref: Ref): Promise<BranchState> {
  const target = targetOf(await pointIn(context, address, ref));
  const view = context.checkouts.inspect(target);
  if (!view || await context.checkouts.hasContentOf(view, target)) return "idle";
  return view.identity === "foreign" && !view.interrupted ? "detached" : "dirty";
}
