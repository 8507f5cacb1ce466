/** What a person decided of conflicts, while the application goes on: it holds for what they have read, or not at all. */

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { TaskdError } from "../../../lib/errors.ts";
import type { TaskRecord } from "../../../broker/task/schema.ts";
import { agentDoes, DataBench, decided, RAISE, resultsOf } from "./_bench.ts";
import { lands } from "./_store_proxy.ts";

const COFFEE = { table: "items", key: { id: 2 }, column: "price" };
const MILK = "INSERT INTO items VALUES (9, 'milk', 100)";

/** A task that is at its gate again, since the application has set the price of coffee to 460. */
async function backAtTheGate(bench: DataBench): Promise<TaskRecord> {
  const waiting = await bench.toGate();
  await bench.store((client) => client.call("checkpoint", { db: "shop", name: "begun" }));
  await bench.write("UPDATE items SET price = 460 WHERE id = 2");
  return await bench.approve(waiting, "awaiting_approval");
}

/** An approved change whose conflict on coffee came up between the check and its data. */
async function conflictAtTheLast(bench: DataBench): Promise<TaskRecord> {
  const waiting = await bench.toGate();
  await bench.write(MILK);
  bench.proxy.onStep = async (request, moment) => {
    if (!lands(request) || moment === "after") return;
    bench.proxy.onStep = () => {};
    await bench.write("UPDATE items SET price = 460 WHERE id = 2");
  };
  return await bench.approve(waiting);
}

const BACK = {
  "is set back": (bench: DataBench) => bench.write("UPDATE items SET price = 450 WHERE id = 2"),
  "is rolled back": (bench: DataBench) => bench.store((client) => client.call("rollback", { db: "shop", to: "begun" })),
};

for (const [how, goBack] of Object.entries(BACK)) {
  Deno.test(`what was decided to stay is not replaced when the base ${how} to what the task began with`, async () => {
    await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt") });
    const back = await backAtTheGate(bench);
    await goBack(bench);
    const again = await bench.approve(back, "awaiting_approval", { prefer: "ours" });
    assertEquals([again.stage, again.push_attempts], ["awaiting_approval", []], again.reason);
    assertStringIncludes(again.reason!, "no longer in conflict is what was to stay");
    assertStringIncludes(again.reason!, "items id=2 price");
    assertEquals(again.gate!.conflicts!.map(({ conflicts, total }) => [conflicts, total]), [[[], 0]]);
    assertEquals((await bench.rows())[1], [2, "coffee", 450]);
    const { diff_sha256, second_look: acknowledge } = again.gate!;
    const request = { diff_sha256, acknowledge, decide: { prefer: "ours" } } as const;
    await assertRejects(() => bench.broker.engine.approve(again.id, request), TaskdError, "Cannot decide");
    const done = await bench.approve(again);
    assertEquals([done.outcome, (await bench.rows())[1]], ["pushed", [2, "coffee", 500]], done.reason);
  });
}

Deno.test("data that waits does not replace what was decided to stay, until a person pushes it again", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt"), proxy: true });
  const waiting = await conflictAtTheLast(bench);
  const { id, stage } = waiting;
  assertEquals(stage, "data_waits");
  await bench.write("UPDATE items SET price = 450 WHERE id = 2");
  const { engine } = bench.broker;
  await engine.push(id, decided(waiting, "ours"));
  const left = await bench.broker.reaches(id);
  assertEquals([left.stage, (await bench.rows())[1]], ["data_waits", [2, "coffee", 450]], left.reason);
  assertStringIncludes(left.reason!, "no longer in conflict is what was to stay");
  await engine.push(id);
  const done = await bench.broker.reaches(id, "done", "data_waits");
  assertEquals([done.outcome, (await bench.rows())[1]], ["pushed", [2, "coffee", 500]], done.reason);
});

Deno.test("a decision for data that waits names the value that was read, and no other is decided", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt"), proxy: true });
  const { id } = await conflictAtTheLast(bench);
  const { engine } = bench.broker;
  const read = { ...COFFEE, take: "theirs", ours: { price: 460 } } as const;
  await bench.write("UPDATE items SET price = 470 WHERE id = 2");
  // As a round does by itself.
  await engine.push(id);
  await bench.broker.reaches(id, "data_waits");
  await assertRejects(
    () => engine.push(id, { decide: { resolve: [read] } }),
    TaskdError,
    "the database has another value",
  );
  assertEquals((await bench.rows())[1], [2, "coffee", 470]);
  await engine.push(id, { decide: { resolve: [{ ...read, ours: { price: 470 } }] } });
  const done = await bench.broker.reaches(id, "done", "data_waits");
  assertEquals([done.outcome, (await bench.rows())[1]], ["pushed", [2, "coffee", 500]], done.reason);
});

Deno.test("a push decides what was read, and never what a later round has found", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt"), proxy: true });
  const read = await conflictAtTheLast(bench);
  const { id } = read;
  const { engine } = bench.broker;
  // As a round does by itself.
  const round = async (sql: string) => {
    await bench.write(sql);
    await engine.push(id);
    return await bench.broker.reaches(id, "data_waits");
  };
  const same = await round("INSERT INTO items VALUES (8, 'malt', 80)");
  // The base stands elsewhere, and what was read is what is in conflict.
  assertEquals(decided(same, "theirs"), decided(read, "theirs"));
  const later = await round("INSERT INTO items VALUES (4, 'maca', 1)");
  assertEquals([later.stage, resultsOf(later)[0]?.conflicts?.total], ["data_waits", 2], later.reason);
  for (const prefer of ["ours", "theirs"] as const) {
    await assertRejects(() => engine.push(id, decided(read, prefer)), TaskdError, "is not what was read any more");
    await assertRejects(
      () => engine.push(id, { decide: { prefer } }),
      TaskdError,
      "not said which conflicts were read",
    );
  }
  const blind = { ...COFFEE, take: "theirs" } as const;
  await assertRejects(() => engine.push(id, { decide: { resolve: [blind] } }), TaskdError, "not said which");
  assertEquals(engine.tasks.read(id).stage, "data_waits");
  await engine.push(id, decided(later, "ours"));
  const done = await bench.broker.reaches(id, "data_waits");
  const left = await bench.rows("main", "SELECT * FROM items WHERE id IN (2, 4)");
  assertEquals([done.outcome, left], ["pushed", [[2, "coffee", 460], [4, "maca", 1]]], done.reason);
});

Deno.test("what is decided at the gate counts, and nothing that was decided before it came there", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE]), proxy: true });
  const waiting = await conflictAtTheLast(bench);
  const { id, stage } = waiting;
  assertEquals([stage, resultsOf(waiting)[0]?.conflicts?.total], ["push_failed", 1]);
  const { engine } = bench.broker;
  // Something else is in conflict by the next round.
  await bench.write("INSERT INTO items VALUES (4, 'maca', 1)");
  await engine.push(id, decided(waiting, "theirs"));
  const back = await bench.broker.reaches(id, "awaiting_approval", "push_failed");
  assertEquals([back.stage, back.gate!.conflicts?.[0]?.total, back.decisions], ["awaiting_approval", 2, undefined]);
  const done = await bench.approve(back, "awaiting_approval", { prefer: "ours" });
  assertEquals([done.stage, done.outcome], ["done", "promoted"], done.reason);
  assertEquals(
    await bench.rows("main", "SELECT * FROM items WHERE id IN (2, 4)"),
    [[2, "coffee", 460], [4, "maca", 1]],
  );
  assert((await engine.verification(id)).verified);
});
