/**
 * History for a push. A task is staged from one commit without its parents; a code host takes such a commit's child while
 * it still has the commit on a branch. Where that branch was forced, or is gone, the push needs the parents down to one
 * that the host has.
 */

import { hasCode } from "../../lib/errors.ts";
import { fileError, fileErrorCode, removeIfPresent, writeFileAtomic } from "../../lib/fs.ts";
import type { Git, GitRunOptions } from "./git.ts";
import { fetchArguments } from "./remote_refs.ts";
import { requireOwnShape } from "./repository_shape.ts";
import type { RepoUrl } from "./repo_url.ts";

/** Commits that are fetched at first: a forced push usually replaces a few. */
const FIRST_DEPTH = 100;

/** Only names of commits are taken from what is fetched, so it may have what git's checks refuse in new objects. */
const CONFIG = ["transfer.fsckObjects=false", "fetch.fsckObjects=false"];

/** Steps by which more and more history is had; each is tried when the one before was not enough. */
export const HISTORY_STEPS = ["some", "all", "of_branches"] as const;
export type HistoryStep = (typeof HISTORY_STEPS)[number];

/**
 * Fetches parents of a staged repository's commit.
 *
 * @returns Whether there is more than before.
 * @throws {TaskdError} As {@linkcode Git.run}, except that a commit which the host does not have any more is no error.
 */
export async function fetchHistory(
  git: Git,
  step: HistoryStep,
  { url, git_dir, base_commit, remote }: {
    url: RepoUrl;
    git_dir: string;
    base_commit: string;
    remote: GitRunOptions;
  },
): Promise<boolean> {
  const shallow = `${git_dir}/shallow`;
  requireOwnShape(git_dir, remote.attempted);
  const before = await readCuts(shallow);
  if (before === "") return false;
  const requested = step === "of_branches" ? ["refs/heads/*:refs/taskd/history/*"] : [base_commit];
  const depth = step === "some" ? `--deepen=${FIRST_DEPTH}` : "--unshallow";
  try {
    await git.run(fetchArguments(url, depth, ...requested), { ...remote, config: CONFIG, repository: { git_dir } });
  } catch (error) {
    if (!hasCode(error, "not_found")) throw error;
    return false;
  }
  if (step === "of_branches") await joinParents(git, git_dir, remote.signal);
  requireOwnShape(git_dir, remote.attempted);
  return await readCuts(shallow) !== before;
}

/** A commit whose parents are all there by now, because a branch has them, is cut off no longer. */
async function joinParents(git: Git, git_dir: string, signal: AbortSignal | undefined): Promise<void> {
  const shallow = `${git_dir}/shallow`;
  const run = { repository: { git_dir }, attempted: "Cannot read the base's parents", signal };
  const left: string[] = [];
  for (const oid of (await readCuts(shallow)).split("\n").filter((line) => line !== "")) {
    const commit = await git.text(["cat-file", "commit", oid], run);
    const header = commit.slice(0, commit.indexOf("\n\n")).split("\n");
    const parents = header.flatMap((line) => /^parent (\w+)$/.exec(line)?.[1] ?? []);
    const found = await Promise.all(parents.map((id) => git.tryRun(["cat-file", "-e", `${id}^{commit}`], run)));
    if (found.some(({ code }) => code !== 0)) left.push(oid);
  }
  if (left.length === 0) removeIfPresent(shallow);
  else await writeFileAtomic(shallow, new TextEncoder().encode(left.map((oid) => `${oid}\n`).join("")), 0o600);
}

/** The commits whose parents are left out, a line each; empty when none are. */
async function readCuts(shallow: string): Promise<string> {
  try {
    return await Deno.readTextFile(shallow);
  } catch (error) {
    if (fileErrorCode(error) === "not_found") return "";
    throw fileError(error, `Cannot read ${shallow}`);
  }
}
