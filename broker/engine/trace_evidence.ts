/**
 * What the engine writes into a trace as evidence, and reads back after a restart: the staged commit and the change at
 * the gate. It is the trace, whose rows are chained, that says which tree was approved.
 */

import * as v from "valibot";
import { PUSHED, type Pushed } from "../task/stages.ts";
import {
  DISK_USE,
  type DiskUse,
  EGRESS_GRANTS,
  type EgressGrants,
  REFUSED_EGRESS,
  type RefusedEgress,
  type TaskRecord,
} from "../task/schema.ts";
import { OID, SHA256 } from "../task/value_schemas.ts";

const STAGED_SCHEMA = v.object({ base_commit: OID, base_branch: v.exactOptional(v.string()) });
export type Staged = v.InferOutput<typeof STAGED_SCHEMA>;

const CHANGE_SCHEMA = v.object({
  tree: OID,
  base_tree: OID,
  /** Of versions up to 0.1.0, whose gates had this digest. */
  diff_sha256: v.exactOptional(SHA256),
  /** Of the bytes in the diff file, which a person reads. */
  shown_sha256: SHA256,
  /** Of the bytes of the brief, by which a person decides; absent in older traces. */
  brief_sha256: v.exactOptional(SHA256),
  files_changed: v.number(),
  lines_changed: v.number(),
});
export type Change = v.InferOutput<typeof CHANGE_SCHEMA>;

/** What the work started from; undefined before it was staged. */
export function stagedOf(record: TaskRecord): Staged | undefined {
  return read(STAGED_SCHEMA, record.evidence.staged);
}

/** What the agent did; undefined before it was collected. */
export function changeOf(record: TaskRecord): Change | undefined {
  return read(CHANGE_SCHEMA, record.evidence.change);
}

/** The name of what the code host was seen to have while the data had still to land. */
export const ARRIVED = "arrived";

/** What was pushed, as far as a row says it: a broker that is killed before the data has landed need not ask again. */
export function pushedOf(record: TaskRecord): Pushed | undefined {
  return record.pushed ?? read(PUSHED, record.evidence[ARRIVED]);
}

/** Whether the gate's digest is of nothing that the trace has. */
export function isUnbound(record: TaskRecord): boolean {
  return record.gate?.binding === undefined && changeOf(record)?.diff_sha256 !== record.diff_sha256;
}

/** Names that the egress proxy refused, as they stood when the agent ended. */
export function refusedOf(record: TaskRecord): RefusedEgress {
  return read(REFUSED_EGRESS, record.evidence.refused_egress) ?? [];
}

/** Hosts that a person opened to it while it ran. */
export function grantsOf(record: TaskRecord): EgressGrants {
  return read(EGRESS_GRANTS, record.evidence.egress_grants) ?? [];
}

/** The name of what disk space it took. */
export const DISK = "disk";

/** The disk space that it took; undefined when it was not counted. */
export function diskOf(record: TaskRecord): DiskUse | undefined {
  return read(DISK_USE, record.evidence[DISK]);
}

function read<T>(schema: v.GenericSchema<unknown, T>, value: unknown): T | undefined {
  const parsed = v.safeParse(schema, value);
  return parsed.success ? parsed.output : undefined;
}
