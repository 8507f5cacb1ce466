import { assert, assertEquals, assertMatch } from "@std/assert";
import { type BriefInput, buildBrief, MAX_FILES, renderBrief, unreadData } from "./brief.ts";
import type { BriefDatabase } from "./database_schema.ts";
import type { DiffFacts } from "../git/diff_facts.ts";
import type { FileChange } from "../git/file_change.ts";
import { evaluateDiffPolicy } from "../git/diff_policy.ts";

const FILE: FileChange = {
  path: "src/a.ts",
  status: "modified",
  mode_before: "100644",
  mode_after: "100644",
  oid_before: "1",
  oid_after: "2",
  added: 3,
  deleted: 1,
  binary: false,
};
const FACTS: DiffFacts = {
  base_commit: "b".repeat(40),
  base_tree: "1".repeat(40),
  tree: "2".repeat(40),
  files: [FILE],
  files_changed: 1,
  lines_changed: 4,
  change_sha256: "d".repeat(64),
  flags: [{ category: "symlink", path: "link", detail: "to /etc, outside of the repository" }],
};
const POLICY = { max_files_changed: 0, max_lines_changed: 3, blocked_paths: [], second_look_paths: ["src/**"] };
const WHOLE: BriefInput = {
  task_id: "t1",
  instruction: "Fix it",
  repo: "github.com/acme/app",
  base_commit: FACTS.base_commit,
  runtime: "podman",
  image: "taskd-sandbox:latest",
  image_digest: `sha256:${"e".repeat(64)}`,
  agent: "agent_a",
  model: "m-1",
  policy_hash: "f".repeat(64),
  budget_usd: 2,
  spend: { usd: 0.1234, requests: 3, unmetered_requests: 0, input_tokens: 10, output_tokens: 5, priced: true },
  facts: FACTS,
  verdict: evaluateDiffPolicy(POLICY, FACTS),
  setup: {
    commands: [
      { phase: "setup", command: ["npm", "ci"], status: "passed", exit_code: 0, duration_ms: 61_000 },
      { phase: "readiness", command: ["sh", "-c", "make test"], status: "passed", exit_code: 0, duration_ms: 900 },
    ],
    cache: { participation: "hit", key_prefix: "0123abcd" },
  },
};

// conformance: b2.profiles.evidence b2.cache.brief
Deno.test("a brief lists what was established, what to look at twice, and what not", () => {
  assertEquals(
    renderBrief(buildBrief(WHOLE)),
    `task         t1
instruction  SHA-256 8c6c8d92dfc9629db098a304705ff137117450bb551fa3021149b83a0bf4e2fa
repository   github.com/acme/app
base commit  ${"b".repeat(40)}
sandbox      podman
image        taskd-sandbox:latest sha256:${"e".repeat(64)}
agent        agent_a
model        m-1
policy       ${"f".repeat(64)}
budget       $2.00
spent        $0.1234 in 3 requests
tree         2222222222222222222222222222222222222222

changed: 1 file, 4 lines
  modified     +3 -1  src/a.ts

refused by the diff policy:
  4 lines added and deleted, and max_lines_changed is 3

look twice, symlink: a symbolic link is added, changed, replaced or removed
  link (to /etc, outside of the repository)

look twice, path:src/**: second_look_paths has src/**
  src/a.ts

setup, cache hit 0123abcd:
  setup passed (exit code 0) in 1m 1s: npm ci
  readiness passed (exit code 0) in 900ms: sh -c "make test"

not established:
  whether the result builds or passes its tests: the broker runs nothing of it
`,
  );
});

Deno.test("whatever is absent is listed as missing, and never shown as if it were nothing", () => {
  const { missing_evidence, ...brief } = buildBrief({ task_id: "t1", instruction: "", repo: "r", agent: "agent_a" });
  assertEquals(missing_evidence, [
    "the commit that the work started from",
    "the image that the task ran in",
    "which model did the work: the agent chose",
    "the settings under which the task ran",
    "what the task has spent",
    "what the task has changed",
    "whether the repository was in order before the agent began: its profile has no readiness commands",
    "whether the result builds or passes its tests: the broker runs nothing of it",
  ]);
  assertEquals([brief.spend, brief.diff, brief.budget_usd, brief.base_commit], [null, null, null, null]);
  const text = renderBrief({ ...brief, missing_evidence });
  assert(!text.includes("$0.00") && text.includes("spent        not known"), text);
});

Deno.test("a brief shows spend of which nothing is known as unmetered, not as an amount", () => {
  const spend = { ...WHOLE.spend!, usd: 0, requests: 2, unmetered_requests: 2, priced: false };
  assertMatch(renderBrief(buildBrief({ ...WHOLE, spend })), /spent +unmetered, 2 requests/);
});

