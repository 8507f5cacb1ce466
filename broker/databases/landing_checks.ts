/**
 * The profile's checks once more, where a base has moved since the gate: there the answers were those of the task's own
 * branch, and what lands is its change merged into what the base holds by now. The merge is tried on a branch of its own,
 * which goes again; nothing of the base is touched.
 */

import { type RandomBytes, randomHex } from "../../lib/clock.ts";
import type { Client } from "../../lib/client/client.ts";
import { removeFolder, withFileError } from "../../lib/fs.ts";
import type { Resolution } from "../../lib/merge/conflicts.ts";
import type { ProfileCheck } from "../settings/settings.ts";
import { failedChecks } from "../task/brief.ts";
import type { BriefCheck } from "../task/database_schema.ts";
import { type InspectorOptions, runChecks } from "./inspector.ts";
import { type Candidate, checkMerge, mergeOf } from "./landing_merge.ts";
import { type Approved, candidatesOf, PROMOTE_MS } from "./promote_branches.ts";
import { statusOf, type StoreAccess, withStore } from "./store_calls.ts";

/** Where a broker is killed meanwhile, the store takes the branch away after this time. */
const TRIAL_TTL_MS = 3_600_000;

export interface LandingChecks {
  approved: Approved;
  /** Those of the repository's profile. */
  checks: readonly ProfileCheck[];
  /** Made, and removed again. */
  work_dir: string;
  signal: AbortSignal;
}

/**
 * What the checks expect and would not find any more if the changes were merged now, a sentence each; what can be merged at
 * all was asked before.
 *
 * @throws {TaskdError} The store's errors, or why the checks cannot be run.
 */
export async function brokenChecks(
  options: InspectorOptions & StoreAccess & { random: RandomBytes },
  { approved, checks, work_dir, signal }: LandingChecks,
): Promise<string[]> {
  const attempted = "Cannot run the profile's checks on what would land";
  const expected = checks.filter(({ expect }) => expect !== undefined);
  const candidates = candidatesOf(approved).filter(({ change: { db } }) => expected.some((one) => one.database === db));
  if (candidates.length === 0) return [];
  return await withStore(options, { attempted, signal, timeout_ms: PROMOTE_MS }, async (client) => {
    const broken: string[] = [];
    for (const candidate of candidates) {
      const { change: { db, base } } = candidate;
      if (!await hasMoved(client, candidate)) continue;
      const { resolutions, is_there } = await checkMerge(client, candidate, approved.decisions);
      if (is_there) continue;
      await remake(work_dir);
      try {
        const branch = `check-${randomHex(options.random, 8)}`;
        await writeTrial(client, candidate, { resolutions, work_dir, branch });
        const own = expected.filter(({ database }) => database === db);
        const found: BriefCheck[] = await runChecks(options, { work_dir, signal }, own);
        broken.push(...failedChecks([{ db, base, checks: found }]).map(({ message }) => message));
      } finally {
        await Deno.remove(work_dir, { recursive: true }).catch(() => {});
      }
    }
    return broken;
  });
}

/** Whether what would land is something else than what the checks were run on at the gate. */
async function hasMoved(client: Client, { change: { db, base }, fork }: Candidate): Promise<boolean> {
  const { lineage, txid, holder, state } = await statusOf(client, db, base);
  return lineage !== fork?.base_lineage || txid !== fork.base_txid || holder !== undefined || state === "dirty";
}

/** Writes what the base holds and what it would hold, under the names that checks know. */
async function writeTrial(
  client: Client,
  candidate: Candidate,
  { resolutions, work_dir, branch }: { resolutions: Resolution[]; work_dir: string; branch: string },
): Promise<void> {
  const { change: { db, base } } = candidate;
  await client.call("fork", { db, branch: base, new_branch: branch, ttl_ms: TRIAL_TTL_MS });
  try {
    await client.call("export", { db, branch, path: `${work_dir}/base.db` });
    await client.call("merge", { ...mergeOf(candidate), into: branch, resolutions });
    await client.call("export", { db, branch, path: `${work_dir}/result.db` });
  } finally {
    await client.call("destroy", { db, branch, safety: false, confirm: true });
  }
}

async function remake(folder: string): Promise<void> {
  await removeFolder(folder);
  await withFileError(`Cannot make ${folder}`, () => Deno.mkdir(folder, { recursive: true, mode: 0o700 }));
}
