/**
 * Landing a task's databases once they were approved: the very heads that waited at the gate, promoted onto bases that
 * stand where they were forked, and merged into bases that went on. All are checked before the first is moved; if one
 * cannot land by then, none does, because a change to two databases is one change. What does not land is kept, and the reason
 * names its branch.
 */

import type { Client } from "../../lib/client/client.ts";
import { hasCode, messageOf, messageWithHint } from "../../lib/errors.ts";
import type { Resolution } from "../../lib/merge/conflicts.ts";
import type { DatabaseConflicts, Decision } from "../task/database_schema.ts";
import type { DatabaseChange, DatabaseResult, ForkedDatabase } from "./evidence.ts";
import { boundedConflicts, type Candidate, checkMerge, conflictText, merge } from "./landing_merge.ts";
import { taskOf } from "./requested_databases.ts";
import { imageSha256, statusOf, type StoreAccess, withStore } from "./store_calls.ts";

/** Milliseconds for all of a task's databases. */
export const PROMOTE_MS = 1_800_000;
/** Why a promotion is refused that can be a merge. */
const MERGED_INSTEAD = ["busy", "lease_held", "conflict"] as const;

/** `merge`: the approved changes go into what the base holds by now. `promote_only`: they wait for a person. */
export type OnMovedBase = "merge" | "promote_only";

export interface Approved {
  forks: readonly ForkedDatabase[];
  changes: readonly DatabaseChange[];
  /** What earlier rounds have come to: a database that has its change is left alone, whatever was written to it since. */
  known: readonly DatabaseResult[];
  /** What becomes of a base that has moved, or that a session has open. */
  on_moved_base: OnMovedBase;
  /** What a person has decided of conflicts. */
  decisions: readonly Decision[];
  /** Whether the content is held to what was approved; versions up to 0.1.0 have noted another digest of it. */
  is_bound: boolean;
}

type Inspection =
  | { kind: "ready" }
  /** Nothing of it is in conflict with what the base holds by now. */
  | { kind: "mergeable"; moved: string; onto_txid: number; resolutions: Resolution[]; is_there: boolean }
  /** A broker that was cut off has done it. */
  | { kind: "promoted" }
  | { kind: "kept"; reason: string; conflicts?: DatabaseConflicts };

/** What is known to keep a change from landing. */
export interface Obstacle {
  reason: string;
  /** Present when decisions are all that is missing. */
  conflicts?: DatabaseConflicts[];
  /** Databases that have their change: an earlier round was cut off, or a person has merged it. */
  landed: string[];
}

/** Whether the base has all of the change, though this round has not brought it. */
function isThere(found: Inspection): boolean {
  return found.kind === "promoted" || found.kind === "mergeable" && found.is_there;
}

/**
 * Why the store's content of a branch is not what was at the gate; undefined when it is. What stands at a place of a
 * lineage never changes, and the store promotes from this place or not at all.
 */
async function contentProblem(
  client: Client,
  { change: { db, branch }, head }: Candidate,
): Promise<string | undefined> {
  try {
    // The checkpoint that was made of it has the branch's name.
    const { path, txid } = await client.call("checkout-at", { db, branch, checkpoint: branch });
    // Read where the daemon puts it, in the store's own directory: it may write nowhere else.
    const sha256 = await imageSha256(path);
    if (txid === head.txid && sha256 === head.image_sha256) return undefined;
    return `${db}@${branch} does not hold what was approved`;
  } catch (error) {
    return messageWithHint(error);
  }
}

