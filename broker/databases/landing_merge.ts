/**
 * The merge of a task's approved change into a base that has moved: what of it is in conflict, how far a person has
 * decided that, and the merge itself. A decision holds for the value that was seen: the store refuses it once the base
 * has another one, so that nothing lands which no one has read.
 */

import type { Client } from "../../lib/client/client.ts";
import { placeOf, type Resolution } from "../../lib/merge/conflicts.ts";
import { isDecidable } from "../../lib/merge/decidable.ts";
import type { OpAnswer, OpArgs } from "../../lib/protocol/messages.ts";
import { valueText } from "../../lib/sqlite/diff_text.ts";
import { plural } from "../../lib/text/plural.ts";
import { escapeJson, sanitizeLine } from "../../lib/text/sanitize.ts";
import type { DatabaseConflicts, Decision } from "../task/database_schema.ts";
import type { DatabaseChange, ForkedDatabase } from "./evidence.ts";

/** Conflicts that a reason names. */
const MAX_NAMED = 5;
/** The most of them that a row of a trace has room for, as it is written there; of several databases together. */
const MAX_CONFLICT_CHARS = 192 << 10;

/** One database of a task, and what is brought of it. */
export interface Candidate {
  change: DatabaseChange;
  head: NonNullable<DatabaseChange["head"]>;
  fork: ForkedDatabase | undefined;
}

export interface MergeCheck {
  /** What is left to decide; undefined when it can be merged. */
  open?: DatabaseConflicts;
  /** Decisions of what is in conflict. */
  resolutions: Resolution[];
  /** Decisions for what the base had where nothing is in conflict any more: without one the task's value would land. */
  lapsed: Decision[];
  /** All of it is in the base already. */
  is_there: boolean;
}

/**
 * The merge of exactly what was approved: the checkpoint of the task's branch has its name, and stands where it stood;
 * what is brought is what it changed since its fork, also where the base was rolled back behind that.
 */
export function mergeOf({ change: { db, base, branch }, head, fork }: Candidate): OpArgs<"merge"> {
  const expected = `${head.lineage}/${head.txid}`;
  const forked_at = `${fork?.base_lineage}/${fork?.base_txid}`;
  return { db, branch, checkpoint: branch, into: base, expected, forked_at };
}

/** Changes nothing. Also what was decided is listed again while something is open: it is decided as one. */
export async function checkMerge(
  client: Client,
  candidate: Candidate,
  decisions: readonly Decision[],
): Promise<MergeCheck> {
  const first = await client.call("merge", { ...mergeOf(candidate), check: true });
  const found = new Set(first.conflicts.filter(isDecidable).map(placeOf));
  const { db } = candidate.change;
  const own = decisions.filter((one) => one.db === db);
  const resolutions = own.filter((one) => found.has(placeOf(one)))
    .map(({ db: _db, ...resolution }): Resolution => resolution);
  const second = resolutions.length === 0
    ? first
    : await client.call("merge", { ...mergeOf(candidate), resolutions, check: true });
  const { conflicts_total, tables, definitions } = second;
  const brought = definitions.length > 0 ||
    tables.some(({ rows_added, rows_removed, rows_changed }) => rows_added + rows_removed + rows_changed > 0);
  // Where nothing is brought, a person has merged by hand.
  const lapsed = brought ? own.filter((one) => one.take === "ours" && !found.has(placeOf(one))) : [];
  if (conflicts_total > 0 || lapsed.length > 0) {
    // Rules of the base are held against what the decisions leave.
    const more = second === first ? [] : second.conflicts.filter((conflict) => !found.has(placeOf(conflict)));
    const conflicts = [...first.conflicts, ...more];
    return {
      open: openConflicts(candidate, first.txid, conflicts, first.conflicts_total + more.length),
      resolutions,
      lapsed,
      is_there: false,
    };
  }
  return { resolutions, lapsed, is_there: !brought && resolutions.length === 0 };
}

/** Merges; the answer has conflicts when the base has moved once more. */
export async function merge(
  client: Client,
  candidate: Candidate,
  resolutions: Resolution[],
): Promise<OpAnswer<"merge"> & { open?: DatabaseConflicts }> {
  const answer = await client.call("merge", { ...mergeOf(candidate), resolutions });
  if (answer.conflicts_total === 0) return answer;
  // With what was decided beside it.
  const { open } = await checkMerge(client, candidate, []);
  return { ...answer, open: open ?? openConflicts(candidate, answer.txid, answer.conflicts, answer.conflicts_total) };
}

function openConflicts(
  { change: { db, base } }: Candidate,
  txid: number,
  conflicts: DatabaseConflicts["conflicts"],
  total: number,
): DatabaseConflicts {
  return { db, base, txid, conflicts: conflicts.slice(0, 1_000), total };
}

/** As many of them as one row of a trace has room for. */
export function boundedConflicts(found: readonly DatabaseConflicts[]): DatabaseConflicts[] {
  let left = MAX_CONFLICT_CHARS;
  return found.map((one) => ({
    ...one,
    conflicts: one.conflicts.filter((conflict) => (left -= escapeJson(JSON.stringify(conflict)).length) >= 0),
  }));
}

/** What is in conflict, and what was decided and no longer is, in a sentence. */
export function conflictText({ conflicts, total }: DatabaseConflicts, lapsed: readonly Decision[] = []): string {
  const parts = [];
  if (total > 0) {
    const named = conflicts.map((one) => `${placeText(one)} (${one.kind.replaceAll("_", " ")})`);
    parts.push(
      `${plural(total, "change")} of it ${total === 1 ? "is" : "are"} in conflict with that: ${listed(named, total)}`,
    );
  }
  if (lapsed.length > 0) {
    parts.push(
      `no longer in conflict is what was to stay as the database had it, and the task's would land: ${
        listed(lapsed.map(placeText), lapsed.length)
      }`,
    );
  }
  return parts.join(", and ");
}

function placeText({ table, key = {}, column }: Pick<Decision, "table" | "key" | "column">): string {
  const place = Object.entries(key).map(([name, value]) => `${name}=${valueText(value)}`).join(" ");
  return sanitizeLine([table, place, column].filter(Boolean).join(" "));
}

function listed(names: readonly string[], total: number): string {
  const named = names.slice(0, MAX_NAMED);
  return named.join(", ") + (total > named.length ? ` and ${total - named.length} more` : "");
}
