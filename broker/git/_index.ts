/**
 * A hostile work tree becomes a tree object, through an index of its own.
 *
 * Not `git add`: it would record nested repositories as submodules, which hides their files, ask them for their state,
 * and fail altogether on a name it does not like. Here git lists, this module decides, and git hashes what is chosen.
 * The tree holds regular files, executables and links, and of submodules exactly those that the base has.
 */

import { TaskdError } from "../../lib/errors.ts";
import { lstatIfPresent, removeIfPresent } from "../../lib/fs.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import { hasGitComponent, isUtf8, joinRecords, pathText, type RawPath, splitRecords } from "./_records.ts";
import type { Scan } from "./_scan.ts";
import type { Git, GitRepository, GitRunOptions } from "./git.ts";
import { GITLINK, SYMLINK } from "./file_modes.ts";

export interface BuiltTree {
  tree: string;
  paths: RawPath[];
  /** Paths of the work tree that were left out, because they lie in a `.git` or would be read as one. */
  omitted: RawPath[];
  /** Paths that were left out for their size; what the base has there stays. */
  left_out: RawPath[];
}

const ATTEMPTED = "Cannot collect the changes";
/** Of all new and changed files, by apparent size: holes cost nothing to make, and git reads them like everything. */
const MAX_CHANGED_BYTES = 2 * 2 ** 30;
/** Each costs a process. */
const MAX_NESTED = 64;

/** Writes the tree object of a work tree over `base_commit`. */
export async function buildTree(
  git: Git,
  { git_dir, work_tree, base_commit, scan, run }: {
    git_dir: string;
    work_tree: string;
    base_commit: string;
    scan: Scan;
    run: Omit<GitRunOptions, "attempted" | "repository">;
  },
): Promise<BuiltTree> {
  const repository: GitRepository & { index_file: string } = {
    git_dir,
    work_tree,
    index_file: `${git_dir}/facts.index`,
  };
  const call = async (args: string[], stdin?: Uint8Array) => {
    // With nothing to read there is nothing to do.
    if (stdin?.length === 0) return stdin;
    const options = { ...run, repository, attempted: ATTEMPTED, stdin };
    return (await git.run(args, options)).stdout;
  };
  const special = new Set(scan.special);

  // Left by a run that was killed; only this task's broker works here.
  for (const name of ["index.lock", "facts.index.lock"]) removeIfPresent(`${git_dir}/${name}`);
  // The staged index lends its file times, so that only what changed is read again.
  const from = ["read-tree", "-m", `--index-output=${repository.index_file}`, base_commit];
  await git.run(from, { ...run, repository: { git_dir, work_tree }, attempted: ATTEMPTED });

  const gitlinks = splitRecords(await call(["ls-files", "-s", "-z"])).flatMap(parseStaged)
    .filter(({ mode }) => mode === GITLINK);
  const { gone, changed } = sorted(splitRecords(await call(["diff-files", "--raw", "-z", "--no-renames"])), special);
  const { too_large } = scan;
  const omitted = changed.filter(isRefused).map(({ path }) => path);
  const edited = changed.filter((change) => !isRefused(change) && !too_large.has(change.path)).map(({ path }) => path);
  const no_object = "0".repeat(base_commit.length);
  // Deleted paths go before anything takes their place; submodules go too, so that git never reads one.
  await call(
    ["update-index", "-z", "--index-info"],
    joinRecords([...gone, ...gitlinks.map(({ path }) => path)].map((path) => `0 ${no_object}\t${path}`)),
  );

  const others = await listOthers(git, { ...run, repository, attempted: ATTEMPTED });
  const added = others.filter((path) => !special.has(path) && !too_large.has(path) && !hasGitComponent(path));
  omitted.push(...others.filter(hasGitComponent));
  requireHashable(work_tree, [...edited, ...added], scan);
  await call(["update-index", "--add", "--replace", "-z", "--stdin"], joinRecords([...edited, ...added]));

  const taken = takenPlaces(gitlinks.map(({ path }) => path), added);
  const kept = gitlinks.filter(({ path }) => !taken.has(path));
  await call(
    ["update-index", "-z", "--index-info"],
    joinRecords(kept.map(({ path, oid }) => `${GITLINK} ${oid}\t${path}`)),
  );
  const paths = splitRecords(await call(["ls-files", "-z"]));
  const present = new Set(paths);
  // What git skipped with a warning, such as a link named .gitmodules.
  omitted.push(...added.filter((path) => !present.has(path)));
  const tree = new TextDecoder().decode(await call(["write-tree"])).trim();
  const left_out = [...changed.map(({ path }) => path), ...others].filter((path) => too_large.has(path)).sort();
  return { tree, paths, omitted, left_out };
}

/** U+FFFD, by which a name that has it looks like one that is no UTF-8, as bytes. */
const REPLACEMENT = "\xef\xbf\xbd";

