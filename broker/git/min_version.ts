/**
 * The oldest git that the project works with.
 */

/**
 * The oldest release line that is mended where this program relies on git: content of a repository overflows no parser of
 * attributes or formats (CVE-2022-23521 and CVE-2022-41903, 2.39.1), the side that serves a repository of another user
 * refuses, and fetches nothing for it (CVE-2024-32004 and CVE-2024-32465, 2.39.4: https://github.blog/open-source/git/
 * securing-git-addressing-5-new-vulnerabilities/). Distributions mend later lines without a new number, so of those the
 * number proves nothing: what the last two are about is kept shut here as well, see local_repository.ts.
 */
export const MIN_GIT_VERSION = [2, 39, 4] as const;
export const INSTALL_GIT = `Install git ${MIN_GIT_VERSION.join(".")} or newer`;

/** The version in what `git --version` prints, and whether it is new enough; undefined when there is none. */
export function parseGitVersion(text: string): { version: string; is_new: boolean } | undefined {
  const [, version, ...parts] = /^git version ((\d+)\.(\d+)(?:\.(\d+))?\S*)/.exec(text) ?? [];
  if (version === undefined) return undefined;
  const found = parts.map((part) => Number(part ?? 0));
  const at = MIN_GIT_VERSION.findIndex((least, at) => found[at] !== least);
  return { version, is_new: at < 0 || found[at]! > MIN_GIT_VERSION[at]! };
}
