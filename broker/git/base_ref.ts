/**
 * What a task's `--base` means on the code host: a branch, a tag, a full name of either, a commit id, whole or the
 * beginning of one; without a base what HEAD names.
 */

import { TaskdError } from "../../lib/errors.ts";
import { fileError } from "../../lib/fs.ts";
import { removeTree } from "../../lib/remove_tree.ts";
import { binary } from "./_records.ts";
import type { Git, GitRunOptions } from "./git.ts";
import type { RepoUrl } from "./repo_url.ts";
import { LIST_LIMITS, listRemote, OID } from "./remote_refs.ts";

/** As many digits as git itself shows of a commit at least. */
const SHORT_OID = /^[0-9a-f]{7,63}$/;
/** Branches that a message names. */
const MAX_NAMED = 10;

export interface BaseRef {
  /** What is fetched. */
  target: string;
  /** The branch that a pull request goes to. */
  base_branch?: string;
}

export interface BaseRefOptions {
  url: RepoUrl;
  base: string | undefined;
  /** Absolute path of a directory that does not exist; it is gone again afterwards. */
  scratch_dir: string;
  /** For calls of the code host. */
  remote: GitRunOptions;
}

/** @throws {TaskdError} `not_found`, `invalid_request`, and as {@linkcode Git.run}. */
export async function resolveBase(git: Git, options: BaseRefOptions): Promise<BaseRef> {
  const { url, base, remote } = options;
  if (base === undefined) return await headOf(git, url, remote);
  if (OID.test(base)) return { target: base };
  if (!isRefName(base)) {
    throw new TaskdError("invalid_request", `Cannot take ${JSON.stringify(base.slice(0, 200))} as a base`, {
      hint: "Give a branch, a tag or a commit id",
    });
  }
  const names = [`refs/heads/${base}`, `refs/tags/${base}`, ...base.startsWith("refs/") ? [base] : []];
  const { refs } = await listRemote(git, url, names, remote);
  for (const name of names) {
    const target = refs.get(name);
    if (target === undefined) continue;
    return name.startsWith("refs/heads/") ? { target, base_branch: branchName(name) } : { target };
  }
  const commit = SHORT_OID.test(base) ? await commitOf(git, base, options) : undefined;
  if (commit !== undefined) return { target: commit };
  throw new TaskdError("not_found", `${remote.attempted}: it has no branch, tag or commit ${JSON.stringify(base)}`, {
    hint: `\`git ls-remote ${url.clone_url}\` lists branches and tags`,
  });
}

async function headOf(git: Git, url: RepoUrl, remote: GitRunOptions): Promise<BaseRef> {
  const { refs, head } = await listRemote(git, url, ["HEAD"], remote);
  const target = refs.get("HEAD");
  if (target !== undefined) return head === undefined ? { target } : { target, base_branch: branchName(head) };
  const { stdout } = await git.run(["ls-remote", "--heads", "--", url.clone_url], {
    ...remote,
    limits: LIST_LIMITS,
  });
  const branches = binary(stdout).split("\n").flatMap((line) => line.split("\trefs/heads/")[1] ?? []);
  if (branches.length === 0) {
    throw new TaskdError("not_found", `${remote.attempted}: it has no commits`, { hint: "Push a first commit to it" });
  }
  const named = branches.slice(0, MAX_NAMED).join(", ") + (branches.length > MAX_NAMED ? ", ..." : "");
  throw new TaskdError("not_found", `${remote.attempted}: its HEAD names a branch without commits; it has ${named}`, {
    hint: "Say which with --base, or set the default branch on the code host",
  });
}

function branchName(ref: string): string {
  return ref.slice("refs/heads/".length);
}

/** The commit whose id begins so: code hosts take whole ids alone, so it is looked for among those of all branches. */
async function commitOf(git: Git, short: string, { url, scratch_dir, remote }: BaseRefOptions) {
  const { attempted, deadline_ms, signal } = remote;
  const run = { attempted, deadline_ms, signal, repository: { git_dir: scratch_dir } };
  try {
    await Deno.mkdir(scratch_dir, { recursive: true, mode: 0o700 });
    await git.run(["init", "--quiet", "--bare", "--template="], run);
    await git.run(
      // Commits alone, where the host can do that. Nothing of them is used but their ids.
      ["fetch", "--quiet", "--filter=tree:0", "--no-tags", "--", url.clone_url, "refs/heads/*:refs/heads/*"],
      {
        ...remote,
        config: ["transfer.fsckObjects=false", "fetch.fsckObjects=false"],
        repository: { git_dir: scratch_dir },
      },
    );
    const { code, stdout, stderr } = await git.tryRun(["rev-parse", "--verify", `${short}^{commit}`], run);
    if (code === 0) return binary(stdout).trim();
    if (!stderr.includes("is ambiguous")) return undefined;
    throw new TaskdError("invalid_request", `${attempted}: several commits begin with ${short}`, {
      hint: "Give more of its id",
    });
  } catch (error) {
    throw fileError(error, attempted);
  } finally {
    await removeTree(scratch_dir);
  }
}

/** Whether `base` can be one: a branch, a tag or a commit id. */
export function isBase(base: string): boolean {
  return OID.test(base) || isRefName(base);
}

/** The rules of git-check-ref-format, narrowed: nothing that is an option, a pattern or a revision expression. */
function isRefName(name: string): boolean {
  return name.length <= 200 && /^[A-Za-z0-9_][A-Za-z0-9_./+#@-]*$/.test(name) &&
    !/\.\.|@\{|\/\/|\/\.|\.lock(?:\/|$)|[./]$/.test(name) && name !== "@";
}
