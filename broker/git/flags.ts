/**
 * What a careful reviewer needs to see: one table of categories, and the rules by which a change falls into one.
 *
 * Each category that occurs has to be acknowledged for an approval. The table of names is watched_names.ts.
 */

import { nameOddity } from "../../lib/text/characters.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { contentKind } from "./content_kind.ts";
import type { FileChange } from "./file_change.ts";
import { EXECUTABLE, GITLINK, SYMLINK } from "./file_modes.ts";
import { pathText as utf8 } from "./_records.ts";
import { isCredentials, watchedNames } from "./watched_names.ts";

export const FLAG_CATEGORIES = {
  nested_git: "a repository inside the work tree, or a name that some system reads as .git; left out of the change",
  bare_repository: "a folder that git takes for a repository, with settings and hooks of its own",
  submodule: "a submodule, or the list of them",
  symlink: "a symbolic link is added, changed, replaced or removed",
  special_file: "a pipe, socket or device; left out of the change",
  hard_link: "a file that has another name as well",
  executable_bit: "a file became executable",
  odd_name: "a name that is not what it looks like: unseen characters, mixed alphabets, letters that pose as others",
  case_collision: "a name that differs from another in case alone, or looks like it",
  unscanned: "a directory that could not be looked into",
  left_out: "a file larger than max_file_bytes; left out of the change",
  cut_diff: "what lies beyond the end of the shown diff, and was not read",
  ci_files: "what CI and the code host run",
  deployment: "what is deployed or released, and where",
  review_rules: "who has to review, what scanners leave out, and what the code host may do by itself",
  git_settings: "attributes and ignore lists of git",
  runs_on_open: "what editors, shells, debuggers and hooks run by themselves",
  agent_instructions: "instructions to agents, or which tools they get",
  build_scripts: "what build tools, linters, test runners and containers run",
  dependency_manifest: "which dependencies are asked for, and what package managers run",
  lockfile: "which dependencies are installed",
  vendored: "code of others or generated, which code hosts fold away in their diffs",
  credentials: "a name that is usual for secrets",
  lfs_pointer: "content that stands elsewhere: a pointer of git-lfs is added, changed or removed",
  binary: "content that a diff does not show",
  large_file: "a file of 5 MiB or more",
  deleted_tests: "a test was deleted",
} as const;

export type FlagCategory = keyof typeof FLAG_CATEGORIES;

/** Of what is in the work tree, and in no change. */
export const OUTSIDE_A_CHANGE: ReadonlySet<FlagCategory> = new Set(
  ["nested_git", "special_file", "unscanned", "left_out"],
);

/** One reason for a second look. */
export interface Flag {
  category: FlagCategory;
  /** As in {@linkcode FileChange.path}. */
  path: string;
  /** More on it, safe to show: where a link leads, for example. */
  detail?: string;
}

/** Bytes from which on a file is large: what code hosts begin to warn about, and no source has. */
export const LARGE_FILE_BYTES = 5 << 20;

const TEST =
  /(?:^|\/)(?:tests?|__tests__|spec|specs|testdata)\/|[._-](?:test|spec)\.[a-z0-9]+$|(?:^|\/)test_[^/]*\.py$|_test\.go$/;

/** What is known of the content on one side of a change. */
export interface BlobDetails {
  /** Bytes. */
  size: number;
  /** The first of them: all of a link's target and of a pointer of git-lfs. */
  head: string;
  /** In hex; of links, pointers, binary and large files. */
  sha256?: string;
  lines?: number;
}

/** What is known of a change beyond its {@linkcode FileChange}. */
export interface ChangeDetails {
  before?: BlobDetails;
  after?: BlobDetails;
  /** Names of the file on disk. */
  links?: number;
  /** Another path that differs in case alone, or looks like this one. */
  twin?: string;
  /** Where a removed file has gone, for a person. */
  moved_to?: string;
  /** The folder above that git takes for a repository. */
  bare?: string;
}

/** https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md: a pointer begins so, and has less than 1,024 bytes. */
const LFS_POINTER = /^version https:\/\/(?:git-lfs\.github\.com|hawser\.github\.com)\/spec\//;
export const LFS_POINTER_BYTES = 1_024;

