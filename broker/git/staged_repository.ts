/**
 * Staging: a repository becomes a git directory that only the host sees, and a work tree that has no `.git`.
 *
 * What is fetched is one commit, checked object by object; what is checked out is its bytes, with no filter, no line
 * ending conversion and no submodule. Of the operator's credentials nothing stays behind.
 */

import { dirname } from "@std/path/dirname";
import { TaskdError } from "../../lib/errors.ts";
import { withFileError, writeFileAtomic } from "../../lib/fs.ts";
import { removeTree } from "../../lib/remove_tree.ts";
import { type BaseRef, resolveBase } from "./base_ref.ts";
import type { RawPath } from "./_records.ts";
import { requireTreeSize } from "./_tree_size.ts";
import type { GitCredentials } from "./credentials.ts";
import type { Git, GitRepository, GitRunOptions } from "./git.ts";
import type { Mirrors } from "./mirrors.ts";
import { fetchArguments } from "./remote_refs.ts";
import { requireOwnShape } from "./repository_shape.ts";
import type { RepoUrl } from "./repo_url.ts";

export interface StageOptions {
  url: RepoUrl;
  /** As {@linkcode resolveBase} takes it. */
  base?: string;
  /** Absolute path of a directory that does not exist yet; not below `work_tree`, nor the other way round. */
  git_dir: string;
  /** Absolute path of an empty or missing directory. */
  work_tree: string;
  credentials?: GitCredentials;
  /** Where what was fetched for other tasks is kept; absent when nothing is. */
  mirrors?: Mirrors | undefined;
  deadline_ms?: number | undefined;
  signal?: AbortSignal | undefined;
}

export interface StagedRepository {
  git_dir: string;
  work_tree: string;
  /** Full id of the commit that was checked out. */
  base_commit: string;
  /** The branch that a pull request goes to; absent when the base is a tag or a commit. */
  base_branch?: string;
}

/**
 * Highest precedence of all attributes, so attributes of a work tree or a commit do not count: no filter, no
 * conversion, no `-diff`, no merge driver. `!` takes an attribute back to unspecified, wherever it was set.
 */
const ATTRIBUTES = `* -text !eol !crlf !ident !filter !working-tree-encoding !diff !merge !whitespace \
!export-ignore !export-subst !delta !encoding !conflict-marker-size
`;

/** As {@linkcode ATTRIBUTES}, and all files are text to a diff, whatever they contain. */
const TEXT_ATTRIBUTES = ATTRIBUTES.replace("!diff", "diff");

/**
 * Clones into a fresh git directory and checks out. Where a mirror fails and the code host does not, nothing of the
 * mirror is used, and it is thrown away.
 *
 * @throws {TaskdError} As {@linkcode Git.run}; `not_found` when the base does not exist, `invalid_request` when it is no
 * name for one, `already_exists` when there is something at the paths.
 */
export async function stageRepository(git: Git, options: StageOptions): Promise<StagedRepository> {
  const { url, git_dir, work_tree, mirrors, signal } = options;
  refuseNesting(git_dir, work_tree);
  await git.version();
  const attempted = `Cannot clone ${url.canonical}`;
  const remote = remoteOptions(options, attempted);
  const scratch_dir = `${git_dir}.base`;
  const base = await resolveBase(git, { url, base: options.base, scratch_dir, remote });
  await makeDirectories(options);
  if (mirrors === undefined) return await fill(git, options, { ...base, remote });
  try {
    return await fill(git, options, { ...base, remote, mirrors });
  } catch (error) {
    if (signal?.aborted === true || !(error instanceof TaskdError)) throw error;
    await removeTree(git_dir);
    await removeTree(work_tree);
    await makeDirectories(options);
    const staged = await fill(git, options, { ...base, remote });
    // What the code host gives and the mirror does not is for the mirror to answer.
    await mirrors.discard(url, error.message);
    return staged;
  }
}

type FillOptions = BaseRef & { remote: GitRunOptions; mirrors?: Mirrors };

