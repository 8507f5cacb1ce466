/**
 * What is taken of the operator's own configuration of git, for the commands that talk to a remote: how it is reached and
 * who the operator is there. Nothing of it makes git run a program but credential helpers and ssh.
 */

import type { CredentialSources } from "./credentials.ts";
import type { Git } from "./git.ts";
import type { GitSetting } from "./reached_url.ts";

/** In git's form: section and name are in lower case. Redirections stay off, for every address. */
const KEYS = "^(credential\\.(.*\\.)?(helper|usehttppath|username)" +
  "|http\\.(.*\\.)?(proxy[a-z]*|ssl[a-z]+|pinnedpubkey|extraheader|cookiefile|emptyauth|useragent|version)" +
  "|url\\..*\\.(insteadof|pushinsteadof)|core\\.sshcommand|ssh\\.variant)$";

/**
 * Reads the settings of the machine's and the operator's own files, in git's order.
 *
 * @throws {TaskdError} As {@linkcode Git.tryRun}.
 */
export async function readGitSettings(
  git: Git,
  { HOME, XDG_CONFIG_HOME }: CredentialSources["env"],
  signal?: AbortSignal,
): Promise<GitSetting[]> {
  if (HOME === undefined) return [];
  const found: GitSetting[] = [];
  for (const file of ["/etc/gitconfig", `${XDG_CONFIG_HOME || `${HOME}/.config`}/git/config`, `${HOME}/.gitconfig`]) {
    const { stdout } = await git.tryRun(["config", "--file", file, "--includes", "-z", "--get-regexp", KEYS], {
      attempted: `Cannot read ${file}`,
      env: { HOME },
      signal,
    });
    for (const entry of new TextDecoder().decode(stdout).split("\0")) {
      const [key = "", ...value] = entry.split("\n");
      // A key without a value is true.
      if (key !== "") found.push([key, value.length === 0 ? "true" : value.join("\n")]);
    }
  }
  return found;
}
