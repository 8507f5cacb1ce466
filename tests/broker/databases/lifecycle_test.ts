import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import * as v from "valibot";
import { DATABASE_ROWS } from "../../../broker/api/wire.ts";
import { isThere } from "../../../lib/fs.ts";
import { forksOf } from "../../../broker/databases/evidence.ts";
import { promoteDatabases } from "../../../broker/databases/promote_branches.ts";
import { systemClock } from "../../../lib/clock.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { sha256Hex } from "../../../lib/sha256.ts";
import { isPageShown } from "../../../broker/task/shown.ts";
import { renderBrief } from "../../../broker/task/brief.ts";
import { NotAcknowledged } from "../../../broker/task/not_acknowledged.ts";
import type { Scripted } from "../../support/model_server.ts";
import { writeProgram } from "../../support/programs.ts";
import { until } from "../engine/bench.ts";
import { agentDoes, changesOf, DataBench, RAISE, resultsOf } from "./_bench.ts";
import { longTest } from "../../support/long.ts";

const BEFORE = [[1, "tea", 300], [2, "coffee", 450], [3, "cocoa", 400]];
const PROMOTE_ONLY = "on_moved_base: promote_only\n";
const AFTER = [[1, "tea", 300], [2, "coffee", 500], [3, "cocoa", 400], [4, "mate", 350]];

Deno.test("a task changes code and data: one approval shows both, pushes and promotes", async () => {
  await using bench = await DataBench.start({ script: agentDoes(["SELECT * FROM items", RAISE], "prices.txt") });
  const waiting = await bench.toGate();
  assertEquals(waiting.stage, "awaiting_approval", waiting.reason);
  assertEquals(waiting.gate?.second_look, ["database"]);
  const [change] = changesOf(waiting);
  assertEquals(change?.tables, [
    { table: "items", change: "changed", rows_added: 1, rows_removed: 0, rows_changed: 1 },
  ]);
  assertEquals(change?.schema, []);
  const text = renderBrief(await bench.brief(waiting));
  assertStringIncludes(text, "look twice, database: a database was changed");
  assertStringIncludes(text, "shop@main table items (rows: 1 added, 1 changed, 0 removed)");
  assertStringIncludes(text, "~ id=2  price: 450 -> 500");
  assertStringIncludes(text, "prices.txt");
  const { signal } = new AbortController();
  const asked = { database: "shop", table: "items" };
  const rows = () => bench.broker.engine.databaseDiff(waiting.id, { ...asked, limit: 1_000 }, signal);
  const changed = await rows();
  assertEquals(changed.rows.map(({ change, key }) => [change, key.id]), [["changed", 2], ["added", 4]]);
  assert(v.is(DATABASE_ROWS, changed));
  assert(await isPageShown(waiting, asked, changed, sha256Hex));
  for (const other of [{ rows: changed.rows.toReversed() }, { next: "p2" }, { proof: { index: 0, path: [] } }]) {
    assert(!await isPageShown(waiting, asked, { ...changed, ...other }, sha256Hex), JSON.stringify(other));
  }
  assertEquals(changed.rows[0]?.same, { id: 2, name: "coffee" });
  assertEquals(await bench.rows(), BEFORE, "nothing is promoted before it is approved");
  assertEquals(await bench.rows(`task-${waiting.id}`), AFTER);

  const done = await bench.approve(waiting);
  assertEquals(done.outcome, "pushed", done.reason);
  assertStringIncludes(done.reason!, "shop@main has the change to the database");
  assertEquals(await bench.rows(), AFTER);
  assert((await bench.broker.branches()).has(`agent/${waiting.id}`));
  const [result] = resultsOf(done);
  assertEquals(result?.result, "promoted");
  assertEquals(await bench.rows(result!.safety_branch), BEFORE);
  await bench.released();
  assertEquals(await rows(), changed, "what was approved can be seen after the task's branch is gone");
  await bench.write("DELETE FROM items");
  await assertRejects(rows, TaskdError, "was written since");
});

longTest("rows that the brief does not show are acknowledged by number, and those read are recorded", async () => {
  const many = "WITH RECURSIVE n(i) AS (SELECT 4 UNION ALL SELECT i + 1 FROM n WHERE i < 34) " +
    "INSERT INTO items SELECT i, 'tea ' || i, i FROM n";
  await using bench = await DataBench.start({ script: agentDoes([many], "a.txt") });
  const waiting = await bench.toGate();
  const category = "rows:31:shop@main:items";
  assertEquals(waiting.gate?.second_look, ["database", category]);
  const { diff_sha256 } = waiting.gate!;
  const { engine } = bench.broker;
  const refused = await assertRejects(
    () => engine.approve(waiting.id, { diff_sha256, acknowledge: ["database", "rows:30:shop@main:items"] }),
    NotAcknowledged,
  );
  assertEquals(refused.missing, [category]);
  const seen = [{ part: "rows", name: "shop@main items", from: 1, to: 12, of: 31 } as const];
  await engine.approve(waiting.id, { diff_sha256, acknowledge: ["database", category], seen });
  const done = await bench.broker.reaches(waiting.id);
  assertEquals([done.approval?.seen, done.approval?.acknowledged], [seen, ["database", category]]);
  const { verified, checks } = await engine.verification(waiting.id);
  assertEquals([verified, checks.map(({ what }) => what).includes("approval")], [true, true]);
});

