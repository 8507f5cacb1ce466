/** A change of which one half has landed: the record, the reason and the desktop say which, and the other half follows. */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { TaskRecord } from "../../../broker/task/schema.ts";
import type { Scripted } from "../../support/model_server.ts";
import { writeProgram } from "../../support/programs.ts";
import type { BenchOptions } from "../engine/bench.ts";
import { DataBench, decided, resultsOf, SHOP, sqlite } from "./_bench.ts";
import { lands } from "./_store_proxy.ts";

const CHEAPER = "UPDATE items SET price = 1 WHERE id = 1";

/** A task that changes `shop` and `stats`, and a file where it is asked for. */
async function start(options: Omit<BenchOptions, "script">, file?: string): Promise<DataBench> {
  const script: Scripted[] = [
    ...["shop", "stats"].map((database): Scripted => ({ calls: [["sql", { database, statement: CHEAPER }]] })),
    ...file === undefined ? [] : [{ calls: [["write", { path: file, content: "new\n" }]] } as Scripted],
    { calls: [["finish", { summary: "done" }]] },
  ];
  const bench = await DataBench.start({ ...options, script, proxy: true });
  const seed = `${bench.place.directory}/stats.db`;
  sqlite(seed, SHOP);
  await bench.store((client) => client.call("create", { db: "stats", from: seed }));
  return bench;
}

const price = async (bench: DataBench, db: string) =>
  (await bench.rows("main", "SELECT price FROM items WHERE id = 1", db)).flat()[0];

/** The application's own price in `stats`. */
async function clash(bench: DataBench): Promise<void> {
  const { checkout } = await bench.store((client) => client.call("open", { db: "stats" }));
  sqlite(checkout, "UPDATE items SET price = 7 WHERE id = 1");
  await bench.store((client) => client.call("close", { db: "stats" }));
}

/** What the record proves of the data. */
async function dataCheck(bench: DataBench, { id }: TaskRecord) {
  const { verified, checks } = await bench.broker.engine.verification(id);
  assert(verified, JSON.stringify(checks));
  return checks.find(({ what }) => what === "data")?.detail;
}

Deno.test("a branch store killed between two databases: one has landed, the other waits and says so", async () => {
  const desktop = await Deno.makeTempDir();
  try {
    const shown = `${desktop}/shown`;
    const program = `${desktop}/notify-send`;
    await writeProgram(program, `#!/bin/sh\necho "$3" >> ${shown}\n`);
    const titles = async () => {
      // What is under way is waited for by the stop.
      await bench.broker.broker.stop();
      return Deno.readTextFileSync(shown).trim().split("\n").map((line) => line.replace("taskd: ", ""));
    };
    await using bench = await start({ programs: { "notify-send": [program] } }, "a.txt");
    const waiting = await bench.toGate(["shop", "stats"]);
    let count = 0;
    bench.proxy.onStep = async (request, moment) => {
      if (lands(request) && moment === "before" && ++count === 2) await bench.daemon.stop("SIGKILL");
    };
    const left = await bench.approve(waiting);
    bench.proxy.onStep = () => {};
    assertEquals([left.stage, resultsOf(left).map(({ result }) => result)], ["data_waits", ["promoted", "kept"]]);
    assertStringIncludes(left.reason!, "shop@main has the change to the database");
    assertStringIncludes(left.reason!, `stats@task-${left.id} is NOT promoted onto main and is kept`);
    const half = "shop@main at transaction 2, stats@main does not have it, it waits";
    assertEquals(await dataCheck(bench, left), half);
    const gate_and_data = ["an approval is pending", "a change is pushed, its data waits"];
    assertEquals(await titles(), gate_and_data);
    const again = async () => {
      await bench.broker.serve();
      return await bench.broker.reaches(left.id, "data_waits");
    };
    // Still away: the same news is no news.
    assertEquals((await again()).stage, "data_waits");
    assertEquals(await titles(), gate_and_data);
    await bench.startDaemon();
    await bench.write("UPDATE items SET price = 300 WHERE id = 1");
    await clash(bench);
    const asks = await again();
    assertEquals([asks.stage, resultsOf(asks)[1]?.conflicts?.total], ["data_waits", 1], asks.reason);
    assertEquals(await dataCheck(bench, asks), half);
    assertEquals(await titles(), [...gate_and_data, gate_and_data[1]]);
    assertEquals((await again()).stage, "data_waits");
    await bench.broker.engine.push(left.id, decided(asks, "theirs"));
    const done = await bench.broker.reaches(left.id, "data_waits");
    // What the application did with the half that had landed stays.
    assertEquals(
      [done.outcome, await price(bench, "shop"), await price(bench, "stats")],
      ["pushed", 300, 1],
      done.reason,
    );
    assertStringIncludes((await dataCheck(bench, done))!, "stats@main at transaction");
    assertEquals(await titles(), [...gate_and_data, gate_and_data[1]]);
  } finally {
    await Deno.remove(desktop, { recursive: true });
  }
});

