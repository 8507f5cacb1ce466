/**
 * The commit that is pushed: it has the approved tree, or it is not made.
 */

import { TaskdError } from "../../lib/errors.ts";
import type { Git } from "./git.ts";

export interface CommitOptions {
  git_dir: string;
  /** The tree that was approved. */
  tree: string;
  /** Its only parent. */
  base_commit: string;
  message: string;
  name: string;
  email: string;
  /** Wall-clock milliseconds since 1970. */
  at_ms: number;
  signal?: AbortSignal | undefined;
}

const ATTEMPTED = "Cannot commit the changes";

/**
 * Makes a commit object; no branch moves.
 *
 * @throws {TaskdError} `corrupt` when the commit does not have exactly that tree and parent.
 */
export async function commitTree(git: Git, options: CommitOptions): Promise<string> {
  const { git_dir, tree, base_commit, message, at_ms, signal } = options;
  const run = { repository: { git_dir }, attempted: ATTEMPTED, signal };
  const [name, email] = [identity(options.name), identity(options.email)];
  const date = `@${Math.floor(at_ms / 1_000)} +0000`;
  const commit = await git.text(["commit-tree", tree, "-p", base_commit, "-F", "-"], {
    ...run,
    // A commit ends at a NUL to many readers.
    stdin: new TextEncoder().encode(message.replaceAll("\0", "").toWellFormed()),
    env: {
      GIT_AUTHOR_NAME: name,
      GIT_AUTHOR_EMAIL: email,
      GIT_AUTHOR_DATE: date,
      GIT_COMMITTER_NAME: name,
      GIT_COMMITTER_EMAIL: email,
      GIT_COMMITTER_DATE: date,
    },
  });
  await verifyCommit(git, { git_dir, commit, tree, base_commit });
  return commit;
}

/**
 * Holds a commit to what was approved; before every push, also one that is resumed after a crash.
 *
 * @throws {TaskdError} `corrupt` when it has another tree, or another parent.
 */
export async function verifyCommit(
  git: Git,
  { git_dir, commit, tree, base_commit }: Pick<CommitOptions, "git_dir" | "tree" | "base_commit"> & { commit: string },
): Promise<void> {
  const found = await git.text(["show", "-s", "--no-show-signature", "--format=%T %P", commit, "--"], {
    repository: { git_dir },
    attempted: "Cannot read the commit",
  });
  if (found === `${tree} ${base_commit}`) return;
  throw new TaskdError("corrupt", `Cannot push ${commit}: it is not the approved change`, {
    hint: "Approve the present change, or deny it",
  });
}

/** Removes control characters and angle brackets, at which git would cut a name. */
function identity(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replace(/[\u0000-\u001f\u007f<>]/g, "").trim() || "taskd";
}