longTest("a data change is acknowledged by its name, and denying it leaves the store as it was", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt") });
  const waiting = await bench.toGate();
  const { diff_sha256 } = waiting.gate!;
  const refused = await assertRejects(
    () => bench.broker.engine.approve(waiting.id, { diff_sha256, acknowledge: [] }),
    NotAcknowledged,
  );
  assertEquals(refused.missing, ["database"]);
  await bench.broker.engine.deny(waiting.id, "no");
  await bench.released();
  assertEquals([await bench.branches(), await bench.rows()], [["main"], BEFORE]);
});

Deno.test("a task that changed data alone goes to the gate and ends as promoted, without a push", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE]) });
  const waiting = await bench.toGate();
  assertEquals(waiting.stage, "awaiting_approval", waiting.reason);
  assertEquals(bench.broker.engine.pending().map(({ files_changed }) => files_changed), [0]);
  const done = await bench.approve(waiting);
  assertEquals([done.outcome, done.push_attempts, done.pushed], ["promoted", [], undefined], done.reason);
  assertEquals(await bench.rows(), AFTER);
  assert(!(await bench.broker.branches()).has(`agent/${waiting.id}`));
  await bench.released();
});

longTest("a task that only read its database has changed nothing: no_diff, and its branch goes", async () => {
  await using bench = await DataBench.start({ script: agentDoes(["SELECT * FROM items", "BEGIN; SELECT 1; COMMIT"]) });
  const done = await bench.toGate();
  assertEquals([done.outcome, changesOf(done).map(({ changed }) => changed)], ["no_diff", [false]], done.reason);
  await bench.released();
  assertEquals(await bench.branches(), ["main"]);
});

longTest("code alone is pushed without asking about a database that was left as it was", async () => {
  await using bench = await DataBench.start({ script: agentDoes(["SELECT 1"], "a.txt") });
  const waiting = await bench.toGate();
  assertEquals(waiting.gate?.second_look, []);
  const done = await bench.approve(waiting);
  assertEquals([done.outcome, resultsOf(done)], ["pushed", []], done.reason);
  await bench.released();
  assertEquals(await bench.rows(), BEFORE);
});

Deno.test("promote_only: a base that moved keeps data waiting; promoted by hand, it is seen", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt"), config: PROMOTE_ONLY });
  const waiting = await bench.toGate();
  const branch = `task-${waiting.id}`;
  const notes = async () => (await bench.broker.engine.bases(waiting.id)).notes.join();
  assertEquals(await notes(), "");
  await bench.store((client) => client.call("open", { db: "shop" }));
  assertStringIncludes(await notes(), "the data does not land: a session has shop@main open");
  await bench.store((client) => client.call("close", { db: "shop" }));
  await bench.write("INSERT INTO items VALUES (9, 'milk', 100)");
  assertStringIncludes(await notes(), "the data does not land: shop@main has moved since the task began");
  const left = await bench.approve(waiting);
  assertEquals([left.stage, left.pushed?.branch], ["data_waits", `agent/${waiting.id}`]);
  assertStringIncludes(left.reason!, `shop@${branch} is NOT promoted onto main and is kept`);
  assertStringIncludes(left.reason!, "shop@main has moved since the task began");
  assertStringIncludes(left.reason!, `taskd promote shop@${branch} --onto main`);
  assertEquals(await bench.rows(), [...BEFORE, [9, "milk", 100]]);
  assertEquals(await bench.rows(branch), AFTER);
  // The next broker tries again, and keeps it as well.
  await bench.broker.broker.stop();
  await bench.broker.serve();
  assertEquals((await bench.broker.reaches(waiting.id, "data_waits")).stage, "data_waits");
  await until(() => bench.broker.engine.tasks.read(waiting.id).seq > left.seq + 2);
  assertEquals(await bench.branches(), ["main", branch]);
  await bench.store((client) => client.call("promote", { db: "shop", branch, onto: "main" }));
  await bench.broker.engine.push(waiting.id);
  const done = await bench.broker.reaches(waiting.id, "done");
  assertEquals([done.outcome, done.push_attempts.length], ["pushed", 1], done.reason);
  assertEquals(await bench.rows(), AFTER);
  await bench.released();
});

