import { assert, assertEquals, assertMatch, assertNotEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { Application } from "../../support/application.ts";
import type { TaskRecord } from "../../../broker/task/schema.ts";
import type { Client } from "../../../lib/client/client.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { longTest, scaledTest, shortened } from "../../support/long.ts";
import { until } from "../engine/bench.ts";
import { agentDoes, DataBench, decided, RAISE, resultsOf, SHOP, sqlite } from "./_bench.ts";
import { lands } from "./_store_proxy.ts";

const SHOPPED = [[1, "tea", 300], [2, "coffee", 450], [3, "cocoa", 400]];
const MERGED = [[1, "tea", 300], [2, "coffee", 500], [3, "cocoa", 400], [4, "mate", 350]];
const MILK = [9, "milk", 100];

Deno.test("an approved change is merged into a database that an application has open and wrote to", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt") });
  const { checkout } = await bench.store((client) => client.call("open", { db: "shop" }));
  const waiting = await bench.toGate();
  const notes = async () => (await bench.broker.engine.bases(waiting.id)).notes.join();
  assertStringIncludes(await notes(), "a session has shop@main open; the change is merged into it");
  const application = new Application(checkout);
  try {
    await application.run("INSERT INTO items VALUES (9, 'milk', 100)");
    const done = await bench.approve(waiting);
    assertEquals([done.outcome, done.stage], ["pushed", "done"], done.reason);
    const [result] = resultsOf(done);
    assertEquals([result?.result, result?.safety_branch], ["promoted", undefined]);
    assertMatch(done.reason!, /shop@main has the change to the database, merged into what it held at transaction \d+/);
    assertStringIncludes(done.reason!, `taskd revert shop@main ${result!.merged!.merge} takes it out`);
    await application.run("UPDATE items SET price = price + 1 WHERE id = 4");
  } finally {
    await application.end();
  }
  assertEquals(await bench.rows(), [...MERGED.slice(0, 3), [4, "mate", 351], MILK]);
  await bench.released();
  const { verified } = await bench.broker.engine.verification(waiting.id);
  assert(verified);
});

/** A task that was approved, and came back to its gate, since the application has set the price of coffee to 460. */
async function backAtTheGate(bench: DataBench): Promise<{ waiting: TaskRecord; back: TaskRecord }> {
  const waiting = await bench.toGate();
  await bench.write("UPDATE items SET price = 460 WHERE id = 2; INSERT INTO items VALUES (9, 'milk', 100)");
  assertStringIncludes(
    (await bench.broker.engine.bases(waiting.id)).notes.join(),
    "as things stand the data does not land: shop@main has moved since the task began",
  );
  const back = await bench.approve(waiting, "awaiting_approval");
  assertEquals([back.stage, back.push_attempts, resultsOf(back)], ["awaiting_approval", [], []]);
  return { waiting, back };
}

Deno.test("a conflict found before the push lands nothing, and is at the gate with another digest", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt") });
  const { waiting, back } = await backAtTheGate(bench);
  assertStringIncludes(back.reason!, "Nothing has landed, neither code nor data: shop@main has moved");
  assertStringIncludes(back.reason!, "1 change of it is in conflict with that: items id=2 price (changed twice)");
  const place = { table: "items", key: { id: 2 }, column: "price" };
  const values = { base: { price: 450 }, ours: { price: 460 }, theirs: { price: 500 } };
  const [found] = back.gate!.conflicts!;
  const conflicts = [{ kind: "changed_twice", ...place, ...values }];
  assertEquals(found, { db: "shop", base: "main", txid: found!.txid, conflicts, total: 1 } as typeof found);
  assertNotEquals(back.diff_sha256, waiting.diff_sha256);
  assertEquals([back.approval, back.acknowledgements], [undefined, undefined]);
  assert(!(await bench.broker.branches()).has(`agent/${waiting.id}`));
  assertEquals(await bench.rows(), [[1, "tea", 300], [2, "coffee", 460], [3, "cocoa", 400], MILK]);
  const { diff_sha256, second_look: acknowledge } = waiting.gate!;
  await assertRejects(
    () => bench.broker.engine.approve(waiting.id, { diff_sha256, acknowledge }),
    TaskdError,
    "digest",
  );

  // A person who decides nothing finds it there again; one who has merged by hand has it landed.
  const again = await bench.approve(back, "awaiting_approval");
  assertEquals([again.gate!.conflicts, again.push_attempts], [back.gate!.conflicts, []]);
  const branch = `task-${waiting.id}`;
  await bench.store((client) => client.call("merge", { db: "shop", branch, into: "main", prefer: "theirs" }));
  const done = await bench.approve(again);
  assertEquals([done.outcome, resultsOf(done)[0]?.merged], ["pushed", undefined], done.reason);
  assertEquals(await bench.rows(), [...MERGED, MILK]);
  await bench.released();
});

