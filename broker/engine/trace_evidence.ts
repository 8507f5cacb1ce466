/**
 * What the engine writes into a trace as evidence, and reads back after a restart: the staged commit and the change at
 * the gate. It is the trace, whose rows are chained, that says which tree was approved.
 *
 * @module
 */

import * as v from "valibot";
import type { TaskRecord } from "../task/schema.ts";

const oid = v.pipe(v.string(), v.regex(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/));
const sha256 = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/));

/** Evidence `staged`: what the work started from. */
const STAGED_SCHEMA = v.object({ base_commit: oid, base_branch: v.exactOptional(v.string()) });
/** What the work started from. */
export type Staged = v.InferOutput<typeof STAGED_SCHEMA>;

/** Evidence `change`: what the agent did. */
const CHANGE_SCHEMA = v.object({
  tree: oid,
  base_tree: oid,
  diff_sha256: sha256,
  /** Of the bytes in the diff file, which a person reads. */
  shown_sha256: sha256,
  files_changed: v.number(),
  lines_changed: v.number(),
});
/** What the agent did. */
export type Change = v.InferOutput<typeof CHANGE_SCHEMA>;

const REFUSED_SCHEMA = v.array(
  v.object({ target: v.string(), reason: v.string(), hint: v.exactOptional(v.string()) }),
);
/** A name that the egress proxy refused, as a view shows it. */
export type RefusedEgress = v.InferOutput<typeof REFUSED_SCHEMA>[number];

/** What the work started from; undefined before it was staged. */
export function stagedOf(record: TaskRecord): Staged | undefined {
  return read(STAGED_SCHEMA, record.evidence.staged);
}

/** What the agent did; undefined before it was collected. */
export function changeOf(record: TaskRecord): Change | undefined {
  return read(CHANGE_SCHEMA, record.evidence.change);
}

/** Names that the egress proxy refused, as they stood when the agent ended. */
export function refusedOf(record: TaskRecord): RefusedEgress[] {
  return read(REFUSED_SCHEMA, record.evidence.refused_egress) ?? [];
}

function read<T>(schema: v.GenericSchema<unknown, T>, value: unknown): T | undefined {
  const parsed = v.safeParse(schema, value);
  return parsed.success ? parsed.output : undefined;
}
