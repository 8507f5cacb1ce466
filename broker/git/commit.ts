/**
 * The commit that is pushed: it has the approved tree, or it is not made.
 */

import { createHash } from "node:crypto";
import { TaskdError } from "../../lib/errors.ts";
import type { Git } from "./git.ts";

export interface CommitOptions {
  git_dir: string;
  /** The tree that was approved. */
  tree: string;
  /** Its only parent. */
  base_commit: string;
  message: string;
  /** Wall-clock milliseconds since 1970. */
  at_ms: number;
  signal?: AbortSignal | undefined;
}

const ATTEMPTED = "Cannot commit the changes";
/** Author and committer: the broker, because no person has written the change. */
const [NAME, EMAIL] = ["taskd", "agent@taskd.invalid"];

/**
 * Makes a commit object; no branch moves.
 *
 * @throws {TaskdError} `corrupt` when the commit does not have exactly that tree and parent.
 */
export async function commitTree(git: Git, options: CommitOptions): Promise<string> {
  const { git_dir, tree, base_commit, message, at_ms, signal } = options;
  const run = { repository: { git_dir }, attempted: ATTEMPTED, signal };
  const date = `@${seconds(at_ms)} +0000`;
  const commit = await git.text(["commit-tree", tree, "-p", base_commit, "-F", "-"], {
    ...run,
    stdin: new TextEncoder().encode(plain(message)),
    env: {
      GIT_AUTHOR_NAME: NAME,
      GIT_AUTHOR_EMAIL: EMAIL,
      GIT_AUTHOR_DATE: date,
      GIT_COMMITTER_NAME: NAME,
      GIT_COMMITTER_EMAIL: EMAIL,
      GIT_COMMITTER_DATE: date,
    },
  });
  await verifyCommit(git, { git_dir, commit, tree, base_commit, signal });
  return commit;
}

/**
 * Holds a commit to what was approved; before every push, also one that is resumed after a crash.
 *
 * @throws {TaskdError} `corrupt` when it has another tree, or another parent.
 */
export async function verifyCommit(
  git: Git,
  { git_dir, commit, tree, base_commit, signal }:
    & Pick<CommitOptions, "git_dir" | "tree" | "base_commit" | "signal">
    & { commit: string },
): Promise<void> {
  const found = await git.text(["show", "-s", "--no-show-signature", "--format=%T %P", commit, "--"], {
    repository: { git_dir },
    attempted: "Cannot read the commit",
    signal,
  });
  if (found === `${tree} ${base_commit}`) return;
  throw new TaskdError("corrupt", `Cannot push ${commit}: it is not the approved change`, {
    hint: "Approve the present change, or deny it",
  });
}

/** The id of the commit that {@linkcode commitTree} makes of the same, without a repository. */
export function commitId(
  { tree, base_commit, message, at_ms }: Pick<CommitOptions, "tree" | "base_commit" | "message" | "at_ms">,
): string {
  const person = `${NAME} <${EMAIL}> ${seconds(at_ms)} +0000`;
  const head = `tree ${tree}\nparent ${base_commit}\nauthor ${person}\ncommitter ${person}\n\n`;
  const content = new TextEncoder().encode(head + plain(message));
  // Ids of git are as long as its digest: 160 or 256 bits.
  return createHash(tree.length === 40 ? "sha1" : "sha256").update(`commit ${content.length}\0`).update(content)
    .digest("hex");
}

function seconds(at_ms: number): number {
  return Math.floor(at_ms / 1_000);
}

/** A commit ends at a NUL to many readers. */
function plain(message: string): string {
  return message.replaceAll("\0", "").toWellFormed();
}
