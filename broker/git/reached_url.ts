/**
 * Where a repository is reached that the operator's `url.<base>.insteadOf` moves. The rules are applied here, and what they
 * make is held to {@linkcode parseRepo}: so one transport stays open, with its own credentials alone.
 */

import { TaskdError } from "../../lib/errors.ts";
import { parseRepo, type RepoUrl } from "./repo_url.ts";

/** A setting of git's, such as `credential.helper`; section and name are in lower case. */
export type GitSetting = readonly [key: string, value: string];

/**
 * A repository at the address that the operator's `url.<base>.insteadOf` makes of its own; its name stays. Of all rules
 * the one that matches most counts; to push, those of `pushInsteadOf` go first.
 *
 * @throws {TaskdError} `invalid_request` when that is no address which {@linkcode parseRepo} takes.
 */
export function reachedUrl(url: RepoUrl, settings: readonly GitSetting[], way: "fetch" | "push"): RepoUrl {
  // As git has ssh's addresses, too: user@host:path.
  const spellings = [url.clone_url, url.clone_url.replace(/^ssh:\/\/([^/:]+)\//, "$1:")];
  for (const name of way === "push" ? ["pushinsteadof", "insteadof"] : ["insteadof"]) {
    let [longest, address] = [0, ""];
    for (const [key, start] of settings) {
      const base = key.startsWith("url.") && key.endsWith(`.${name}`) ? key.slice(4, -name.length - 1) : undefined;
      const spelling = spellings.find((spelling) => spelling.startsWith(start));
      if (base === undefined || spelling === undefined || start.length <= longest) continue;
      [longest, address] = [start.length, base + spelling.slice(start.length)];
    }
    if (longest > 0) return { ...url, ...placeOf(address, url) };
  }
  return url;
}

function placeOf(address: string, { canonical }: RepoUrl): Pick<RepoUrl, "transport" | "clone_url" | "host"> {
  try {
    const { transport, clone_url, host } = parseRepo(address);
    return { transport, clone_url, host };
  } catch (error) {
    if (!(error instanceof TaskdError)) throw error;
    throw new TaskdError(error.code, error.message, {
      hint: `Your configuration of git makes this of ${canonical} by insteadOf; a login belongs to a credential helper`,
    });
  }
}