longTest("promote_only: data alone waits for the end of a session of its base", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE]), config: PROMOTE_ONLY });
  const waiting = await bench.toGate();
  await bench.store((client) => client.call("open", { db: "shop" }));
  const left = await bench.approve(waiting);
  assertEquals(left.stage, "push_failed");
  assertMatch(left.reason!, /holds it \(Close it first: taskd session close shop@main\)$/);
  assertEquals(await bench.rows(`task-${waiting.id}`), AFTER);
  await bench.store((client) => client.call("close", { db: "shop" }));
  await bench.broker.engine.push(waiting.id);
  const done = await bench.broker.reaches(waiting.id, "done");
  assertEquals([done.outcome, await bench.rows()], ["promoted", AFTER], done.reason);
  await bench.released();
});

longTest("a push that fails keeps the data's branch, and the next round lands both", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt") });
  const waiting = await bench.toGate();
  const hook = `${bench.broker.git.origin}/hooks/pre-receive`;
  await writeProgram(hook, "#!/bin/sh\nexit 1\n");
  assertEquals((await bench.approve(waiting)).stage, "push_failed");
  await bench.broker.broker.stop();
  await bench.broker.serve();
  await until(() => bench.broker.lines.filter((line) => line.includes("came to push_failed")).length > 1);
  assertEquals([await bench.branches(), await bench.rows()], [["main", `task-${waiting.id}`], BEFORE]);
  await Deno.remove(hook);
  await bench.broker.engine.push(waiting.id);
  const done = await bench.broker.reaches(waiting.id, "done");
  assertEquals([done.outcome, await bench.rows()], ["pushed", AFTER], done.reason);
  await bench.released();
});

longTest("data that waits is given up by name: the task stays pushed, the data's branch goes", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt"), config: PROMOTE_ONLY });
  const waiting = await bench.toGate();
  await bench.write("INSERT INTO items VALUES (9, 'milk', 100)");
  assertEquals((await bench.approve(waiting)).stage, "data_waits");
  await bench.broker.engine.kill(waiting.id, "the prices are old");
  const done = await bench.broker.reaches(waiting.id, "done");
  assertEquals(done.outcome, "pushed");
  assertStringIncludes(done.reason!, "its data is given up: the prices are old");
  assertEquals(await bench.rows(), [...BEFORE, [9, "milk", 100]]);
  await bench.released();
});

Deno.test("a branch that changed while the task waited is neither shown nor promoted", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt") });
  const waiting = await bench.toGate();
  const { signal } = new AbortController();
  const rows = () => bench.broker.engine.databaseDiff(waiting.id, { database: "shop", table: "items" }, signal);
  assertEquals((await rows()).rows.length, 2);
  await bench.write("DELETE FROM items", `task-${waiting.id}`);
  const refused = await assertRejects(rows, TaskdError, "was changed after it came to the gate");
  assertEquals(refused.code, "altered");
  const done = await bench.approve(waiting);
  assertStringIncludes(done.reason!, "was changed after it came to the gate");
  assertEquals(await bench.rows(), BEFORE);
});

longTest("a program that looks into a task's branch is waited for, and keeps its file until then", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE]) });
  const { id } = await bench.broker.submit({ databases: ["shop"] });
  const folder = `${bench.place.store}/checkouts/shop`;
  const there = (matches: (name: string) => boolean) =>
    isThere(folder) && [...Deno.readDirSync(folder)].some(({ name }) => matches(name));
  await until(() => there((name) => name === `task-${id}.db`));
  const application = new DatabaseSync(`${folder}/task-${id}.db`, { timeout: 5_000 });
  const rows = () => application.prepare("SELECT * FROM items ORDER BY id").all().map((row) => Object.values(row));
  assertEquals(rows(), BEFORE);
  const stage = () => bench.broker.engine.tasks.read(id).stage;
  // What the agent left lies beside the checkout, ready to take its place.
  await until(() =>
    stage() === "awaiting_approval" || stage() === "collecting" && there((name) => name.endsWith(".tmp"))
  );
  assertEquals([stage(), rows()], ["collecting", BEFORE]);
  application.close();
  const waiting = await bench.broker.reaches(id, "awaiting_approval");
  assertEquals(waiting.stage, "awaiting_approval", waiting.reason);
  assertEquals(await bench.rows(`task-${id}`), AFTER);
  await bench.broker.engine.deny(id, "no");
  await bench.released();
});

