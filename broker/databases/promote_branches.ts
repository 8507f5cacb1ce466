/**
 * Promoting a task's databases once they were approved: the very heads that waited at the gate, onto bases that stand
 * where they were forked. All are checked before the first is moved; if one cannot be promoted, none is, because a
 * change to two databases is one change. What is not promoted is kept, and the reason names its branch.
 */

import type { Client } from "../../lib/client/client.ts";
import { hasCode, messageWithHint } from "../../lib/errors.ts";
import type { DatabaseChange, DatabaseResult, ForkedDatabase } from "./evidence.ts";
import { statusOf, type StoreAccess, withStore } from "./store_calls.ts";

/** Milliseconds for all of a task. */
const PROMOTE_MS = 1_800_000;

export interface Approved {
  forks: readonly ForkedDatabase[];
  changes: readonly DatabaseChange[];
}

type Inspection =
  | { kind: "ready" }
  /** A broker that was cut off has done it. */
  | { kind: "promoted" }
  | { kind: "kept"; reason: string };

interface Candidate {
  change: DatabaseChange;
  head: NonNullable<DatabaseChange["head"]>;
  fork: ForkedDatabase | undefined;
}

/** Promotes what was changed. Never throws: what cannot be promoted is kept, with the reason. */
export async function promoteDatabases(access: StoreAccess, { forks, changes }: Approved): Promise<DatabaseResult[]> {
  const candidates = changes.flatMap((change): Candidate[] => {
    const fork = forks.find(({ db }) => db === change.db);
    return change.head === undefined ? [] : [{ change, head: change.head, fork }];
  });
  if (candidates.length === 0) return [];
  const attempted = "Cannot promote the task's databases";
  try {
    return await withStore(access, { attempted, timeout_ms: PROMOTE_MS }, async (client) => {
      const inspections: Inspection[] = [];
      for (const candidate of candidates) inspections.push(await inspect(client, candidate));
      const obstacle = inspections.find((found) => found.kind === "kept");
      const results: DatabaseResult[] = [];
      for (const [index, candidate] of candidates.entries()) {
        const found = inspections[index]!;
        if (found.kind === "promoted") results.push(resultOf(candidate, { result: "promoted" }));
        else if (obstacle === undefined) results.push(await promote(client, candidate));
        else {
          const reason = found.kind === "kept" ? found.reason : `so that none is alone: ${obstacle.reason}`;
          results.push(kept(candidate, reason));
        }
      }
      return results;
    });
  } catch (error) {
    return candidates.map((candidate) => kept(candidate, messageWithHint(error)));
  }
}

async function inspect(client: Client, { change, head, fork }: Candidate): Promise<Inspection> {
  const { db, base, branch } = change;
  try {
    const own = await statusOf(client, db, branch);
    if (own.lineage !== head.lineage || own.txid !== head.txid || own.holder !== undefined) {
      return { kind: "kept", reason: `${db}@${branch} was changed after it came to the gate` };
    }
    const target = await statusOf(client, db, base);
    if (fork === undefined) return { kind: "kept", reason: `the trace does not say where ${db}@${branch} began` };
    if (target.lineage === fork.base_lineage && target.txid === fork.base_txid) return { kind: "ready" };
    if (target.txid === head.txid) {
      // Without tables, because pages alone show whether they are the same.
      const { identical } = await client.call("diff", { a: `${db}@${base}`, b: `${db}@${branch}`, tables: [] });
      if (identical) return { kind: "promoted" };
    }
    const moved = target.lineage === fork.base_lineage
      ? `from transaction ${fork.base_txid} to ${target.txid}`
      : `to another history`;
    return { kind: "kept", reason: `${db}@${base} has moved since the task began, ${moved}` };
  } catch (error) {
    return { kind: "kept", reason: messageWithHint(error) };
  }
}

async function promote(client: Client, candidate: Candidate): Promise<DatabaseResult> {
  const { change: { db, base, branch }, head, fork } = candidate;
  try {
    const { txid, safety_branch } = await client.call("promote", { db, branch, onto: base });
    const safety = safety_branch === undefined ? {} : { safety_branch };
    const before = safety_branch === undefined ? undefined : await statusOf(client, db, safety_branch);
    const raced = before !== undefined && before.txid !== fork?.base_txid;
    const reason = txid !== head.txid
      ? `${db}@${branch} was changed at the very moment, and ${db}@${base} now stands at transaction ${txid}`
      : raced
      ? `${db}@${base} was written at the very moment: what it had is in ${db}@${safety_branch}`
      : undefined;
    return resultOf(candidate, { result: "promoted", ...safety, ...(reason === undefined ? {} : { reason }) });
  } catch (error) {
    const live = hasCode(error, "lease_held") ? `; a session has ${db}@${base} open` : "";
    return kept(candidate, `${messageWithHint(error)}${live}`);
  }
}

function kept(candidate: Candidate, reason: string): DatabaseResult {
  return resultOf(candidate, { result: "kept", reason });
}

function resultOf({ change: { db, base, branch } }: Candidate, result: Omit<DatabaseResult, "db" | "base" | "branch">) {
  return { db, base, branch, ...result };
}

/** The results as one sentence for the task's end; empty when there are none. */
export function resultsText(results: readonly DatabaseResult[]): string {
  return results.map(({ db, base, branch, result, reason, safety_branch }) =>
    result === "promoted"
      ? `${db}@${base} has the change to the database${
        safety_branch === undefined ? "" : `, ${db}@${safety_branch} what was before`
      }${reason === undefined ? "" : `; ${reason}`}`
      : `${db}@${branch} is NOT promoted onto ${base} and is kept: ${reason ?? "for no known reason"}`
  ).join("; ");
}
