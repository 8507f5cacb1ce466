import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { renderBrief } from "../../../broker/task/brief.ts";
import { NotAcknowledged } from "../../../broker/task/not_acknowledged.ts";
import type { Scripted } from "../../support/model_server.ts";
import { agentDoes, changesOf, DataBench, RAISE, resultsOf } from "./_bench.ts";

const BEFORE = [[1, "tea", 300], [2, "coffee", 450], [3, "cocoa", 400]];
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
  assertStringIncludes(text, 'changed  {"id":2} {"price":450} -> {"price":500}');
  assertStringIncludes(text, "prices.txt");
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
});

Deno.test("a data change is acknowledged by its name, and denying it leaves the store as it was", async () => {
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

Deno.test("a task that only read its database has changed nothing: no_diff, and its branch goes", async () => {
  await using bench = await DataBench.start({ script: agentDoes(["SELECT * FROM items", "BEGIN; SELECT 1; COMMIT"]) });
  const done = await bench.toGate();
  assertEquals([done.outcome, changesOf(done).map(({ changed }) => changed)], ["no_diff", [false]], done.reason);
  await bench.released();
  assertEquals(await bench.branches(), ["main"]);
});

Deno.test("code alone is pushed without asking about a database that was left as it was", async () => {
  await using bench = await DataBench.start({ script: agentDoes(["SELECT 1"], "a.txt") });
  const waiting = await bench.toGate();
  assertEquals(waiting.gate?.second_look, []);
  const done = await bench.approve(waiting);
  assertEquals([done.outcome, resultsOf(done)], ["pushed", []], done.reason);
  await bench.released();
  assertEquals(await bench.rows(), BEFORE);
});

Deno.test("a base that moved while the task waited is left alone; the task's branch is kept and named", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt") });
  const waiting = await bench.toGate();
  await bench.write("INSERT INTO items VALUES (9, 'milk', 100)");
  const done = await bench.approve(waiting);
  assertEquals(done.outcome, "pushed");
  assertStringIncludes(done.reason!, `shop@task-${waiting.id} is NOT promoted onto main and is kept`);
  assertStringIncludes(done.reason!, "shop@main has moved since the task began");
  assertEquals(await bench.rows(), [...BEFORE, [9, "milk", 100]]);
  assertEquals(await bench.rows(`task-${waiting.id}`), AFTER);
  // The next broker keeps it as well.
  await bench.broker.broker.stop();
  await bench.broker.serve();
  await bench.broker.broker.stop();
  assertEquals(await bench.branches(), ["main", `task-${waiting.id}`]);
});

Deno.test("a data change that cannot be promoted ends as push_failed, with the branch that has it", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE]) });
  const waiting = await bench.toGate();
  await bench.store((client) => client.call("open", { db: "shop" }));
  const done = await bench.approve(waiting);
  assertEquals(done.outcome, "push_failed");
  assertStringIncludes(done.reason!, "a session has shop@main open");
  assertEquals(await bench.rows(`task-${waiting.id}`), AFTER);
});

Deno.test("a branch that changed while the task waited is not promoted", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt") });
  const waiting = await bench.toGate();
  await bench.write("DELETE FROM items", `task-${waiting.id}`);
  const done = await bench.approve(waiting);
  assertStringIncludes(done.reason!, "was changed after it came to the gate");
  assertEquals(await bench.rows(), BEFORE);
});

Deno.test("a task works on the branch that it names, while an application writes to its base", async () => {
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
    { type: "table", name: "items", change: "changed" },
    { type: "trigger", name: "gone", change: "added" },
    { type: "view", name: "cheap", change: "added" },
  ]);
  assertStringIncludes(renderBrief(await bench.brief(waiting)), "shop@main trigger gone (definition added)");
});

Deno.test("of several databases none is promoted when one cannot be, and each branch is named", async () => {
  const stats: Scripted = { calls: [["sql", { database: "stats", statement: "CREATE TABLE seen (id)" }]] };
  await using bench = await DataBench.start({ script: [stats, ...agentDoes([RAISE], "a.txt")] });
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

Deno.test("two databases of a task are promoted together", async () => {
  const stats: Scripted = { calls: [["sql", { database: "stats", statement: "CREATE TABLE seen (id)" }]] };
  await using bench = await DataBench.start({ script: [stats, ...agentDoes([RAISE])] });
  await bench.store((client) => client.call("create", { db: "stats" }));
  const done = await bench.approve(await bench.toGate(["shop", "stats"]));
  assertEquals([done.outcome, resultsOf(done).map(({ result }) => result)], ["promoted", ["promoted", "promoted"]]);
  await bench.released();
});