for (const take of ["ours", "theirs"] as const) {
  Deno.test(`a conflict decided for ${take} with the approval lands so, and the record has who decided`, async () => {
    await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt") });
    const { back } = await backAtTheGate(bench);
    const { engine } = bench.broker;
    const { id, gate } = back;
    const request = { diff_sha256: gate!.diff_sha256, acknowledge: gate!.second_look };
    const stray = { table: "items", key: { id: 3 }, take };
    await assertRejects(
      () => engine.approve(id, { ...request, decide: { resolve: [stray] } }),
      TaskdError,
      "nothing is in conflict at",
    );
    const place = { table: "items", key: { id: 2 }, column: "price" };
    const by = { via: "page", who: "ada" } as const;
    const decided = take === "ours" ? { prefer: take } : { resolve: [{ ...place, take }] };
    await engine.approve(id, { ...request, decide: decided, by });
    const done = await bench.broker.reaches(id);
    assertEquals([done.outcome, resultsOf(done)[0]?.result], ["pushed", "promoted"], done.reason);
    assertEquals(done.approval?.decisions, [{ db: "shop", ...place, take, ours: { price: 460 } }]);
    assertEquals(done.approval?.by, by);
    assertEquals(await bench.rows(), [
      [1, "tea", 300],
      [2, "coffee", take === "ours" ? 460 : 500],
      ...MERGED.slice(2),
      MILK,
    ]);
    const { verified, checks } = await engine.verification(id);
    assert(verified, JSON.stringify(checks));
  });
}

Deno.test("a decision holds for the value that was seen: another one comes to the gate again", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt") });
  const { back } = await backAtTheGate(bench);
  await bench.write("UPDATE items SET price = 470 WHERE id = 2");
  const again = await bench.approve(back, "awaiting_approval", { prefer: "theirs" });
  assertEquals(again.gate!.conflicts![0]!.conflicts[0]!.ours, { price: 470 });
  assertEquals((await bench.rows())[1], [2, "coffee", 470]);
});

Deno.test("a conflict at the gate is there after a start of the broker, and lands as decided", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt") });
  const { back } = await backAtTheGate(bench);
  await bench.broker.broker.stop();
  await bench.broker.serve();
  const done = await bench.approve(bench.broker.engine.tasks.read(back.id), undefined, { prefer: "theirs" });
  assertEquals([done.outcome, await bench.rows()], ["pushed", [...MERGED, MILK]], done.reason);
});

Deno.test("a conflict that arises between push and data waits, is decided, and the data follows", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt"), proxy: true });
  const waiting = await bench.toGate();
  await bench.write("INSERT INTO items VALUES (9, 'milk', 100)");
  bench.proxy.onStep = async (request, moment) => {
    if (!lands(request) || moment === "after") return;
    bench.proxy.onStep = () => {};
    await bench.write("UPDATE items SET price = 460 WHERE id = 2");
  };
  const left = await bench.approve(waiting);
  assertEquals(left.stage, "data_waits", left.reason);
  assert((await bench.broker.branches()).has(`agent/${waiting.id}`));
  const { engine } = bench.broker;
  const [result] = resultsOf(left);
  assertEquals([result?.result, result?.conflicts?.conflicts[0]?.ours], ["kept", { price: 460 }]);
  assertStringIncludes(left.reason!, `to decide: taskd review ${waiting.id.slice(0, 12)}`);
  await engine.push(waiting.id);
  assertEquals((await bench.broker.reaches(waiting.id)).stage, "data_waits");
  const by = { via: "command line", who: "ada" } as const;
  await engine.push(waiting.id, { ...decided(left, "theirs"), by });
  const done = await bench.broker.reaches(waiting.id, "done");
  assertEquals([done.outcome, await bench.rows()], ["pushed", [...MERGED, MILK]], done.reason);
  assertEquals([done.push_asked?.by, done.decisions?.[0]?.take], [by, "theirs"]);
});

