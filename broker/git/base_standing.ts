/**
 * How the branch that a task began from stands now: what a person at the gate should know of changes under the one that
 * they read. It is asked of the code host, and looked at in a repository of its own, which is removed again.
 */

import { fileError, writeFileAtomic } from "../../lib/fs.ts";
import { removeTree } from "../../lib/remove_tree.ts";
import { pathText, type RawPath, splitRecords } from "./_records.ts";
import type { Git, GitRunOptions } from "./git.ts";
import type { RepoUrl } from "./repo_url.ts";
import { fetchArguments, listRemote } from "./remote_refs.ts";

export interface BaseStanding {
  /** `rewritten`: the base commit is not in the branch any more. */
  state: "unmoved" | "moved" | "rewritten" | "deleted";
  /** Commits of the branch behind the base; only of one that moved. */
  commits?: number;
  /** Files that differ between the base and the branch now; only of one that moved or was rewritten. */
  files?: number;
  /** Names of those that the change has too, as text. */
  both?: string[];
}

export interface BaseStandingOptions {
  url: RepoUrl;
  git_dir: string;
  base_commit: string;
  branch: string;
  /** The tree of the change. */
  tree: string;
  /** For calls of the code host. */
  remote: GitRunOptions;
}

/** @throws {TaskdError} As {@linkcode Git.run}. */
export async function baseStanding(git: Git, options: BaseStandingOptions): Promise<BaseStanding> {
  const { url, git_dir, base_commit, branch, tree, remote } = options;
  const ref = `refs/heads/${branch}`;
  const head = (await listRemote(git, url, [ref], remote)).refs.get(ref);
  if (head === undefined) return { state: "deleted" };
  if (head === base_commit) return { state: "unmoved" };
  const look = `${git_dir}/now`;
  try {
    await removeTree(look);
    await Deno.mkdir(look, { mode: 0o700 });
    const { attempted, deadline_ms, signal } = remote;
    const run = { attempted, deadline_ms, signal, repository: { git_dir: look, borrows: `${git_dir}/objects` } };
    await git.run(["init", "--quiet", "--bare", "--template="], run);
    const text = new TextEncoder();
    await writeFileAtomic(`${look}/objects/info/alternates`, text.encode(`${git_dir}/objects\n`), 0o600);
    await writeFileAtomic(`${look}/shallow`, text.encode(`${base_commit}\n`), 0o600);
    await git.run(["update-ref", "refs/taskd/base", base_commit], run);
    const since = await git.text(["show", "-s", "--format=%ct", "refs/taskd/base"], run);
    await fetchSince(git, { url, head, since, run: { ...remote, repository: run.repository } });
    const { code } = await git.tryRun(["merge-base", "--is-ancestor", base_commit, head], run);
    const under = await changedPaths(git, [base_commit, head], run);
    const own = new Set(await changedPaths(git, [base_commit, tree], run));
    const files = { files: under.length, both: under.filter((path) => own.has(path)).map(pathText) };
    if (code !== 0) return { state: "rewritten", ...files };
    const commits = Number(await git.text(["rev-list", "--count", `${base_commit}..${head}`], run));
    return { state: "moved", commits, ...files };
  } catch (error) {
    throw fileError(error, remote.attempted);
  } finally {
    await removeTree(look).catch(() => {});
  }
}

/** Fetches what is younger than the base: all that moved it on. Where nothing is, the new commit alone. */
async function fetchSince(
  git: Git,
  { url, head, since, run }: { url: RepoUrl; head: string; since: string; run: GitRunOptions },
): Promise<void> {
  const fetch = (depth: string) => fetchArguments(url, depth, `${head}:refs/taskd/now`);
  if ((await git.tryRun(fetch(`--shallow-since=${since}`), run)).code !== 0) await git.run(fetch("--depth=1"), run);
}

async function changedPaths(git: Git, trees: readonly [string, string], run: GitRunOptions): Promise<RawPath[]> {
  const { stdout } = await git.run(["diff-tree", "-r", "-z", "--name-only", "--no-renames", ...trees], run);
  return splitRecords(stdout);
}
