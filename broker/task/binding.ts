/**
 * What an approval binds: everything that a push and a promotion would bring, and everything by which a person decides
 * on it, as one value with one digest. docs/explanation/approval.md says how another program computes it.
 */

import * as v from "valibot";
import { sha256Hex } from "../../lib/sha256.ts";
import { canonicalJson } from "../../lib/text/canonical_json.ts";
import { CHANGESET_ROOT, type DatabaseConflicts } from "./database_schema.ts";
import { COUNT, OID, SHA256, TEXT, WORD, WORDS } from "./value_schemas.ts";

/** A database of the task. */
const BOUND_DATABASE = v.strictObject({
  db: WORD,
  /** The branch that it was forked from and is promoted onto. */
  base: WORD,
  /** Where that branch stood: the content of a transaction in a lineage never changes. */
  base_lineage: WORD,
  base_txid: COUNT,
  /** What is promoted; null where nothing was changed. */
  result: v.nullable(v.strictObject({
    lineage: WORD,
    txid: COUNT,
    /** Of the whole file, schema, rows and every other byte, in the mode of a rollback journal. */
    image_sha256: SHA256,
    /** Of what differs from the base: absent at gates of earlier versions. */
    changeset: v.exactOptional(CHANGESET_ROOT),
  })),
});

/** The fields are those of docs/explanation/approval.md. */
export const BINDING = v.strictObject({
  format: v.literal("taskd approval 1"),
  task_id: WORD,
  /** The trace up to the gate: its rows, and the SHA-256 of the last one, which names the one before. */
  record: v.strictObject({ rows: COUNT, sha256: SHA256 }),
  /** Where it is pushed. */
  repository: WORD,
  base: v.strictObject({ commit: OID, tree: OID, branch: v.nullable(WORD) }),
  tree: OID,
  /** Of base, both trees and git's list of the changed entries. */
  change_sha256: SHA256,
  /** Without its last line, which has the digest. */
  commit_message: TEXT,
  /** Its body is without its last line, which has the digest. */
  pull_request: v.strictObject({ title: WORD, body_sha256: SHA256, draft: v.boolean() }),
  databases: v.array(BOUND_DATABASE),
  second_look: WORDS,
  /** Of every flag of every path. */
  flags_sha256: SHA256,
  /** Of the brief, as canonical JSON: so it is kept. */
  brief_sha256: SHA256,
  /** Of the bytes of the diff as it is shown. */
  shown_sha256: SHA256,
  policy_sha256: SHA256,
  egress_sha256: SHA256,
  settings_sha256: SHA256,
  /** Of the gate's conflicts, where it has some. */
  conflicts_sha256: v.exactOptional(SHA256),
});
export type Binding = v.InferOutput<typeof BINDING>;

/** The one digest that review, pages and interfaces name, and that an approval takes: `diff_sha256`. */
export function bindingDigest(binding: Binding): string {
  return sha256Hex(canonicalJson(binding));
}

/** A gate as far as its binding is concerned; a gate of an earlier version has none. */
interface BoundGate {
  diff_sha256: string;
  second_look: readonly string[];
  conflicts?: DatabaseConflicts[];
  binding?: Binding;
}

export function conflictsDigest(conflicts: readonly DatabaseConflicts[]): string {
  return sha256Hex(canonicalJson(conflicts));
}

/** What in a gate's row contradicts its binding, or the rows before; undefined when nothing does. */
export function gateContradiction(
  { diff_sha256, second_look, conflicts, binding }: BoundGate,
  row: { seq: number; prev: string },
): string | undefined {
  if (binding === undefined) return undefined;
  if (bindingDigest(binding) !== diff_sha256) return "what is at the gate has another digest";
  const { record } = binding;
  if (record.rows !== row.seq - 1 || record.sha256 !== row.prev) return "the gate is bound to another record";
  if (canonicalJson(binding.second_look) !== canonicalJson(second_look)) return "the gate asks for other categories";
  if (binding.conflicts_sha256 !== (conflicts && conflictsDigest(conflicts))) return "the gate has other conflicts";
  return undefined;
}
