/**
 * Where a code host shows a commit.
 */

/** The web address of a commit of a repository, given by any address that git takes; undefined for one of this machine. */
export function commitAddress(repo: string, commit: string): string | undefined {
  const match =
    /^(?:(?:https|ssh):\/\/)?(?:[^@/\s]+@)?([a-z0-9-]+(?:\.[a-z0-9-]+)+)(?::\d+)?[/:]([\w.~+-]+(?:\/[\w.~+-]+)+)$/i
      .exec(repo.replace(/\/$/, "").replace(/\.git$/, ""));
  if (match === null || !/^[0-9a-f]{40,64}$/.test(commit)) return undefined;
  const [, host = "", path = ""] = match;
  return `https://${host.toLowerCase()}/${path}/${
    host.toLowerCase() === "bitbucket.org" ? "commits" : "commit"
  }/${commit}`;
}