Deno.test("briefs of earlier versions keep what they said of tables", () => {
  const table = { table: "docs", change: "changed", rows_added: 1, rows_removed: 0, rows_changed: 0 } as const;
  const database = { db: "shop", base: "main", changed: true, more_tables: 0, more_schema: 0, other_changes: false };
  const tables = [{ ...table, storage_rows: 7 }, { ...table, change: "schema" as const, storage_rows: 2 }, table];
  const brief = buildBrief({ ...WHOLE, databases: [{ ...database, tables, schema: [] }] });
  assertEquals(brief.flags.find(({ category }) => category === "database")?.paths.map(({ detail }) => detail), [
    "rows: 1 added, 0 changed, 0 removed; 7 in the tables of its full-text index",
    "other columns: rows are not compared; 2 in the tables of its full-text index",
    "rows: 1 added, 0 changed, 0 removed",
  ]);
});

Deno.test("what a brief does not show of databases is named, each with its number", () => {
  const table = (name: string, rows_changed: number, shown = 0): BriefDatabase["tables"][number] => ({
    table: name,
    change: "changed",
    rows_added: 0,
    rows_removed: 0,
    rows_changed,
    rows: Array.from({ length: shown }, (_, id) => ({ change: "changed", key: { id } })),
  });
  const of = (tables: BriefDatabase["tables"], more: Partial<BriefDatabase> = {}) =>
    unreadData([{
      db: "shop",
      base: "main",
      changed: true,
      tables,
      more_tables: 0,
      schema: [],
      more_schema: 0,
      other_changes: false,
      ...more,
    }]);
  assertEquals(of([]), []);
  assertEquals(of([table("items", 10, 10), table("none", 0)]), []);
  assertEquals(of([table("orders", 31, 10)]), ["rows:31:shop@main:orders"]);
  // Nothing that a terminal, a shell or a reader could take for something else.
  const odd = of([table("a b'\u202e\n\ud800", 1)]);
  assertEquals(odd, ["rows:1:shop@main:a%20b'%E2%80%AE%0A%EF%BF%BD"]);
  const unread = { unread: "database disk image is malformed" };
  for (const [count, shown] of [[0, 0], [31, 10], [10, 10]] as const) {
    assertEquals(of([{ ...table("orders", count, shown), ...unread }]), [`unread:${count}:shop@main:orders`]);
  }
  const many = of(Array.from({ length: 103 }, (_, at) => table(`t${at}`, 1)), { more_tables: 4 });
  assertEquals([many.length, many.at(-1)], [101, "tables:7:shop@main"]);
  const schema = [{ type: "view", name: "v", change: "added" } as const];
  assertEquals(of([], { schema, more_schema: 2 }), ["definitions:3:shop@main"]);
  assertEquals(of([], { schema: [{ ...schema[0]!, after: "CREATE VIEW v" }] }), []);
});

Deno.test("half an answer is a gap, too", () => {
  const gaps = (input: Partial<BriefInput>) => buildBrief({ ...WHOLE, ...input }).missing_evidence.slice(0, -1);
  assertEquals(gaps({ spend: { ...WHOLE.spend!, unmetered_requests: 2, priced: false } }), [
    "what 2 of 3 requests have cost: they have no price or reported no usage",
  ]);
  const { image_digest: _, ...undigested } = WHOLE;
  assertEquals(buildBrief(undigested).missing_evidence[0]!.includes("its digest is not known"), true);
  assertEquals(buildBrief({ ...undigested, runtime: "deno" }).missing_evidence.length, 1);
  const [setup] = WHOLE.setup!.commands;
  const cut = { ...WHOLE.setup!, commands: [setup!, { ...setup!, status: "not_run" as const }] };
  assertEquals(gaps({ setup: cut }).length, 2);
  assertEquals(gaps({ facts: { ...FACTS, flags: [{ category: "unscanned", path: "d\ufffd" }] } }).length, 1);
});

Deno.test("no name that a task chose can act on a terminal or pose as a line of the brief", () => {
  const path = "x\n\nnot established:\u001b[2J\u202e";
  const facts = { ...FACTS, files: [{ ...FILE, path }], flags: [{ category: "odd_name" as const, path }] };
  const text = renderBrief(buildBrief({ ...WHOLE, facts, verdict: evaluateDiffPolicy(POLICY, facts) }));
  assertEquals(text.match(/^not established:/gm)!.length, 1);
  // deno-lint-ignore no-control-regex
  assert(!/[\u0000-\u0009\u000b-\u001f\u202e]/.test(text));
});

Deno.test("a brief stays readable for a change of 100,000 files", () => {
  const files = Array.from({ length: 100_000 }, (_, at) => ({ ...FILE, path: `f${at}` }));
  const flags = files.map(({ path }) => ({ category: "binary" as const, path }));
  const facts = { ...FACTS, files, files_changed: files.length, flags };
  const brief = buildBrief({ ...WHOLE, facts, verdict: evaluateDiffPolicy(POLICY, facts) });
  assertEquals([brief.diff!.files.length, brief.flags[0]!.count, brief.flags[0]!.paths.length], [
    MAX_FILES,
    100_000,
    100,
  ]);
  const text = renderBrief(brief);
  assert(text.includes("  and 99960 more") && text.length < 20_000);
});
