import { assert, assertEquals } from "@std/assert";
import { systemClock } from "../../../lib/clock.ts";
import type { TaskRecord } from "../../../broker/task/schema.ts";
import { scaledTest, shortened } from "../../support/long.ts";
import type { Scripted } from "../../support/model_server.ts";
import { BrokerProcess } from "../engine/broker_process.ts";
import type { BenchOptions } from "../engine/bench.ts";
import { DataBench, resultsOf, SHOP, sqlite } from "./_bench.ts";
import { lands, type StoreRequest } from "./_store_proxy.ts";

const BOTH = ["shop", "stats"];

/** An agent that does the same to both databases, and writes a file of its own. */
function agent(statement: string, file: string): Scripted[] {
  return [
    ...BOTH.map((database): Scripted => ({ calls: [["sql", { database, statement }]] })),
    { calls: [["write", { path: file, content: "new\n" }]] },
    { calls: [["finish", { summary: "done" }]] },
  ];
}

const FIRST = "UPDATE items SET price = 1 WHERE id = 1";
/** In conflict with it, and not. */
const AGAINST = "UPDATE items SET price = 2 WHERE id = 1";
const BESIDE = "UPDATE items SET price = 3 WHERE id = 3";

async function start(second: string, options: Omit<BenchOptions, "script"> & { serve?: false } = {}) {
  const script = [...agent(second, "second.txt"), ...agent(FIRST, "first.txt")];
  const bench = await DataBench.start({ ...options, script, proxy: true });
  const seed = `${bench.place.directory}/stats.db`;
  sqlite(seed, SHOP);
  await bench.store((client) => client.call("create", { db: "stats", from: seed }));
  return bench;
}

/** The prices of both databases, by id. */
async function prices(bench: DataBench): Promise<unknown[]> {
  const all = [];
  for (const db of BOTH) all.push((await bench.rows("main", "SELECT price FROM items ORDER BY id", db)).flat());
  return all;
}

/** Whether all of a task has landed, or nothing of it. */
async function isWhole(bench: DataBench, task: TaskRecord, id: number, price: number): Promise<boolean> {
  const code = (await bench.broker.branches()).has(`agent/${task.id}`);
  const data = (await prices(bench)).map((row) => (row as number[])[id - 1] === price);
  const landed = task.stage === "done";
  if (landed) assertEquals(resultsOf(task).map(({ result }) => result), ["promoted", "promoted"], task.reason);
  return [code, ...data].every((one) => one === landed);
}

Deno.test("two tasks in conflict on two databases, approved at once: one lands, one lands nothing", async () => {
  await using bench = await start(AGAINST);
  const second = await bench.toGate(BOTH.toReversed());
  const first = await bench.toGate(BOTH);
  const other = Promise.withResolvers<void>();
  let begun: StoreRequest | undefined;
  bench.proxy.onStep = async (request, moment) => {
    if (moment === "after" || !lands(request)) return;
    if (begun !== undefined && begun.branch !== request.branch) other.resolve();
    begun ??= request;
    // The other one has long looked at both when it comes that far.
    if (begun === request) await Promise.race([other.promise, systemClock.sleep(500)]);
  };
  const ends = await Promise.all([first, second].map((task) => bench.approve(task, "awaiting_approval")));
  assertEquals(
    ends.map(({ stage }) => stage).sort(),
    ["awaiting_approval", "done"],
    ends.map(({ reason }) => reason).join(),
  );
  assert(await isWhole(bench, ends[0]!, 1, 1));
  assert(await isWhole(bench, ends[1]!, 1, 2));
});

/** A moment at which the broker is killed: before or after the nth request that brings data. */
interface Kill {
  nth: number;
  moment: "before" | "after";
}

// In conflict only the first task brings data, to both databases.
for (const [name, second, requests] of [["in conflict", AGAINST, 2], ["beside each other", BESIDE, 4]] as const) {
  scaledTest(`two approved tasks ${name} end whole, by SIGKILL at every step of their landing`, async (t) => {
    const kills = Array.from({ length: 2 * requests }, (_, at): Kill => {
      return { nth: 1 + (at >> 1), moment: at % 2 === 0 ? "before" : "after" };
    });
    for (const kill of shortened(kills, 2)) {
      await t.step(`${kill.moment} ${kill.nth}`, () => killed(second, kill));
    }
  });
}

async function killed(second_does: string, { nth, moment }: Kill): Promise<void> {
  await using bench = await start(second_does, { serve: false });
  const ids: string[] = [];
  {
    await using broker = new BrokerProcess(bench.broker);
    await broker.says("broker_started");
    for (const databases of [BOTH.toReversed(), BOTH]) {
      const repo = bench.broker.git.origin;
      ids.push((await broker.client.submit({ repo, instruction: "Change prices", databases })).id);
      while ((await broker.client.task(ids.at(-1)!)).stage !== "awaiting_approval") await systemClock.sleep(20);
    }
    const killing = Promise.withResolvers<void>();
    let count = 0;
    bench.proxy.onStep = async (request, now) => {
      if (!lands(request) || now !== moment || ++count !== nth) return;
      await broker.kill();
      killing.resolve();
      throw new Error("killed");
    };
    // The second was submitted first, and the first is approved first.
    for (const id of ids.toReversed()) {
      const { gate } = await broker.client.task(id);
      await broker.client.approve(id, { diff_sha256: gate!.diff_sha256, acknowledge: gate!.second_look });
    }
    await killing.promise;
  }
  bench.proxy.onStep = () => {};
  await bench.broker.serve();
  const [second, first] = await Promise.all(
    ids.map((id) => bench.broker.reaches(id, "awaiting_approval", "push_failed", "data_waits")),
  );
  assertEquals(first!.stage, "done", first!.reason);
  assert(await isWhole(bench, first!, 1, 1), first!.reason);
  const [id, price] = second_does === AGAINST ? [1, 2] : [3, 3];
  assertEquals(second!.stage, second_does === AGAINST ? "awaiting_approval" : "done", second!.reason);
  assert(await isWhole(bench, second!, id, price), second!.reason);
}