Deno.test("a base that moves between the check and the promote has the change merged into it", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE]), proxy: true });
  const waiting = await bench.toGate();
  bench.proxy.onStep = async ({ op }, moment) => {
    if (op !== "promote" || moment === "after") return;
    await bench.write("INSERT INTO items VALUES (9, 'milk', 100)");
  };
  const done = await bench.approve(waiting);
  assertEquals([done.outcome, await bench.rows()], ["promoted", [...MERGED, MILK]], done.reason);
  assert(resultsOf(done)[0]?.merged);
});

for (const op of ["merge", "promote"] as const) {
  Deno.test(`a round that was cut off after its ${op} is finished, and brings nothing twice`, () => cutOffAfter(op));
}

async function cutOffAfter(op: "merge" | "promote"): Promise<void> {
  await using bench = await DataBench.start({ script: agentDoes([RAISE]) });
  const waiting = await bench.toGate();
  if (op === "merge") await bench.write("INSERT INTO items VALUES (9, 'milk', 100)");
  // As the broker does; then it dies.
  const branch = `task-${waiting.id}`;
  await bench.store<unknown>((client) =>
    op === "promote"
      ? client.call("promote", { db: "shop", branch, onto: "main" })
      : client.call("merge", { db: "shop", branch, checkpoint: branch, into: "main" })
  );
  if (op === "promote") await bench.write("INSERT INTO items VALUES (9, 'milk', 100)");
  await bench.write("UPDATE items SET price = 1 WHERE id = 2");
  const done = await bench.approve(waiting);
  assertEquals([done.outcome, resultsOf(done)[0]?.result], ["promoted", "promoted"], done.reason);
  // What an application did with the merged rows since is not undone.
  assertEquals(await bench.rows(), [[1, "tea", 300], [2, "coffee", 1], [3, "cocoa", 400], [4, "mate", 350], MILK]);
}

Deno.test("attack: a task's branch that holds something else than was approved is not merged", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt") });
  const waiting = await bench.toGate();
  const branch = `task-${waiting.id}`;
  await bench.write("INSERT INTO items VALUES (9, 'milk', 100)");
  await bench.write("UPDATE items SET price = 0", branch);
  const left = await bench.approve(waiting);
  assertEquals([left.stage, left.push_attempts], ["push_failed", []]);
  assertStringIncludes(left.reason!, "was changed after it came to the gate");
  assertEquals((await bench.rows()).at(1), [2, "coffee", 450]);
});

Deno.test("a base rolled back behind the fork gets what was approved, and nothing that it lost", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE]) });
  await bench.store((client) => client.call("checkpoint", { db: "shop", name: "before" }));
  await bench.write("INSERT INTO items VALUES (8, 'withdrawn', 1)");
  const waiting = await bench.toGate();
  await bench.store((client) => client.call("rollback", { db: "shop", to: "before" }));
  const done = await bench.approve(waiting);
  assertEquals([done.outcome, await bench.rows()], ["promoted", MERGED], done.reason);
});

Deno.test("an application that has the base's file open keeps it, and finds the approved rows there", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE]) });
  const { path } = await bench.store((client) => client.call("checkout", { db: "shop" }));
  const application = new Application(path);
  try {
    // Before the task begins: it works without that row, and nothing of it is lost.
    await application.run("INSERT INTO items VALUES (8, 'edit', 8)");
    const waiting = await bench.toGate();
    assertStringIncludes(
      (await bench.broker.engine.bases(waiting.id)).notes.join(),
      "has edits that are not in the store",
    );
    await application.run("SELECT count(*) FROM items");
    const done = await bench.approve(waiting);
    assertEquals(done.outcome, "promoted", done.reason);
    await application.run("INSERT INTO items VALUES (9, 'milk', 100)");
  } finally {
    await application.end();
  }
  const { checkout } = await bench.store((client) => client.call("open", { db: "shop" }));
  using db = new DatabaseSync(checkout, { readOnly: true });
  const rows = db.prepare("SELECT * FROM items ORDER BY id").all().map((row) => Object.values(row));
  assertEquals(rows, [...MERGED, [8, "edit", 8], MILK]);
});