/** Promotes what was changed. Never throws: what cannot be promoted is kept, with the reason. */
export async function promoteDatabases(
  access: StoreAccess,
  approved: Approved,
): Promise<DatabaseResult[]> {
  const done = approved.known.filter(({ result }) => result === "promoted");
  const candidates = candidatesOf(approved);
  if (candidates.length === 0) return done;
  const attempted = "Cannot promote the task's databases";
  try {
    return await withStore(access, { attempted, timeout_ms: PROMOTE_MS }, async (client) => {
      const inspections = await inspectAll(client, candidates, approved);
      const obstacle = inspections.find((found) => found.kind === "kept");
      const results: DatabaseResult[] = [...done];
      for (const [index, candidate] of candidates.entries()) {
        const found = inspections[index]!;
        if (found.kind === "promoted" || obstacle !== undefined && isThere(found)) {
          results.push(resultOf(candidate, { result: "promoted" }));
        } else if (obstacle === undefined) results.push(await land(client, candidate, found, approved));
        else {
          results.push(
            found.kind === "kept"
              ? keptAs(candidate, found)
              : kept(candidate, `so that none is alone: ${obstacle.reason}`),
          );
        }
      }
      const bounded = boundedConflicts(results.flatMap(({ conflicts }) => conflicts ?? []));
      return results.map((result) =>
        result.conflicts === undefined
          ? result
          : { ...result, conflicts: bounded.find(({ db }) => db === result.db) ?? result.conflicts }
      );
    });
  } catch (error) {
    return [...done, ...candidates.map((candidate) => kept(candidate, messageWithHint(error)))];
  }
}

async function inspectAll(client: Client, candidates: readonly Candidate[], approved: Approved): Promise<Inspection[]> {
  const inspections: Inspection[] = [];
  for (const candidate of candidates) {
    const found = await inspect(client, candidate, approved);
    const is_checked = (found.kind === "ready" || found.kind === "mergeable") && approved.is_bound;
    const reason = is_checked ? await contentProblem(client, candidate) : undefined;
    inspections.push(reason === undefined ? found : { kind: "kept", reason });
  }
  return inspections;
}

/**
 * What would keep the changes from landing, asked before anything of the task does: then neither code nor data is
 * anywhere yet. Undefined when nothing is known to.
 */
export async function landingObstacle(access: StoreAccess, approved: Approved): Promise<Obstacle | undefined> {
  const candidates = candidatesOf(approved);
  if (candidates.length === 0) return undefined;
  const attempted = "Cannot see whether the task's databases can be changed";
  return await withStore(access, { attempted, timeout_ms: PROMOTE_MS }, async (client) => {
    const inspections = await inspectAll(client, candidates, approved);
    const obstacles = inspections.filter((found) => found.kind === "kept");
    if (obstacles.length === 0) return undefined;
    const landed = [
      ...approved.known.filter(({ result }) => result === "promoted"),
      ...candidates.filter((_, index) => isThere(inspections[index]!)).map(({ change }) => change),
    ].map(({ db, base }) => `${db}@${base}`);
    const other = obstacles.find(({ conflicts }) => conflicts === undefined);
    if (other !== undefined) return { reason: other.reason, landed };
    const reason = obstacles.map((one) => one.reason).join("; ");
    return { reason, landed, conflicts: boundedConflicts(obstacles.flatMap(({ conflicts }) => conflicts ?? [])) };
  });
}

/** What is left to land. */
export function candidatesOf({ forks, changes, known }: Approved): Candidate[] {
  return changes.flatMap((change): Candidate[] => {
    const { db, head } = change;
    const over = known.some((one) => one.db === db && one.result === "promoted");
    return head === undefined || over ? [] : [{ change, head, fork: forks.find((fork) => fork.db === db) }];
  });
}

/** How the bases have changed since, and whether the changes land all the same, a sentence each. Throws the store's errors. */
export async function databaseStandings(access: StoreAccess, approved: Approved): Promise<string[]> {
  const attempted = "Cannot see how the bases of the task's databases stand";
  return await withStore(access, { attempted }, async (client) => {
    const standings: string[] = [];
    const kept = (reason: string) => standings.push(`as things stand the data does not land: ${reason}`);
    for (const candidate of candidatesOf(approved)) {
      const found = await inspect(client, candidate, approved);
      const { db, base } = candidate.change;
      if (found.kind === "kept") kept(found.reason);
      if (found.kind === "mergeable") {
        standings.push(`${found.moved}; the change is merged into it, nothing is in conflict`);
      }
      if (found.kind !== "ready") continue;
      const { holder, state } = await statusOf(client, db, base);
      if (holder !== undefined) kept(`a session has ${db}@${base} open (taskd session close ${db}@${base})`);
      if (state === "dirty") {
        standings.push(`the file of ${db}@${base} has edits that the task did not see; they are kept beside it`);
      }
    }
    return standings;
  });
}