for (const file of ["a.txt", undefined]) {
  const what = file === undefined ? "of data alone" : "with code";
  Deno.test(`a change ${what}: a database that has its half unrecorded is not given up`, async () => {
    await using bench = await start({}, file);
    const waiting = await bench.toGate(["shop", "stats"]);
    bench.proxy.onStep = async (request, moment) => {
      if (!lands(request) || moment === "after") return;
      bench.proxy.onStep = () => {};
      // As a round that was cut off after its first database; then both are written to.
      const branch = `task-${waiting.id}`;
      await bench.store((client) => client.call("promote", { db: "shop", branch, onto: "main" }));
      await bench.write("INSERT INTO items VALUES (9, 'milk', 100)");
      await clash(bench);
      await bench.daemon.stop("SIGKILL");
    };
    const cut_off = await bench.approve(waiting);
    assertEquals(cut_off.stage, file === undefined ? "push_failed" : "data_waits", cut_off.reason);
    await bench.startDaemon();
    const { engine } = bench.broker;
    await engine.push(cut_off.id);
    const left = await bench.broker.reaches(cut_off.id, "push_failed", "data_waits", "awaiting_approval");
    assertEquals(
      resultsOf(left).map(({ db, result }) => [db, result]),
      [["shop", "promoted"], ["stats", "kept"]],
      left.reason,
    );
    assertStringIncludes(left.reason!, "shop@main has the change to the database");
    await engine.kill(left.id, "enough");
    const done = engine.tasks.read(left.id);
    assertEquals(resultsOf(done).map(({ result }) => result), ["promoted", "given_up"]);
    assertStringIncludes(done.reason!, "shop@main has the change to the database");
    assertStringIncludes((await dataCheck(bench, done))!, "stats@main does not have it, it was given up");
    assertEquals([await price(bench, "shop"), await price(bench, "stats")], [1, 7]);
  });
}

Deno.test("a gate that is come to again says which database was merged by hand", async () => {
  await using bench = await start({}, "a.txt");
  const waiting = await bench.toGate(["shop", "stats"]);
  await clash(bench);
  const branch = `task-${waiting.id}`;
  await bench.store((client) => client.call("merge", { db: "shop", branch, checkpoint: branch, into: "main" }));
  const back = await bench.approve(waiting, "awaiting_approval");
  assertEquals(back.stage, "awaiting_approval");
  assertStringIncludes(
    back.reason!,
    "shop@main has the change already; nothing else has landed, neither code nor data",
  );
  const done = await bench.approve(back, undefined, { prefer: "ours" });
  assertEquals([done.outcome, await price(bench, "shop"), await price(bench, "stats")], ["pushed", 1, 7], done.reason);
});

Deno.test("a landing under way is neither denied, killed, approved again nor pushed", async () => {
  await using bench = await start({}, "a.txt");
  const waiting = await bench.toGate(["shop", "stats"]);
  const { id, gate } = waiting;
  const { engine } = bench.broker;
  const request = { diff_sha256: gate!.diff_sha256, acknowledge: gate!.second_look };
  const codes: unknown[] = [];
  bench.proxy.onStep = async (step, moment) => {
    if (!lands(step) || moment === "before") return;
    for (
      const ask of [
        () => engine.deny(id, "no"),
        () => engine.kill(id, "no"),
        () => engine.approve(id, request),
        () => engine.push(id),
      ]
    ) codes.push(await ask().then(() => "done", ({ code }) => code));
  };
  const done = await bench.approve(waiting);
  assertEquals([done.outcome, resultsOf(done).map(({ result }) => result)], ["pushed", ["promoted", "promoted"]]);
  assertEquals(codes, Array.from({ length: 8 }, () => "wrong_state"));
  assertEquals([await price(bench, "shop"), await price(bench, "stats")], [1, 1]);
});
