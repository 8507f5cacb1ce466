/**
 * How what a change was made from stands now: its base branch on the code host, the bases of its databases in the branch
 * store. What it was made from is bound at the gate; this is what has happened beside it since.
 */

import { messageWithHint } from "../../lib/errors.ts";
import { plural } from "../../lib/text/plural.ts";
import type { BasesView } from "../api/wire.ts";
import { changesOf, forksOf } from "../databases/evidence.ts";
import { databaseStandings } from "../databases/promote_branches.ts";
import { baseStanding } from "../git/base_standing.ts";
import { remoteOptions } from "../git/staged_repository.ts";
import type { TaskRecord } from "../task/schema.ts";
import { isWaiting } from "../task/stages.ts";
import { isDataOnly } from "./database_stages.ts";
import { reachRepo, withoutServerWords } from "./repo_address.ts";
import type { EngineDeps } from "./engine_deps.ts";
import { stagePaths } from "./task_paths.ts";
import { changeOf, stagedOf } from "./trace_evidence.ts";

/** Milliseconds for a call of the code host: a person waits for the answer. */
const DEADLINE_MS = 60_000;
const MAX_LISTED = 20;

export async function basesNow(deps: EngineDeps, record: TaskRecord): Promise<BasesView> {
  if (record.stage !== "awaiting_approval" && !isWaiting(record.stage)) return { notes: [] };
  const notes = await Promise.all([codeNote(deps, record), dataNotes(deps, record)]);
  return { notes: notes.flat() };
}

async function codeNote(deps: EngineDeps, record: TaskRecord): Promise<string[]> {
  const { git, resolved: { settings } } = deps;
  const [staged, change] = [stagedOf(record), changeOf(record)];
  // A tag or a commit does not move, and what is pushed is on the code host already.
  if (staged?.base_branch === undefined || change === undefined || record.pushed !== undefined) return [];
  if (isDataOnly(record)) return [];
  const { base_branch: branch, base_commit } = staged;
  const { git_dir } = stagePaths(settings.stage_root, record.id);
  try {
    const reached = await reachRepo(deps, record, "fetch");
    const { url } = reached;
    const attempted = `Cannot see how ${branch} of ${url.canonical} stands`;
    const remote = remoteOptions({ ...reached, deadline_ms: DEADLINE_MS }, attempted);
    const now = await withoutServerWords(
      deps,
      record,
      `Cannot see how ${branch} stands at`,
      () => baseStanding(git, { url, git_dir, base_commit, branch, tree: change.tree, remote }),
    );
    const { state, commits = 0, files = 0, both = [] } = now;
    if (state === "unmoved") return [];
    if (state === "deleted") {
      return [`${branch} is not on the code host any more: the change is made from ${base_commit}`];
    }
    const how = state === "moved"
      ? `${branch} has moved on by ${plural(commits, "commit")}`
      : `${branch} was rewritten: the commit that the change is made from is not in it any more`;
    const listed = both.slice(0, MAX_LISTED).join(", ") + (both.length > MAX_LISTED ? ", ..." : "");
    const overlap = both.length === 0
      ? "none of them in this change"
      : `${both.length} of them in this change too: ${listed}`;
    return [`${how}; ${plural(files, "file")} differ${files === 1 ? "s" : ""} there, ${overlap}`];
  } catch (error) {
    return [messageWithHint(error)];
  }
}

async function dataNotes({ databases, resolved }: EngineDeps, record: TaskRecord): Promise<string[]> {
  try {
    const changes = changesOf(record).filter(({ changed }) => changed);
    if (changes.length === 0 || databases === undefined) return [];
    return await databaseStandings(databases.access, {
      forks: forksOf(record),
      changes,
      known: [],
      on_moved_base: resolved.settings.on_moved_base,
      decisions: [],
      is_bound: false,
    });
  } catch (error) {
    return [messageWithHint(error)];
  }
}