Deno.test("an idle connection to the base's file means a merge; promote_only says what it left", async () => {
  for (const config of ["", "on_moved_base: promote_only\n"]) {
    await using bench = await DataBench.start({ script: agentDoes([RAISE]), config });
    const { path } = await bench.store((client) => client.call("checkout", { db: "shop" }));
    const application = new Application(path);
    try {
      await application.run("SELECT count(*) FROM items");
      const done = await bench.approve(await bench.toGate());
      assertEquals([done.outcome, await bench.rows()], ["promoted", MERGED], done.reason);
      const merged = config === "";
      assertEquals(resultsOf(done)[0]?.merged !== undefined, merged);
      assertEquals(/still has the old content.*python3 \(process \d+\)/.test(done.reason!), !merged, done.reason);
      using db = new DatabaseSync(path, { readOnly: true });
      assertEquals(db.prepare("SELECT * FROM items WHERE id = 4").all().length, merged ? 1 : 0);
    } finally {
      await application.end();
    }
  }
});

longTest("of two databases none lands while one is in conflict", async () => {
  const other: Parameters<typeof agentDoes>[0] = [RAISE];
  const script = agentDoes(other);
  script.splice(1, 0, {
    calls: [["sql", { database: "stats", statement: "UPDATE items SET price = 1 WHERE id = 1" }]],
  });
  await using bench = await DataBench.start({ script });
  const seed = `${bench.place.directory}/stats.db`;
  sqlite(seed, SHOP);
  await bench.store((client) => client.call("create", { db: "stats", from: seed }));
  const waiting = await bench.toGate(["shop", "stats"]);
  const { path } = await bench.store((client) => client.call("checkout", { db: "stats" }));
  sqlite(path, "UPDATE items SET price = 2 WHERE id = 1");
  await bench.store((client) => client.call("checkpoint", { db: "stats", name: "mine" }));
  const back = await bench.approve(waiting, "awaiting_approval");
  assertStringIncludes(back.reason!, "stats@main has moved since the task began");
  assertEquals((await bench.rows()).at(1), [2, "coffee", 450]);
  // The application takes its change back.
  sqlite(path, "UPDATE items SET price = 300 WHERE id = 1");
  await bench.store((client) => client.call("checkpoint", { db: "stats", name: "back" }));
  const done = await bench.approve(back);
  assertEquals(done.outcome, "promoted", done.reason);
  const out = `${bench.place.directory}/stats-out.db`;
  await bench.store((client) => client.call("export", { db: "stats", path: out }));
  using db = new DatabaseSync(out, { readOnly: true });
  assertEquals(Object.values(db.prepare("SELECT price FROM items WHERE id = 1").get()!), [1]);
});

const CHANGED: [unknown[], unknown[]] = [[2, "coffee", 500], [4, "mate", 350]];
type Meddle = (client: Client, branch: string, bench: DataBench) => Promise<unknown>;

/** What may happen to the base while a task waits, and which of its rows are there then; undefined: it is gone. */
const BASES: Record<string, [Meddle, number[] | undefined]> = {
  "away and back by rollback": [async (client, _branch, bench) => {
    await client.call("checkpoint", { db: "shop", name: "here" });
    await bench.write("DELETE FROM items");
    await client.call("rollback", { db: "shop", to: "here" });
  }, [1, 2, 3]],
  "away and back by undo": [async (client, _branch, bench) => {
    await client.call("checkpoint", { db: "shop", name: "here" });
    await bench.write("DELETE FROM items WHERE id = 1");
    await client.call("rollback", { db: "shop", to: "here" });
    await client.call("undo", { db: "shop" });
  }, [2, 3]],
  "compacted": [(client) => client.call("compact", { db: "shop" }), [1, 2, 3]],
  "promoted over": [async (client, _branch, bench) => {
    await client.call("fork", { db: "shop", new_branch: "other" });
    await bench.write("INSERT INTO items VALUES (7, 'milk', 9)", "other");
    await client.call("promote", { db: "shop", branch: "other", onto: "main" });
  }, [1, 2, 3, 7]],
  "destroyed": [(client) => client.call("destroy", { db: "shop", branch: "main", confirm: true }), undefined],
  "destroyed and brought back": [async (client) => {
    await client.call("destroy", { db: "shop", branch: "main", confirm: true });
    await client.call("undo", { db: "shop" });
  }, [1, 2, 3]],
  "destroyed and made of another branch": [async (client, _branch, bench) => {
    await client.call("fork", { db: "shop", new_branch: "other" });
    await bench.write("DELETE FROM items WHERE id = 3", "other");
    await client.call("destroy", { db: "shop", branch: "main", confirm: true });
    await client.call("fork", { db: "shop", branch: "other", new_branch: "main" });
  }, [1, 2]],
  "with edits that no one has stored": [async (client) => {
    sqlite((await client.call("checkout", { db: "shop" })).path, "INSERT INTO items VALUES (8, 'edit', 8)");
  }, [1, 2, 3, 8]],
};