async function inspect(
  client: Client,
  candidate: Candidate,
  { on_moved_base, decisions }: Pick<Approved, "on_moved_base" | "decisions">,
): Promise<Inspection> {
  const { change: { db, base, branch }, head, fork } = candidate;
  try {
    const own = await statusOf(client, db, branch);
    if (own.lineage !== head.lineage || own.txid !== head.txid || own.holder !== undefined) {
      return { kind: "kept", reason: `${db}@${branch} was changed after it came to the gate` };
    }
    const target = await statusOf(client, db, base);
    if (fork === undefined) return { kind: "kept", reason: `the trace does not say where ${db}@${branch} began` };
    const is_still = target.lineage === fork.base_lineage && target.txid === fork.base_txid;
    const is_at_rest = target.holder === undefined && target.state !== "dirty";
    // What was decided to stay is not replaced, also where the base is back at what the task began with.
    const keeps = decisions.some((one) => one.db === db && one.take === "ours");
    if (is_still && (on_moved_base === "promote_only" || is_at_rest && !keeps)) return { kind: "ready" };
    if (target.txid === head.txid) {
      // Without tables, because pages alone show whether they are the same.
      const { identical } = await client.call("diff", { a: `${db}@${base}`, b: `${db}@${branch}`, tables: [] });
      if (identical) return { kind: "promoted" };
    }
    const moved = target.lineage === fork.base_lineage
      ? `from transaction ${fork.base_txid} to ${target.txid}`
      : `to another history`;
    const text = is_still
      ? is_at_rest
        ? `${db}@${base} stands where the task began`
        : target.holder === undefined
        ? `the file of ${db}@${base} has edits that are not in the store`
        : `a session has ${db}@${base} open`
      : `${db}@${base} has moved since the task began, ${moved}`;
    if (on_moved_base === "merge") {
      const { open, lapsed, ...checked } = await checkMerge(client, candidate, decisions);
      if (open === undefined) return { kind: "mergeable", moved: text, onto_txid: target.txid, ...checked };
      return { kind: "kept", reason: `${text}, and ${conflictText(open, lapsed)}`, conflicts: open };
    }
    const by_hand = `taskd promote ${db}@${branch} --onto ${base}`;
    return {
      kind: "kept",
      reason: `${text} ` +
        `(compare: taskd diff ${db}@${base} ${db}@${branch}; to put it in its place all the same: ${by_hand})`,
    };
  } catch (error) {
    return { kind: "kept", reason: messageWithHint(error) };
  }
}

async function land(
  client: Client,
  candidate: Candidate,
  found: Inspection,
  { on_moved_base }: Pick<Approved, "on_moved_base">,
): Promise<DatabaseResult> {
  if (found.kind === "mergeable") return await mergeIn(client, candidate, found);
  if (on_moved_base === "promote_only") return await promote(client, candidate);
  try {
    return await promote(client, candidate, { refuse_in_use: true });
  } catch (error) {
    // An application would go on with a file that is no branch's any more, or has written since the base was looked at.
    if (!hasCode(error, ...MERGED_INSTEAD)) return kept(candidate, messageWithHint(error));
    const { db, base } = candidate.change;
    const moved = `${db}@${base} ${hasCode(error, "conflict") ? "has moved" : "is open"}`;
    return await mergeIn(client, candidate, { moved, onto_txid: candidate.fork!.base_txid, resolutions: [] });
  }
}

