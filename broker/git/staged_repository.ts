/**
 * Staging: a repository becomes a git directory that only the host sees, and a work tree that has no `.git`.
 *
 * What is fetched is one commit, checked object by object; what is checked out is its bytes, with no filter, no line
 * ending conversion and no submodule. Of the operator's credentials nothing stays behind.
 */

import { dirname } from "@std/path/dirname";
import { TaskdError } from "../../lib/errors.ts";
import { fileError, writeFileAtomic } from "../../lib/fs.ts";
import { binary } from "./_records.ts";
import type { GitCredentials } from "./credentials.ts";
import type { Git, GitRepository, GitRunOptions } from "./git.ts";
import type { RepoUrl } from "./repo_url.ts";

export interface StageOptions {
  url: RepoUrl;
  /** A branch, a tag or a full commit id; by default the branch that HEAD of the repository names. */
  base?: string;
  /** Absolute path of a directory that does not exist yet; not below `work_tree`, nor the other way round. */
  git_dir: string;
  /** Absolute path of an empty or missing directory. */
  work_tree: string;
  credentials?: GitCredentials;
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

const OID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

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
 * Clones into a fresh git directory and checks out.
 *
 * @throws {TaskdError} As {@linkcode Git.run}; `not_found` when the base does not exist, `invalid_request` when it is no
 * name for one, `already_exists` when there is something at the paths.
 */
export async function stageRepository(git: Git, options: StageOptions): Promise<StagedRepository> {
  const { url, git_dir, work_tree } = options;
  refuseNesting(git_dir, work_tree);
  await git.version();
  const attempted = `Cannot clone ${url.canonical}`;
  const remote = remoteOptions(options, attempted);
  const { target, base_branch } = await resolveBase(git, options, remote);
  await makeDirectories(options);
  const repository = { git_dir };
  await git.run(["init", "--quiet", "--bare", "--template="], { repository, attempted });
  await writeAttributes(git_dir, ATTRIBUTES);
  const text_dir = textRepository(git_dir).git_dir;
  await git.run(["init", "--quiet", "--bare", "--template="], { repository: { git_dir: text_dir }, attempted });
  await writeAttributes(text_dir, TEXT_ATTRIBUTES);
  const alternates = new TextEncoder().encode(`${git_dir}/objects\n`);
  await writeFileAtomic(`${text_dir}/objects/info/alternates`, alternates, 0o600);
  await git.run(
    [
      "fetch",
      "--quiet",
      "--depth=1",
      "--no-tags",
      "--no-write-fetch-head",
      "--",
      url.clone_url,
      `${target}:refs/taskd/base`,
    ],
    { ...remote, repository },
  );
  const base_commit = await git.text(["rev-parse", "--verify", "refs/taskd/base^{commit}"], { repository, attempted });
  await git.run(["read-tree", base_commit], { repository, attempted });
  const tree = { git_dir, work_tree };
  await git.run(["checkout-index", "--all", "--index", "--quiet"], { repository: tree, attempted });
  return { git_dir, work_tree, base_commit, ...base_branch === undefined ? {} : { base_branch } };
}

/** A second view of a staged repository's objects, in which every file is text: for counting lines. */
export function textRepository(git_dir: string): GitRepository {
  return { git_dir: `${git_dir}/text` };
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
    transport: url.transport,
    ...credentials === undefined ? {} : { credentials },
    deadline_ms,
    signal,
  };
}

/** The refs of a repository that have exactly these names, with what they point at. */
export async function listRemote(
  git: Git,
  url: RepoUrl,
  names: readonly string[],
  options: GitRunOptions,
): Promise<{ refs: Map<string, string>; head?: string }> {
  const { stdout } = await git.run(["ls-remote", "--symref", "--", url.clone_url, ...names], options);
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

async function resolveBase(git: Git, { url, base }: StageOptions, options: GitRunOptions) {
  if (base === undefined) {
    const { refs, head } = await listRemote(git, url, ["HEAD"], options);
    if (!refs.has("HEAD")) {
      throw new TaskdError("not_found", `${options.attempted}: it has no commits`, {
        hint: "Push a first commit to it",
      });
    }
    return {
      target: refs.get("HEAD")!,
      ...head === undefined ? {} : { base_branch: head.slice("refs/heads/".length) },
    };
  }
  if (OID.test(base)) return { target: base };
  if (!isRefName(base)) {
    throw new TaskdError("invalid_request", `Cannot take ${JSON.stringify(base.slice(0, 200))} as a base`, {
      hint: "Give a branch, a tag or a full commit id",
    });
  }
  const { refs } = await listRemote(git, url, [`refs/heads/${base}`, `refs/tags/${base}`], options);
  const branch = refs.get(`refs/heads/${base}`);
  if (branch !== undefined) return { target: branch, base_branch: base };
  const tag = refs.get(`refs/tags/${base}`);
  if (tag !== undefined) return { target: tag };
  throw new TaskdError("not_found", `${options.attempted}: it has no branch or tag ${JSON.stringify(base)}`, {
    hint: `\`git ls-remote ${url.clone_url}\` lists what there is`,
  });
}

/** Whether `base` can be one: a branch, a tag or a full commit id. */
export function isBase(base: string): boolean {
  return OID.test(base) || isRefName(base);
}

/** The rules of git-check-ref-format, narrowed: nothing that is an option, a pattern or a revision expression. */
function isRefName(name: string): boolean {
  return name.length <= 200 && /^[A-Za-z0-9_][A-Za-z0-9_./+#@-]*$/.test(name) &&
    !/\.\.|@\{|\/\/|\/\.|\.lock(?:\/|$)|[./]$/.test(name) && name !== "@";
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
  try {
    await Deno.mkdir(work_tree, { recursive: true, mode: 0o700 });
    for await (const { name } of Deno.readDir(work_tree)) {
      throw new TaskdError("already_exists", `${attempted}: ${work_tree} is not empty, it has ${JSON.stringify(name)}`);
    }
    await Deno.mkdir(dirname(git_dir), { recursive: true, mode: 0o700 });
    // What is there may have hooks, a configuration and objects of its own.
    await Deno.mkdir(git_dir, { mode: 0o700 });
  } catch (error) {
    throw fileError(error, attempted);
  }
}