export function flagsOf(change: FileChange, details: ChangeDetails): Flag[] {
  const { path, mode_before, mode_after, status } = change;
  const { before, after } = details;
  const flags: Flag[] = [];
  const flag = (category: FlagCategory, detail?: string) => {
    if (flags.some((known) => known.category === category)) return;
    flags.push({ category, path, ...detail === undefined ? {} : { detail: sanitizeLine(detail) } });
  };
  if (details.bare !== undefined) flag("bare_repository", `in ${details.bare}/`);
  if (mode_before === GITLINK || mode_after === GITLINK) flag("submodule");
  if (mode_before === SYMLINK || mode_after === SYMLINK) flag("symlink", linkDetail(change, details));
  if (mode_after === EXECUTABLE && mode_before !== EXECUTABLE) flag("executable_bit");
  if ((details.links ?? 1) > 1) flag("hard_link", `${details.links} names`);
  const odd = nameOddity(path);
  if (odd !== undefined) flag("odd_name", odd);
  if (details.twin !== undefined) flag("case_collision", details.twin);
  for (const { category, program } of watchedNames(path)) flag(category, program);
  if (change.from !== undefined && isCredentials(change.from.path)) {
    flag("credentials", `${change.from.kind} from ${change.from.path}`);
  }
  const pointers = [before, after].map((blob) => blob === undefined ? undefined : pointerOf(blob));
  if (pointers.some((pointer) => pointer !== undefined)) {
    const [old, now] = [before, after].map((blob, at) => blob === undefined ? "nothing" : pointers[at] ?? "a file");
    flag("lfs_pointer", `${old} -> ${now}`);
  }
  const content = contentDetail(details);
  if (change.binary) flag("binary", content);
  if (Math.max(before?.size ?? 0, after?.size ?? 0) >= LARGE_FILE_BYTES) flag("large_file", content);
  if (status === "deleted" && TEST.test(path.toLowerCase())) flag("deleted_tests", details.moved_to);
  return flags;
}

/** Kind, size and digest of what a diff does not show. */
function contentDetail({ before, after }: ChangeDetails): string | undefined {
  const blob = after ?? before;
  if (blob === undefined) return undefined;
  const digest = blob.sha256 === undefined ? [] : [`SHA-256 ${blob.sha256}`];
  const words = [contentKind(blob.head), formatBytes(blob.size), ...digest].join(", ");
  return after === undefined ? `removed: ${words}` : words;
}

function pointerOf({ head, size }: BlobDetails): string | undefined {
  if (size >= LFS_POINTER_BYTES || !LFS_POINTER.test(head)) return undefined;
  const valueOf = (pattern: RegExp) => head.split("\n").flatMap((line) => pattern.exec(line)?.[1] ?? [])[0];
  const oid = valueOf(/^oid (\S{1,80})$/) ?? "of no known form";
  return `pointer ${oid}, ${valueOf(/^size (\d{1,20})$/) ?? "?"} bytes`;
}

function linkDetail({ path, mode_before, mode_after }: FileChange, { before, after }: ChangeDetails): string {
  const was = mode_before === SYMLINK ? `was a link ${targetText(path, before)}` : "";
  if (mode_after === SYMLINK) return [targetText(path, after), was].filter((part) => part !== "").join("; ");
  return `${was}${after === undefined ? ", is removed" : ", is a file now"}`;
}

function targetText(path: string, blob: BlobDetails | undefined): string {
  const target = utf8(blob?.head ?? "");
  const shown = target.length > 200 ? `${target.slice(0, 200)}...` : target;
  return leavesTree(path, target) ? `to ${shown}, outside of the repository` : `to ${shown}`;
}

function leavesTree(path: string, target: string): boolean {
  if (target.startsWith("/")) return true;
  let depth = path.split("/").length - 1;
  for (const part of target.split("/")) {
    if (part === "..") depth--;
    else if (part !== "." && part !== "") depth++;
    if (depth < 0) return true;
  }
  return false;
}
