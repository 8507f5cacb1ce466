/**
 * The diff policy: what fails a task, and what its approver has to acknowledge. Decided on facts that the broker
 * established itself, never on a task's claims.
 */

import type { DiffFacts } from "./diff_facts.ts";
import type { FileChange } from "./file_change.ts";
import { FLAG_CATEGORIES, type FlagCategory } from "./flags.ts";
import { compileGlob } from "./glob.ts";
import { GITLINK, SYMLINK } from "./file_modes.ts";
import { plural } from "../../lib/text/plural.ts";

/** The `diff_policy` block of config.yaml. */
export interface DiffPolicy {
  /** 0 is no cap. */
  max_files_changed: number;
  /** Added and deleted lines together; 0 is no cap. */
  max_lines_changed: number;
  /** Globs; touching a match fails the task. */
  blocked_paths: readonly string[];
  /** Globs; a match has to be acknowledged. */
  second_look_paths: readonly string[];
}

export type Violation =
  | { rule: "max_files_changed" | "max_lines_changed"; limit: number; found: number; message: string }
  | { rule: "blocked_paths"; glob: string; paths: string[]; found: number; message: string }
  /** Of a profile, on a database. */
  | { rule: "checks"; check: string; message: string };

/** What has to be acknowledged by its name. */
export interface SecondLook {
  /** A category of flags, or `path:` and the glob of `second_look_paths`. */
  category: FlagCategory | `path:${string}`;
  reason: string;
  paths: string[];
}

export interface PolicyVerdict {
  /** Any of these fails the task. */
  blocked: Violation[];
  /** What an approval has to name, in a stable order. */
  second_look: SecondLook[];
}

/** Paths that a violation lists; `found` has their number. */
const MAX_LISTED = 100;
/** Links and submodules, which stand for a whole directory. */
const STANDS_FOR_MORE = new Set<string>([SYMLINK, GITLINK]);

export function evaluateDiffPolicy(policy: DiffPolicy, facts: DiffFacts): PolicyVerdict {
  const { max_files_changed, max_lines_changed } = policy;
  const blocked: Violation[] = [
    ...over("max_files_changed", max_files_changed, facts.files_changed, "files changed", facts),
    ...over("max_lines_changed", max_lines_changed, facts.lines_changed, "lines added and deleted", facts),
  ];
  for (const glob of policy.blocked_paths) {
    const paths = touched(glob, facts);
    if (paths.length === 0) continue;
    const message = `${paths.length} changed ${paths.length === 1 ? "path matches" : "paths match"} ${glob}`;
    blocked.push({ rule: "blocked_paths", glob, paths: paths.slice(0, MAX_LISTED), found: paths.length, message });
  }
  return { blocked, second_look: [...flagged(facts), ...secondLooks(policy, facts)] };
}

function over(
  rule: "max_files_changed" | "max_lines_changed",
  limit: number,
  found: number,
  what: string,
  facts: DiffFacts,
): Violation[] {
  if (limit === 0 || found <= limit) return [];
  return [{ rule, limit, found, message: `${found} ${what}, and ${rule} is ${limit}${movesText(rule, facts)}` }];
}

/** What renames and copies have added to a count. */
function movesText(rule: string, { files }: DiffFacts): string {
  const moved = files.filter(({ from }) => from !== undefined);
  if (moved.length === 0) return "";
  const renamed = new Set(moved.flatMap(({ from }) => from!.kind === "renamed" ? [from!.path] : []));
  const counted = [...moved, ...files.filter(({ path, status }) => status === "deleted" && renamed.has(path))];
  const lines = counted.reduce((sum, { added, deleted }) => sum + added + deleted, 0);
  const share = rule === "max_lines_changed" ? `${lines} of the lines are` : `${counted.length} of the files are`;
  return `; ${share} of ${plural(moved.length, "rename")} and copies, which count as removals and additions`;
}

function touched(glob: string, { files }: DiffFacts): string[] {
  const matches = compileGlob(glob);
  return files.filter((file) => touches(matches, file)).map(({ path }) => path);
}

/** A link in place of a directory changes what lies below: `dir/**` covers it. */
function touches(matches: (path: string) => boolean, { path, mode_before, mode_after }: FileChange): boolean {
  if (matches(path)) return true;
  const standsForMore = STANDS_FOR_MORE.has(mode_before) || STANDS_FOR_MORE.has(mode_after);
  return standsForMore && matches(`${path}/any`);
}

function flagged({ flags }: DiffFacts): SecondLook[] {
  const found: SecondLook[] = [];
  for (const [category, reason] of Object.entries(FLAG_CATEGORIES) as [FlagCategory, string][]) {
    const paths = flags.filter((flag) => flag.category === category).map(({ path }) => path);
    if (paths.length > 0) found.push({ category, reason, paths });
  }
  return found;
}

function secondLooks(policy: DiffPolicy, facts: DiffFacts): SecondLook[] {
  return [...new Set(policy.second_look_paths)].flatMap((glob) => {
    const paths = touched(glob, facts);
    if (paths.length === 0) return [];
    return [{ category: `path:${glob}` as const, reason: `second_look_paths has ${glob}`, paths }];
  });
}
