/**
 * What a repository on a code host has under its names, and how a part of it is fetched.
 */

import { binary } from "./_records.ts";
import type { Git, GitRunOptions } from "./git.ts";
import type { RepoUrl } from "./repo_url.ts";

export const OID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

/** For a list of a million refs; a server that goes on without end is cut off there. */
export const LIST_LIMITS = { memory_bytes: 512 << 20 } as const;

/** The refs of a repository that have exactly these names, with what they point at. */
export async function listRemote(
  git: Git,
  url: RepoUrl,
  names: readonly string[],
  options: GitRunOptions,
): Promise<{ refs: Map<string, string>; head?: string }> {
  const { stdout } = await git.run(["ls-remote", "--symref", "--", url.clone_url, ...names], {
    ...options,
    limits: LIST_LIMITS,
  });
  const refs = new Map<string, string>();
  let head: string | undefined;
  for (const line of binary(stdout).split("\n")) {
    const [value, name] = line.split("\t");
    if (name === undefined) continue;
    const symbolic = /^ref: (refs\/heads\/.+)$/.exec(value!);
    if (symbolic !== null && name === "HEAD") head = symbolic[1]!;
    // Patterns match the ends of names: refs/heads/x also finds refs/remotes/refs/heads/x.
    else if (OID.test(value!) && names.includes(name)) refs.set(name, value!);
  }
  return { refs, ...head === undefined ? {} : { head } };
}

/**
 * A fetch of just these refspecs, with nothing said of them in FETCH_HEAD.
 *
 * @param depth How much of the history comes: an option such as `--depth=1`.
 */
export function fetchArguments({ clone_url }: RepoUrl, depth: string, ...refspecs: string[]): string[] {
  return ["fetch", "--quiet", depth, "--no-tags", "--no-write-fetch-head", "--", clone_url, ...refspecs];
}
