/**
 * What a person decides of the conflicts that keep a change to databases from landing. Decisions are written down one by
 * one, each with the value of the base that was seen: what is in conflict later, or otherwise, is decided by none of them.
 */

import { TaskdError } from "../../lib/errors.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { canonicalJson } from "../../lib/text/canonical_json.ts";
import { byPlace, placeOf } from "../../lib/merge/conflicts.ts";
import { isDecidable } from "../../lib/merge/decidable.ts";
import type { DatabaseConflicts, DecideRequest, Decision } from "./database_schema.ts";
import type { Decider } from "./stages.ts";

/** Asks for another round of what waits to land. */
export interface PushRequest {
  /** What becomes of conflicts that were met between the push and the data. */
  decide?: DecideRequest | undefined;
  /** {@linkcode readDigest} of the conflicts that were read; a round since may have found others. */
  conflicts_read_sha256?: string | undefined;
  by?: Decider | undefined;
}

/** Of what a person reads of conflicts: the same while a round finds the same, wherever the base stands by then. */
export function readDigest(found: readonly DatabaseConflicts[]): string {
  return sha256Hex(canonicalJson(found.map(({ txid: _, ...read }) => read)));
}

/**
 * {@linkcode decide} for data that waits. Rounds come by themselves, so what is decided has to be what was read: by its
 * digest, or decision by decision with `ours`.
 *
 * @throws {TaskdError} Also `conflict` where other conflicts were read, `invalid_request` where it is not said which.
 */
export function decideAsRead(
  found: readonly DatabaseConflicts[],
  { decide: request, conflicts_read_sha256 }: Pick<PushRequest, "decide" | "conflicts_read_sha256">,
): Decision[] {
  const hint = "taskd review lists what is in conflict now, and ends with the command";
  if (conflicts_read_sha256 !== undefined && conflicts_read_sha256 !== readDigest(found)) {
    throw new TaskdError("conflict", "Cannot decide: what is in conflict is not what was read any more", { hint });
  }
  const { prefer, resolve = [] } = request ?? {};
  if (conflicts_read_sha256 === undefined && (prefer !== undefined || resolve.some(({ ours }) => ours === undefined))) {
    throw new TaskdError("invalid_request", "Cannot decide: it is not said which conflicts were read", { hint });
  }
  return decide(found, request);
}

/**
 * The decision of each conflict that the request decides.
 *
 * @throws {TaskdError} `invalid_request` for a decision of something that is not in conflict, or two of one thing; `conflict`
 * for one that was made of another value.
 */
export function decide(found: readonly DatabaseConflicts[], { prefer, resolve = [] }: DecideRequest = {}): Decision[] {
  if (found.every(({ conflicts }) => conflicts.length === 0) && (prefer !== undefined || resolve.length > 0)) {
    throw new TaskdError("invalid_request", "Cannot decide: nothing of this task is known to be in conflict");
  }
  const in_db = (db: string | undefined, place: Parameters<typeof placeOf>[0]) => `${db ?? ""} ${placeOf(place)}`;
  const by_place = byPlace(resolve, (one) => in_db(one.db, one));
  const used = new Set<(typeof resolve)[number]>();
  const decisions = found.flatMap(({ db, conflicts }) =>
    conflicts.filter(isDecidable).flatMap((conflict): Decision[] => {
      const { table, key, column, ours = null } = conflict;
      const place = { table, ...(key && { key }), ...(column === undefined ? {} : { column }) };
      const row = { table, ...(key && { key }) };
      const one = [in_db(db, place), in_db(undefined, place), in_db(db, row), in_db(undefined, row)]
        .map((at) => by_place.get(at)).find((known) => known !== undefined);
      if (one !== undefined) used.add(one);
      if (one?.ours !== undefined && canonicalJson(one.ours) !== canonicalJson(ours)) throw otherValue(db, place);
      const take = one?.take ?? prefer;
      return take === undefined ? [] : [{ db, ...place, take, ours }];
    })
  );
  const unused = resolve.find((one) => !used.has(one));
  if (unused === undefined) return decisions;
  throw new TaskdError("invalid_request", `Cannot decide: nothing is in conflict at ${placeOf(unused).slice(0, 200)}`, {
    hint: "Take table, key and column from the task's conflicts: taskd review --json has them",
  });
}

function otherValue(db: string, place: Parameters<typeof placeOf>[0]): TaskdError {
  const where = `${db} ${placeOf(place)}`.slice(0, 200);
  return new TaskdError("conflict", `Cannot decide: the database has another value by now at ${where}`, {
    hint: "Read what is in conflict again, and decide that",
  });
}
