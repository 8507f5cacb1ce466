import { assert, assertEquals, assertMatch } from "@std/assert";
import { changesOf, EVIDENCE, forksOf, resultsOf } from "../databases/evidence.ts";
import { resultsText } from "../databases/promote_branches.ts";
import type { TaskDatabases } from "../databases/task_databases.ts";
import type { ResolvedSettings } from "../settings/load.ts";
import type { TaskEvent } from "../task/rows.ts";
import type { TaskRecord } from "../task/schema.ts";
import type { Task } from "../task/task.ts";
import { abandonData, promoteData, releaseData } from "./database_stages.ts";

const ID = "a".repeat(32);
const BRANCH = `task-${ID}`;
const CHANGE = {
  ...{ db: "shop", base: "main", branch: BRANCH, changed: true, tables: [] },
  ...{ more_tables: 0, schema: [], more_schema: 0, other_changes: false },
  head: { txid: 2, lineage: "l", image_sha256: "0".repeat(64) },
};
const { head: _, ...HEADLESS } = CHANGE;
const KEPT = { db: "shop", base: "main", branch: BRANCH, result: "kept", reason: "moved" };
/** What no longer parses, and what says that it has changed and not to what. */
const DAMAGED: [string, string, TaskRecord["evidence"]][] = [
  ["forks", "one key is missing", { [EVIDENCE.changes]: [CHANGE], [EVIDENCE.forks]: [{ db: "shop" }] }],
  ["changes", "no list", { [EVIDENCE.changes]: "gone" }],
  ["changes", "null", { [EVIDENCE.changes]: null }],
  ["changes", "changed without a head", { [EVIDENCE.changes]: [HEADLESS] }],
  ["results", "of another version", { [EVIDENCE.changes]: [CHANGE], [EVIDENCE.results]: [{ ...KEPT, result: 7 }] }],
];

const RESOLVED = { settings: { on_moved_base: "merge" } } as unknown as ResolvedSettings;

/** A task that was approved, and what was done with its branches. */
function approved(evidence: TaskRecord["evidence"]) {
  const record = { id: ID, databases: ["shop@main"], evidence } as unknown as TaskRecord;
  const released: string[][] = [];
  const logged: string[] = [];
  const databases = {
    access: { socket: "/nowhere" },
    release: (_id: string, requested: { db: string }[], keep: ReadonlySet<string>) => {
      released.push(requested.map(({ db }) => db).filter((db) => !keep.has(db)));
      return Promise.resolve();
    },
  } as unknown as TaskDatabases;
  const append = (event: TaskEvent) => {
    if (event.type === "evidence") record.evidence[event.name] = event.value;
    return Promise.resolve();
  };
  const task = { record, append } as unknown as Task;
  return {
    task,
    deps: { databases, resolved: RESOLVED, log: (_: string, event: string) => void logged.push(event) },
    released,
    logged,
  };
}

for (const [reader, how, evidence] of DAMAGED) {
  Deno.test(`promoteData() keeps the branch and says so: ${reader}, ${how}`, async () => {
    const { task, deps, released } = approved(evidence);
    const results = await promoteData(deps, task);
    assertEquals(results.map(({ db, branch, result }) => [db, branch, result]), [["shop", BRANCH, "kept"]]);
    assertMatch(resultsText(results), /is NOT promoted onto main and is kept: the trace's evidence \w+ cannot be read/);
    await releaseData(deps, task.record);
    assertEquals(released, [[]]);
  });
}

Deno.test("promoteData() without a branch store keeps what was approved", async () => {
  const { task } = approved({ [EVIDENCE.changes]: [CHANGE] });
  const results = await promoteData({ resolved: RESOLVED }, task);
  assertEquals(results[0]?.result, "kept");
  assertMatch(resultsText(results), /gives tasks no branches/);
});

Deno.test("promoteData() leaves a database alone that has its change, whatever keeps the others", async () => {
  const done = { ...KEPT, result: "promoted" };
  const other = { ...KEPT, db: "stats" };
  const { task } = approved({ [EVIDENCE.changes]: [CHANGE], [EVIDENCE.results]: [done, other] });
  Object.assign(task.record, { databases: ["shop@main", "stats@main"] });
  assertEquals((await promoteData({ resolved: RESOLVED }, task)).map(({ result }) => result), ["promoted", "kept"]);
});

Deno.test("abandonData() lets go what was kept, and nothing else", async () => {
  const done = { ...KEPT, db: "stats", result: "promoted" };
  const { task, deps, released } = approved({ [EVIDENCE.results]: [done, KEPT] });
  await abandonData(task);
  assertEquals(resultsOf(task.record).map(({ result }) => result), ["promoted", "given_up"]);
  await releaseData(deps, task.record);
  assertEquals(released, [["shop"]]);
});

Deno.test("promoteData() of data alone whose change is not in the trace keeps the branch", async () => {
  const sha = "0".repeat(64);
  const change = { tree: "0".repeat(40), base_tree: "0".repeat(40), diff_sha256: sha, shown_sha256: sha };
  const { task, deps } = approved({ change: { ...change, files_changed: 0, lines_changed: 0 } });
  assertEquals((await promoteData(deps, task))[0]?.result, "kept");
});

Deno.test("releaseData() destroys nothing when the trace does not say what is kept", async () => {
  const { task: { record }, deps, released, logged } = approved({ [EVIDENCE.results]: [{}] });
  await releaseData(deps, record);
  assertEquals([released, logged], [[], ["database_branch_left"]]);
});

Deno.test("evidence of databases that is not there is none, and sound evidence is read back", () => {
  for (const read of [forksOf, changesOf, resultsOf]) assertEquals(read({ evidence: {} }), []);
  assert(changesOf({ evidence: { [EVIDENCE.changes]: [CHANGE] } })[0]?.changed);
  assertEquals(resultsOf({ evidence: { [EVIDENCE.results]: [KEPT] } })[0]?.result, "kept");
});