/** Refuses, before git reads one, files that appear too large together. */
function requireHashable(work_tree: string, paths: readonly RawPath[], { unnamed_bytes }: Scan): void {
  let bytes = 0;
  for (const path of paths) {
    // What has a name of its own here is looked at; of the others those are listed that are not small.
    const named = isUtf8(path) && !path.includes(REPLACEMENT);
    bytes += unnamed_bytes.get(path) ?? (named ? lstatIfPresent(`${work_tree}/${pathText(path)}`)?.size ?? 0 : 0);
    if (bytes <= MAX_CHANGED_BYTES) continue;
    throw new TaskdError(
      "too_large",
      `${ATTEMPTED}: more than ${formatBytes(MAX_CHANGED_BYTES)} of files are changed`,
      {
        hint: "Run the task again; what it builds belongs into a .gitignore",
      },
    );
  }
}

function parseStaged(record: string): { mode: string; oid: string; path: RawPath }[] {
  const match = /^(\d{6}) ([0-9a-f]+) \d\t(.*)$/s.exec(record);
  return match === null ? [] : [{ mode: match[1]!, oid: match[2]!, path: match[3]! }];
}

/** Tracked files that are no more, and those that may have other content. */
function sorted(records: RawPath[], special: Set<RawPath>) {
  const gone: RawPath[] = [];
  const changed: { path: RawPath; mode: string }[] = [];
  for (let at = 0; at + 1 < records.length; at += 2) {
    const [, mode = "", , , status] = records[at]!.slice(1).split(" ");
    const path = records[at + 1]!;
    // A nested repository in place of a file: git would record a submodule.
    if (status === "D" || mode === GITLINK || special.has(path)) gone.push(path);
    else changed.push({ path, mode });
  }
  return { gone, changed };
}

/** Git refuses links by this name; the file of the base stays. */
function isRefused({ path, mode }: { path: RawPath; mode: string }): boolean {
  return mode === SYMLINK && /(?:^|\/)\.gitmodules$/i.test(path);
}

/** The submodules whose place is taken by files of the task: at it, below it, or at a folder that it lies in. */
export function takenPlaces(gitlinks: readonly RawPath[], added: readonly RawPath[]): Set<RawPath> {
  const files = new Set(added);
  const links = new Set(gitlinks);
  const longest = gitlinks.reduce((length, link) => Math.max(length, link.length), 0);
  const below = added.flatMap((path) => [...placesOf(path, longest)].filter((place) => links.has(place)));
  return new Set([...below, ...gitlinks.filter((link) => placesOf(link).some((place) => files.has(place)))]);
}

/** A path and the folders that it lies in, those of at most `longest` characters. */
function* placesOf(path: RawPath, longest: number = path.length): Generator<RawPath, void> {
  for (let at = path.length; at > 0; at = path.lastIndexOf("/", at - 1)) if (at <= longest) yield path.slice(0, at);
}

/** Untracked files that no .gitignore excludes, those of nested repositories as plain files. */
async function listOthers(git: Git, options: GitRunOptions & { repository: GitRepository }): Promise<RawPath[]> {
  const { repository } = options;
  const found: RawPath[] = [];
  const pending: RawPath[] = [""];
  for (let nested = 0; pending.length > 0; nested++) {
    const prefix = pending.pop()!;
    if (nested > MAX_NESTED) throw refusedNest(`it has more than ${MAX_NESTED} repositories in it`);
    // One whose name cannot be passed on would be recorded as a submodule, and its files escape review.
    if (!isUtf8(prefix)) throw refusedNest(`it has a repository below ${JSON.stringify(pathText(prefix))}`);
    const inside: GitRepository = prefix === "" ? repository : {
      git_dir: repository.git_dir,
      work_tree: folderOf(repository.work_tree!, pathText(prefix).replace(/\/$/, "")),
      index_file: `${repository.git_dir}/none.index`,
    };
    const { stdout } = await git.run(["ls-files", "-o", "-z", "--exclude-standard"], {
      ...options,
      repository: inside,
    });
    for (const path of splitRecords(stdout)) (path.endsWith("/") ? pending : found).push(`${prefix}${path}`);
  }
  return found;
}

/** A folder of the work tree, which git names: what git has become does not lead elsewhere by it. */
function folderOf(work_tree: string, prefix: string): string {
  let at = work_tree;
  for (const part of prefix.split("/")) {
    at = `${at}/${part}`;
    if (part === "" || part === "." || part === ".." || lstatIfPresent(at)?.isDirectory !== true) {
      throw refusedNest(`git names ${JSON.stringify(prefix)}, which is no folder of it`);
    }
  }
  return at;
}

function refusedNest(why: string): TaskdError {
  return new TaskdError("invalid_request", `${ATTEMPTED} of this work tree: ${why}`, {
    hint: "Run the task again; tell it not to make repositories of its own",
  });
}