longTest("a task works on the branch that it names, while an application writes to its base", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE]) });
  await bench.store((client) => client.call("fork", { db: "shop", new_branch: "dev" }));
  const { checkout } = await bench.store((client) => client.call("open", { db: "shop" }));
  assert(checkout.endsWith("main.db"));
  const done = await bench.approve(await bench.toGate(["shop@dev"]));
  assertEquals(done.outcome, "promoted", done.reason);
  assertEquals([await bench.rows("dev"), await bench.rows()], [AFTER, BEFORE]);
});

Deno.test("definitions that change are named at the gate, triggers and views too", async () => {
  const sql = "CREATE VIEW cheap AS SELECT * FROM items WHERE price < 400; " +
    "CREATE TRIGGER gone AFTER INSERT ON items BEGIN DELETE FROM items; END; ALTER TABLE items ADD COLUMN note TEXT";
  await using bench = await DataBench.start({ script: agentDoes([sql]) });
  const waiting = await bench.toGate();
  assertEquals(changesOf(waiting)[0]?.schema, [
    { type: "table", name: "items", table: "items", change: "changed" },
    { type: "trigger", name: "gone", table: "items", change: "added" },
    { type: "view", name: "cheap", table: "cheap", change: "added" },
  ]);
  const brief = renderBrief(await bench.brief(waiting));
  assertStringIncludes(brief, "shop@main trigger gone (definition added)");
  assertStringIncludes(brief, "+ CREATE TRIGGER gone AFTER INSERT ON items BEGIN DELETE FROM items; END\n");
});

longTest("of several databases none is promoted when one cannot be, and each branch is named", async () => {
  const stats: Scripted = { calls: [["sql", { database: "stats", statement: "CREATE TABLE seen (id)" }]] };
  const script = [stats, ...agentDoes([RAISE], "a.txt")];
  await using bench = await DataBench.start({ script, config: PROMOTE_ONLY });
  await bench.store((client) => client.call("create", { db: "stats" }));
  const waiting = await bench.toGate(["shop", "stats"]);
  assertEquals(changesOf(waiting).map(({ db, changed }) => [db, changed]), [["shop", true], ["stats", true]]);
  await bench.write("DELETE FROM items WHERE id = 1");
  const done = await bench.approve(waiting);
  assertEquals(resultsOf(done).map(({ db, result }) => [db, result]), [["shop", "kept"], ["stats", "kept"]]);
  assertStringIncludes(
    done.reason!,
    `stats@task-${done.id} is NOT promoted onto main and is kept: so that none is alone`,
  );
  assertEquals(await bench.rows("main", "SELECT count(*) FROM items"), [[2]]);
});

longTest("two databases of a task are promoted together", async () => {
  const stats: Scripted = { calls: [["sql", { database: "stats", statement: "CREATE TABLE seen (id)" }]] };
  await using bench = await DataBench.start({ script: [stats, ...agentDoes([RAISE])] });
  await bench.store((client) => client.call("create", { db: "stats" }));
  const done = await bench.approve(await bench.toGate(["shop", "stats"]));
  assertEquals([done.outcome, resultsOf(done).map(({ result }) => result)], ["promoted", ["promoted", "promoted"]]);
  await bench.released();
});

Deno.test("what is promoted is what was approved, byte for byte, and verifies from the record alone", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "prices.txt") });
  const waiting = await bench.toGate();
  const { binding } = waiting.gate!;
  const { head } = changesOf(waiting)[0]!;
  assertEquals(binding?.databases.map(({ db, base, result }) => [db, base, result]), [["shop", "main", head!]]);
  const done = await bench.approve(waiting);
  const { txid } = await bench.store((client) =>
    client.call("export", { db: "shop", branch: "main", path: `${bench.place.directory}/out.db` })
  );
  assertEquals(sha256Hex(await Deno.readFile(`${bench.place.directory}/out.db`)), head!.image_sha256);
  assertEquals(resultsOf(done)[0]?.txid, txid);
  const { verified, checks } = await bench.broker.engine.verification(done.id);
  assertEquals([verified, checks.at(-1)?.what], [true, "data"]);
});

Deno.test("attack: a head that was approved and holds something else is not promoted", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "prices.txt") });
  const waiting = await bench.toGate();
  const { evidence } = bench.broker.engine.tasks.live(waiting.id)!.record;
  const approved = structuredClone(changesOf({ evidence }));
  approved[0]!.head!.image_sha256 = "0".repeat(64);
  const access = { socket: bench.place.socket, clock: systemClock };
  const found = {
    forks: forksOf(waiting),
    changes: approved,
    known: [],
    decisions: [],
    on_moved_base: "merge",
    is_bound: true,
  } as const;
  const [result] = await promoteDatabases(access, found);
  assertEquals([result?.result, result?.reason], ["kept", `shop@task-${waiting.id} does not hold what was approved`]);
  assertEquals(await bench.rows(), BEFORE);
});