/** Fetches, through a mirror where one is given, and checks out. */
async function fill(
  git: Git,
  { url, git_dir, work_tree, signal, deadline_ms }: StageOptions,
  { target, base_branch, remote, mirrors }: FillOptions,
): Promise<StagedRepository> {
  const { attempted } = remote;
  const repository = { git_dir };
  const run = { repository, attempted, signal, deadline_ms };
  await git.run(["init", "--quiet", "--bare", "--template="], run);
  await writeAttributes(git_dir, ATTRIBUTES);
  const text_dir = textRepository(git_dir).git_dir;
  await Deno.mkdir(text_dir, { mode: 0o700 });
  await git.run(["init", "--quiet", "--bare", "--template="], { ...run, repository: { git_dir: text_dir } });
  await writeAttributes(text_dir, TEXT_ATTRIBUTES);
  const alternates = new TextEncoder().encode(`${git_dir}/objects\n`);
  await writeFileAtomic(`${text_dir}/objects/info/alternates`, alternates, 0o600);
  if (mirrors !== undefined) await mirrors.fetch(git, { url, target, git_dir, remote });
  else await git.run(fetchArguments(url, "--depth=1", `${target}:refs/taskd/base`), { ...remote, repository });
  const base_commit = await git.text(["rev-parse", "--verify", "refs/taskd/base^{commit}"], run);
  await requireTreeSize(git, base_commit, run);
  await git.run(["read-tree", base_commit], run);
  const tree = { git_dir, work_tree };
  await git.run(["checkout-index", "--all", "--index", "--quiet"], {
    ...run,
    repository: tree,
    checks_out: true,
  });
  return { git_dir, work_tree, base_commit, ...base_branch === undefined ? {} : { base_branch } };
}

/** A second view of a staged repository's objects, in which every file is text: for counting lines. */
export function textRepository(git_dir: string): GitRepository {
  return { git_dir: `${git_dir}/text`, borrows: `${git_dir}/objects` };
}

/** Has every comparison in a staged repository take these files for binary. */
export async function takeForBinary(git_dir: string, paths: readonly RawPath[]): Promise<void> {
  // A pattern in the quotes of C: what means more than itself in a pattern has a backslash before it.
  const quote = (path: RawPath) =>
    path.replace(/[^\w/.-]/g, (char) => `${/[*?[\\]/.test(char) ? "\\\\" : ""}\\${octal(char)}`);
  const lines = paths.map((path) => `"/${quote(path)}" -diff\n`).join("");
  requireOwnShape(git_dir, "Cannot write attributes");
  await writeAttributes(git_dir, ATTRIBUTES + lines);
  await writeAttributes(textRepository(git_dir).git_dir, TEXT_ATTRIBUTES + lines);
}

function octal(char: string): string {
  return char.charCodeAt(0).toString(8).padStart(3, "0");
}

async function writeAttributes(git_dir: string, text: string): Promise<void> {
  await Deno.mkdir(`${git_dir}/info`, { recursive: true, mode: 0o700 });
  await writeFileAtomic(`${git_dir}/info/attributes`, new TextEncoder().encode(text), 0o600);
}

export function remoteOptions(
  { url, credentials, deadline_ms, signal }: Pick<StageOptions, "url" | "credentials" | "deadline_ms" | "signal">,
  attempted: string,
): GitRunOptions {
  return {
    attempted,
    remote: url,
    ...credentials === undefined ? {} : { credentials },
    deadline_ms,
    signal,
  };
}

function refuseNesting(git_dir: string, work_tree: string): void {
  const [git, work] = [`${git_dir}/`, `${work_tree}/`];
  if (!git.startsWith("/") || !work.startsWith("/") || git.startsWith(work) || work.startsWith(git)) {
    throw new TaskdError(
      "internal",
      `Cannot stage: ${git_dir} and ${work_tree} must be apart, a sandbox sees the latter`,
    );
  }
}

async function makeDirectories({ git_dir, work_tree, url }: StageOptions): Promise<void> {
  const attempted = `Cannot clone ${url.canonical}`;
  await withFileError(attempted, async () => {
    await Deno.mkdir(work_tree, { recursive: true, mode: 0o700 });
    for await (const { name } of Deno.readDir(work_tree)) {
      throw new TaskdError("already_exists", `${attempted}: ${work_tree} is not empty, it has ${JSON.stringify(name)}`);
    }
    await Deno.mkdir(dirname(git_dir), { recursive: true, mode: 0o700 });
    // What is there may have hooks, a configuration and objects of its own.
    await Deno.mkdir(git_dir, { mode: 0o700 });
  });
}