/** What may happen to the task's own branch: then it is not what was approved, whatever it holds. */
const BRANCHES: Record<string, Meddle> = {
  "written to": (_client, branch, bench) => bench.write("UPDATE items SET price = 0", branch),
  "written to and back": async (_client, branch, bench) => {
    await bench.write("UPDATE items SET price = 0 WHERE id = 1", branch);
    await bench.write("UPDATE items SET price = 300 WHERE id = 1", branch);
  },
  "rolled back to its checkpoint": async (client, branch, bench) => {
    // At the gate it has one.
    await client.call("checkpoint", { db: "shop", branch, name: branch }).catch(() => {});
    await bench.write("UPDATE items SET price = 0", branch);
    await client.call("rollback", { db: "shop", branch, to: branch });
  },
  "replaced by the base": (client, branch) => client.call("promote", { db: "shop", branch: "main", onto: branch }),
  "destroyed": (client, branch) => client.call("destroy", { db: "shop", branch, confirm: true }),
  "destroyed and made again": async (client, branch) => {
    await client.call("destroy", { db: "shop", branch, confirm: true, safety: false });
    await client.call("fork", { db: "shop", new_branch: branch });
    await client.call("checkpoint", { db: "shop", branch, name: branch });
  },
};

scaledTest("whatever becomes of a task's branch while the agent works, nothing comes to a gate", async (t) => {
  for (const [name, meddle] of shortened(Object.entries(BRANCHES), 2)) {
    await t.step(name, async () => {
      const waits = Promise.withResolvers<void>();
      const [change, finish] = agentDoes([RAISE]);
      const meddled = async () => {
        await waits.promise;
        return finish!;
      };
      await using bench = await DataBench.start({ script: [change!, meddled] });
      const { id } = await bench.broker.submit({ databases: ["shop"] });
      const branch = `task-${id}`;
      await until(async () => (await bench.branches()).includes(branch) && bench.broker.model.asked.length >= 2);
      await bench.store((client) => meddle(client, branch, bench));
      waits.resolve();
      const done = await bench.broker.reaches(id, "awaiting_approval");
      assertEquals([done.stage, done.outcome], ["done", "agent_failed"], done.reason);
      assertEquals(await bench.rows(), SHOPPED);
    });
  }
});

scaledTest("whatever becomes of a base before the approval, exactly the approved rows come to it", async (t) => {
  for (const [name, [meddle, left]] of shortened(Object.entries(BASES), 3)) {
    await t.step(name, async () => {
      await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt") });
      const waiting = await bench.toGate();
      await bench.store((client) => meddle(client, `task-${waiting.id}`, bench));
      const done = await bench.approve(waiting);
      if (left === undefined) {
        assertEquals([done.stage, done.push_attempts], ["push_failed", []], done.reason);
        return;
      }
      assertEquals(done.outcome, "pushed", done.reason);
      const before = new Map([...SHOPPED, [7, "milk", 9], [8, "edit", 8]].map((row) => [row[0], row]));
      const expected = left.filter((id) => id !== 2).map((id) => before.get(id)!);
      assertEquals(await bench.rows(), [...expected, ...CHANGED].sort((a, b) => Number(a[0]) - Number(b[0])));
    });
  }
});

scaledTest("whatever becomes of a task's branch before the approval, nothing else lands", async (t) => {
  for (const [name, meddle] of shortened(Object.entries(BRANCHES), 3)) {
    await t.step(name, async () => {
      await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt") });
      const waiting = await bench.toGate();
      // Also where the base has moved, and a merge would have something to do.
      await bench.write("INSERT INTO items VALUES (7, 'milk', 9)");
      await bench.store((client) => meddle(client, `task-${waiting.id}`, bench));
      const left = await bench.approve(waiting);
      assertEquals([left.stage, left.push_attempts], ["push_failed", []], left.reason);
      assertEquals(await bench.rows(), [...SHOPPED, [7, "milk", 9]]);
    });
  }
});