async function mergeIn(
  client: Client,
  candidate: Candidate,
  { moved, onto_txid, resolutions }: Pick<
    Inspection & { kind: "mergeable" },
    "moved" | "onto_txid" | "resolutions"
  >,
): Promise<DatabaseResult> {
  try {
    const { merge: id, txid, open } = await merge(client, candidate, resolutions);
    if (open !== undefined) {
      return keptAs(candidate, { reason: `${moved}, and ${conflictText(open)}`, conflicts: open });
    }
    // Without a merge all of it was there: an earlier round was cut off after its merge, or a person has merged.
    return resultOf(candidate, {
      result: "promoted",
      txid,
      ...(id === undefined ? {} : { merged: { merge: id, onto_txid } }),
    });
  } catch (error) {
    return kept(candidate, messageWithHint(error));
  }
}

/**
 * @throws {TaskdError} With `refuse_in_use`: `busy` or `lease_held` while the base is open, in an application or a session,
 * and `conflict` when one of the branches has moved.
 */
async function promote(
  client: Client,
  candidate: Candidate,
  { refuse_in_use = false } = {},
): Promise<DatabaseResult> {
  const { change: { db, base, branch }, head, fork } = candidate;
  try {
    const places = {
      expected: `${head.lineage}/${head.txid}`,
      ...(fork && { expected_onto: `${fork.base_lineage}/${fork.base_txid}` }),
    };
    const request = { db, branch, onto: base, ...places, refuse_in_use };
    const { txid, safety_branch, checkout_problem } = await client.call("promote", request);
    const safety = safety_branch === undefined ? {} : { safety_branch };
    const before = safety_branch === undefined ? undefined : await statusOf(client, db, safety_branch);
    const raced = before !== undefined && before.txid !== fork?.base_txid;
    const reasons = [
      ...raced ? [`${db}@${base} had edits that the task did not see: they are in ${db}@${safety_branch}`] : [],
      ...checkout_problem === undefined
        ? []
        : [`its file still has the old content, and what is written there is in no branch: ${checkout_problem}`],
    ];
    const reason = reasons.length === 0 ? {} : { reason: reasons.join("; ") };
    return resultOf(candidate, { result: "promoted", txid, ...safety, ...reason });
  } catch (error) {
    if (refuse_in_use && hasCode(error, ...MERGED_INSTEAD)) throw error;
    // The store's own hint names an option that a push does not have.
    const live = `${messageOf(error)} (Close it first: taskd session close ${db}@${base})`;
    return kept(candidate, hasCode(error, "lease_held") ? live : messageWithHint(error));
  }
}

function keptAs(
  candidate: Candidate,
  { reason, conflicts }: Omit<Inspection & { kind: "kept" }, "kind">,
): DatabaseResult {
  if (conflicts === undefined) return kept(candidate, reason);
  const id = taskOf(candidate.change.branch) ?? "";
  const hint = `to decide: taskd review ${id.slice(0, 12)}`;
  return resultOf(candidate, { result: "kept", reason: `${reason} (${hint})`, conflicts });
}

function kept(candidate: Candidate, reason: string): DatabaseResult {
  return resultOf(candidate, { result: "kept", reason });
}

function resultOf({ change: { db, base, branch } }: Candidate, result: Omit<DatabaseResult, "db" | "base" | "branch">) {
  return { db, base, branch, ...result };
}

/** The results as one sentence for the task's end; empty when there are none. */
export function resultsText(results: readonly DatabaseResult[]): string {
  return results.map(({ db, base, branch, result, reason, safety_branch, merged }) =>
    result === "promoted"
      ? `${db}@${base} has the change to the database${
        merged === undefined ? "" : mergedText(merged, `${db}@${base}`)
      }${safety_branch === undefined ? "" : `, ${db}@${safety_branch} what was before`}${
        reason === undefined ? "" : `; ${reason}`
      }`
      : `${db}@${branch} is NOT promoted onto ${base} and is kept: ${reason ?? "for no known reason"}`
  ).join("; ");
}

function mergedText({ merge, onto_txid }: NonNullable<DatabaseResult["merged"]>, address: string): string {
  return `, merged into what it held at transaction ${onto_txid} or later (taskd revert ${address} ${merge} takes it out)`;
}
