/**
 * What the trace of a task records of its databases. As with the code, the trace, whose rows are chained, proves
 * what was at the gate: the heads of branches, each of which stands for one content.
 */

import * as v from "valibot";
import { TaskdError } from "../../lib/errors.ts";
import { COUNT, type Json } from "../task/value_schemas.ts";
import type { TaskRecord } from "../task/schema.ts";
import { isWaiting } from "../task/stages.ts";
import {
  BRIEF_DATABASE,
  CHANGESET_ROOT,
  DATABASE_CONFLICTS,
  type DatabaseConflicts,
  TABLE_CHANGE,
} from "../task/database_schema.ts";

const name = v.pipe(v.string(), v.maxLength(128));
const lineage = v.pipe(v.string(), v.maxLength(128));

const FORK_SCHEMA = v.object({
  db: name,
  base: name,
  branch: name,
  /** Where `base` stood: the content of a txid in a lineage never changes. */
  base_txid: COUNT,
  base_lineage: lineage,
  /** Where `branch` stands from then on, until what the agent has left is stored in it. Brokers up to 0.1.0 noted none. */
  own: v.exactOptional(v.object({ txid: COUNT, lineage })),
});
export type ForkedDatabase = v.InferOutput<typeof FORK_SCHEMA>;

const CHANGE_ENTRIES = v.object({
  ...BRIEF_DATABASE.entries,
  db: name,
  base: name,
  branch: name,
  /** Present when it was changed: what is promoted is this and nothing else. */
  head: v.exactOptional(
    v.object({ txid: COUNT, lineage, image_sha256: v.string(), changeset: v.exactOptional(CHANGESET_ROOT) }),
  ),
  tables: v.array(v.object(TABLE_CHANGE.entries)),
});
const HEAD_SCHEMA = v.pipe(CHANGE_ENTRIES, v.check(({ changed, head }) => !changed || head !== undefined));
export type DatabaseChange = v.InferOutput<typeof HEAD_SCHEMA>;

const RESULT_SCHEMA = v.object({
  db: name,
  base: name,
  branch: name,
  /** `kept`: it waits for another round; `given_up`: by a person. */
  result: v.picklist(["promoted", "kept", "given_up"]),
  reason: v.exactOptional(v.string()),
  /** Of one that is kept because something is in conflict. */
  conflicts: v.exactOptional(DATABASE_CONFLICTS),
  txid: v.exactOptional(COUNT),
  /** Absent where `base` was as the task had found it: it then holds the task's branch whole. */
  merged: v.exactOptional(v.object({ merge: name, onto_txid: COUNT })),
  /** The branch that keeps what `base` was before. */
  safety_branch: v.exactOptional(name),
});
export type DatabaseResult = v.InferOutput<typeof RESULT_SCHEMA>;

export const EVIDENCE = {
  forks: "database_forks",
  /** What is at the gate. */
  changes: "databases",
  results: "database_results",
  /** When the round began whose turn to land has come. */
  landing: "landing",
} as const;

/** As the other readers: none when there is no such fact; throws `corrupt` for one that cannot be read. */
export function forksOf(record: Pick<TaskRecord, "evidence">): ForkedDatabase[] {
  return read(FORK_SCHEMA, record, EVIDENCE.forks);
}

export function changesOf(record: Pick<TaskRecord, "evidence">): DatabaseChange[] {
  return read(HEAD_SCHEMA, record, EVIDENCE.changes);
}

export function resultsOf(record: Pick<TaskRecord, "evidence">): DatabaseResult[] {
  return read(RESULT_SCHEMA, record, EVIDENCE.results);
}

/** What a person has to decide before a task lands, or its data follows. */
export function openConflicts(record: Pick<TaskRecord, "stage" | "gate" | "evidence">): DatabaseConflicts[] {
  if (record.stage === "awaiting_approval") return record.gate?.conflicts ?? [];
  return isWaiting(record.stage) ? resultsOf(record).flatMap(({ conflicts }) => conflicts ?? []) : [];
}

export function isDataChanged(changes: readonly DatabaseChange[]): boolean {
  return changes.some(({ changed }) => changed);
}

export function asJson(list: readonly object[]): Json {
  return JSON.parse(JSON.stringify(list));
}

function read<T>(schema: v.GenericSchema<unknown, T>, { evidence }: Pick<TaskRecord, "evidence">, fact: string): T[] {
  const parsed = v.safeParse(v.array(schema), evidence[fact] === undefined ? [] : evidence[fact]);
  if (parsed.success) return parsed.output;
  throw new TaskdError("corrupt", `the trace's evidence ${fact} cannot be read`);
}
