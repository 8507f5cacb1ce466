/**
 * What an approval has led to, verified from the task's record alone: its trace and the files beside it. Neither the
 * staged tree nor the code host nor the branch store is asked.
 */

import { hasCode, messageOf } from "../../lib/errors.ts";
import { fileError } from "../../lib/fs.ts";
import { plural } from "../../lib/text/plural.ts";
import type { Verification } from "../api/wire.ts";
import { isTreeOf } from "../databases/changeset_file.ts";
import { resultsOf } from "../databases/evidence.ts";
import { commitId } from "../git/commit.ts";
import { type Binding, bindingDigest } from "../task/binding.ts";
import type { TaskRecord } from "../task/schema.ts";
import type { TaskStore } from "../task/task_store.ts";
import { requireBoundData } from "./bind.ts";
import { withDigest } from "./change_text.ts";
import { auditPaths } from "./task_paths.ts";
import { keptFile } from "./views.ts";

type Check = Verification["checks"][number];

/** Verifies everything there is; throws `not_found`, and `corrupt` for a trace that cannot be followed. */
export async function verifyApproval(tasks: TaskStore, id: string): Promise<Verification> {
  const verdict = await tasks.verify(id);
  const trace: Check = verdict.intact
    ? { what: "trace", holds: true, detail: `${verdict.head.seq} rows, each chained to the one before` }
    : { what: "trace", holds: false, detail: `row ${verdict.fault.seq} is ${verdict.fault.problem}` };
  if (!verdict.intact) return { id, verified: false, checks: [trace] };
  const record = await tasks.load(id);
  const { gate, approval } = record;
  if (gate === undefined) return { id, verified: true, checks: [trace] };
  if (gate.binding === undefined) {
    const detail = "the gate is of an earlier version, whose digest covered the code alone";
    return { id, verified: false, checks: [trace, { what: "digest", holds: false, detail }] };
  }
  const checks = [
    trace,
    // The rows before are its record: a gate that names others cannot be followed.
    held("digest", bindingDigest(gate.binding) === gate.diff_sha256, gate.diff_sha256),
    await keptCheck(tasks, id, { what: "brief", sha256: gate.binding.brief_sha256 }),
    await keptCheck(tasks, id, { what: "diff", sha256: gate.binding.shown_sha256 }),
    ...rowsChecks(auditPaths(tasks.audit_root, id).trees, gate.binding),
    ...approval === undefined ? [] : landed(record, gate.binding, approval),
  ];
  return { id, verified: checks.every(({ holds }) => holds), checks };
}

function held(what: Check["what"], holds: boolean, detail: string): Check {
  return { what, holds, detail };
}

async function keptCheck(
  tasks: TaskStore,
  id: string,
  { what, sha256 }: { what: "brief" | "diff"; sha256: string },
): Promise<Check> {
  try {
    await keptFile(tasks, id, what);
    return held(what, true, sha256);
  } catch (error) {
    if (hasCode(error, "unavailable")) throw error;
    return held(what, false, messageOf(error));
  }
}

/** The trees by which pages of rows prove that they were approved. A record without them proves no page, and is one. */
function rowsChecks(folder: string, { databases }: Binding): Check[] {
  return databases.flatMap(({ db, result }) => {
    const changeset = result?.changeset;
    if (changeset === undefined) return [];
    const detail = `${db}: ${plural(changeset.leaves, "page")} of rows, root ${changeset.root}`;
    try {
      return [held("rows", isTreeOf(`${folder}/${db}`, changeset), detail)];
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return [];
      if (error instanceof Deno.errors.UnexpectedEof) return [held("rows", false, detail)];
      throw fileError(error, `Cannot read the rows of ${db}`);
    }
  });
}

function landed(record: TaskRecord, binding: Binding, approval: NonNullable<TaskRecord["approval"]>): Check[] {
  const { diff_sha256, acknowledged, at } = approval;
  const missing = binding.second_look.filter((category) => !acknowledged.includes(category));
  const checks = [held("approval", diff_sha256 === bindingDigest(binding) && missing.length === 0, at)];
  const { pushed } = record;
  if (pushed !== undefined) {
    const message = withDigest(binding.commit_message, diff_sha256);
    const { base, tree } = binding;
    const commit = commitId({ tree, base_commit: base.commit, message, at_ms: Date.parse(at) });
    checks.push(held("commit", commit === pushed.commit, `${pushed.commit} with the tree ${tree}`));
  }
  const data = dataCheck(record, binding);
  if (data !== undefined) checks.push(data);
  return checks;
}

/** Of data that has landed, or was to: each approved database, and whether it has its change. */
function dataCheck(record: TaskRecord, binding: Binding): Check | undefined {
  const results = resultsOf(record);
  const approved = binding.databases.filter(({ result }) => result !== null);
  if (approved.length === 0 || results.length === 0) return undefined;
  const standings = approved.map(({ db, base, result }) => {
    const { result: standing = "unknown" } = results.find((one) => one.db === db) ?? {};
    return { address: `${db}@${base}`, result: standing, txid: result!.txid } as const;
  });
  const detail = standings.map(({ address, result, txid }) => {
    return result === "promoted"
      ? `${address} at transaction ${txid}`
      : `${address} does not have it, ${WORDS[result]}`;
  }).join(", ");
  // A task that is over has brought all that no one has given up.
  const over = record.outcome === "pushed" || record.outcome === "promoted";
  const strays = results.some(({ db, result }) => result === "promoted" && !approved.some((one) => one.db === db));
  const whole = !strays && !(over && standings.some(({ result }) => result === "unknown"));
  return held("data", whole && isBoundData(record), detail);
}

const WORDS = {
  kept: "it waits",
  given_up: "it was given up",
  unknown: "and the record does not say why",
} as const;

function isBoundData(record: TaskRecord): boolean {
  try {
    requireBoundData(record);
    return true;
  } catch (error) {
    if (hasCode(error, "corrupt")) return false;
    throw error;
  }
}
