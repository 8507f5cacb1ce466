import { assertEquals } from "@std/assert";
import type { DiffFacts } from "./diff_facts.ts";
import type { FileChange } from "./file_change.ts";
import type { Flag } from "./flags.ts";
import { type DiffPolicy, evaluateDiffPolicy } from "./diff_policy.ts";

const OPEN: DiffPolicy = { max_files_changed: 0, max_lines_changed: 0, blocked_paths: [], second_look_paths: [] };

function facts(files: Partial<FileChange>[], flags: Flag[] = []): DiffFacts {
  const whole = files.map((file): FileChange => ({
    path: "a",
    status: "modified",
    mode_before: "100644",
    mode_after: "100644",
    oid_before: "1",
    oid_after: "2",
    added: 1,
    deleted: 0,
    binary: false,
    ...file,
  }));
  const lines_changed = whole.reduce((sum, { added, deleted }) => sum + added + deleted, 0);
  const ids = { base_commit: "c", base_tree: "t", tree: "u", change_sha256: "d" };
  return { ...ids, files: whole, files_changed: whole.length, lines_changed, flags };
}

// conformance: b2.diff_policy.max_files_changed b2.diff_policy.max_lines_changed
Deno.test("caps block above their number, and 0 is no cap", () => {
  const change = facts([{ added: 3, deleted: 2 }, { path: "b" }]);
  assertEquals(evaluateDiffPolicy(OPEN, change).blocked, []);
  assertEquals(evaluateDiffPolicy({ ...OPEN, max_files_changed: 2, max_lines_changed: 6 }, change).blocked, []);
  assertEquals(evaluateDiffPolicy({ ...OPEN, max_files_changed: 1, max_lines_changed: 5 }, change).blocked, [
    {
      rule: "max_files_changed",
      limit: 1,
      found: 2,
      message: "2 files changed, and max_files_changed is 1",
    },
    {
      rule: "max_lines_changed",
      limit: 5,
      found: 6,
      message: "6 lines added and deleted, and max_lines_changed is 5",
    },
  ]);
});

Deno.test("a cap that a rename meets goes by both paths, and says so", () => {
  const from = { kind: "renamed", path: "old.ts", similarity: 98 } as const;
  const copy = { kind: "copied", path: "kept.ts", similarity: 100 } as const;
  const change = facts([
    { path: "new.ts", status: "added", added: 100, from },
    { path: "old.ts", status: "deleted", added: 0, deleted: 101 },
    { path: "other.ts", status: "added", added: 7, from: copy },
    { path: "kept.ts", added: 1 },
  ]);
  const policy = { ...OPEN, max_files_changed: 3, max_lines_changed: 200, blocked_paths: ["old.ts"] };
  assertEquals(evaluateDiffPolicy(policy, change).blocked.map(({ message }) => message), [
    "4 files changed, and max_files_changed is 3; 3 of the files are of 2 renames and copies, which count as removals " +
    "and additions",
    "209 lines added and deleted, and max_lines_changed is 200; 208 of the lines are of 2 renames and copies, which " +
    "count as removals and additions",
    "1 changed path matches old.ts",
  ]);
});

// conformance: b2.diff_policy.blocked_paths
Deno.test("a blocked path blocks however it is touched", () => {
  const policy = { ...OPEN, blocked_paths: ["infra/**", "**/*.pem"] };
  const rules = (files: Partial<FileChange>[]) =>
    evaluateDiffPolicy(policy, facts(files)).blocked.map((violation) =>
      violation.rule === "blocked_paths" ? [violation.glob, violation.paths] : []
    );
  assertEquals(rules([{ path: "src/a" }]), []);
  assertEquals(rules([{ path: "infra/x", status: "deleted", mode_after: "000000" }]), [["infra/**", ["infra/x"]]]);
  assertEquals(rules([{ path: "infra/a.pem" }]), [["infra/**", ["infra/a.pem"]], ["**/*.pem", ["infra/a.pem"]]]);
  assertEquals(rules([{ path: "infra", mode_after: "120000" }]), [["infra/**", ["infra"]]]);
  assertEquals(rules([{ path: "infra", mode_after: "160000" }]), [["infra/**", ["infra"]]]);
  assertEquals(rules([{ path: "infra", mode_after: "100644" }]), []);
});

Deno.test("flags and second looks have the names that an approval has to give", () => {
  const change = facts([{ path: "db/1.sql" }, { path: "bin" }], [
    { category: "binary", path: "bin" },
    { category: "ci_files", path: "x" },
    { category: "binary", path: "img" },
  ]);
  const { second_look } = evaluateDiffPolicy({ ...OPEN, second_look_paths: ["db/**", "db/**", "none/**"] }, change);
  assertEquals(second_look.map(({ category, paths }) => [category, paths]), [
    ["ci_files", ["x"]],
    ["binary", ["bin", "img"]],
    ["path:db/**", ["db/1.sql"]],
  ]);
});
