/**
 * SIGKILL of the broker at every step of a landing with data: the next broker has landed both halves, each once, or the
 * task waits and says for what.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Row } from "../../../broker/task/rows.ts";
import { scaledTest, shortened } from "../../support/long.ts";
import { writeProgram } from "../../support/programs.ts";
import { plainGit } from "../git/bench.ts";
import { BrokerProcess } from "../engine/broker_process.ts";
import { agentDoes, DataBench, decided, RAISE, resultsOf } from "./_bench.ts";
import { lands } from "./_store_proxy.ts";

/** A moment of a landing: a row is on the disk, the remote is about to take the push or has, the store likewise. */
type Moment =
  | { row: Partial<Row> }
  | { remote: "has not taken it" | "takes it later" | "has taken it" }
  | { store: "before" | "after" };

const PUSHING: readonly Moment[] = [
  { row: { type: "stage", to: "pushing" } as Partial<Row> },
  { row: { type: "evidence", name: "landing" } },
  { row: { type: "push_attempt" } },
  { remote: "has not taken it" },
  { remote: "takes it later" },
  { remote: "has taken it" },
];
/** The branch is merged by a person and deleted before the next broker starts. */
const ARRIVED: Moment = { row: { type: "evidence", name: "arrived" } };
const LANDING: readonly Moment[] = [
  { store: "before" },
  { store: "after" },
  { row: { type: "evidence", name: "database_results" } },
];
const DONE: Moment = { row: { type: "stage", to: "done" } as Partial<Row> };
const WAITS: Moment = { row: { type: "stage", to: "data_waits" } as Partial<Row> };

/** How the base is when the data comes: as the task began, gone on, or with a conflict that the check did not see. */
type Base = "still" | "moved" | "in conflict";

const CASES: [Base, Moment][] = [
  ...[...PUSHING, ARRIVED, ...LANDING, DONE].map((moment): [Base, Moment] => ["still", moment]),
  ...[...LANDING, DONE].map((moment): [Base, Moment] => ["moved", moment]),
  ...[...LANDING, WAITS].map((moment): [Base, Moment] => ["in conflict", moment]),
];

scaledTest(
  "a broker killed at any step of a landing: both halves land once, or the data waits",
  async (t) => {
    for (const [base, moment] of shortened(CASES, 4)) {
      await t.step(`base ${base}, ${JSON.stringify(moment)}`, () => killedAt(base, moment));
    }
  },
);

async function killedAt(base: Base, moment: Moment): Promise<void> {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt"), serve: false, proxy: true });
  const hooks = `${bench.broker.git.origin}/hooks`;
  let id: string;
  {
    await using broker = new BrokerProcess(bench.broker, "row" in moment ? { kill_after: moment.row } : {});
    await broker.says("broker_started");
    ({ id } = await broker.client.submit({
      repo: bench.broker.git.origin,
      instruction: "Raise prices",
      databases: ["shop"],
    }));
    await broker.says("task_stage", "awaiting_approval");
    if (base !== "still") await bench.write("INSERT INTO items VALUES (9, 'milk', 100)");
    let clashes = base === "in conflict";
    bench.proxy.onStep = async (request, now) => {
      if (!lands(request)) return;
      if (clashes) await bench.write("UPDATE items SET price = 460 WHERE id = 2");
      clashes = false;
      if (!("store" in moment) || now !== moment.store) return;
      await broker.kill();
      throw new Error("killed");
    };
    if ("remote" in moment) {
      const hook = moment.remote === "has taken it" ? "post-receive" : "pre-receive";
      const code = moment.remote === "has not taken it" ? 1 : 0;
      await writeProgram(`${hooks}/${hook}`, `#!/bin/sh\nkill -KILL ${broker.pid}\nexit ${code}\n`);
    }
    const { gate } = await broker.client.task(id);
    // Killed before it can answer, too.
    await broker.client.approve(id, { diff_sha256: gate!.diff_sha256, acknowledge: gate!.second_look }).catch(() => {});
    await broker.died();
  }
  bench.proxy.onStep = () => {};
  if (moment === ARRIVED) await plainGit(bench.broker.git.origin, "update-ref", "-d", `refs/heads/agent/${id}`);
  for (const hook of ["pre-receive", "post-receive"]) await Deno.remove(`${hooks}/${hook}`).catch(() => {});
  // An application that goes back to what it had: what landed a second time would show.
  const landed = (await bench.rows()).some((row) => (row as unknown[])[0] === 4);
  if (landed) await bench.write("UPDATE items SET price = 450 WHERE id = 2; DELETE FROM items WHERE id = 4");
  await bench.broker.serve();
  let { engine } = bench.broker;
  let end = await bench.broker.reaches(id, "awaiting_approval", "push_failed", "data_waits");
  if (base === "in conflict") {
    assertEquals([end.stage, resultsOf(end)[0]?.conflicts?.total], ["data_waits", 1], end.reason);
    assertStringIncludes(end.reason!, `to decide: taskd review ${id.slice(0, 12)}`);
    assertEquals((await bench.broker.branches()).get(`agent/${id}`), end.pushed!.commit);
    // So after one more start.
    await bench.broker.broker.stop();
    await bench.broker.serve();
    ({ engine } = bench.broker);
    end = await bench.broker.reaches(id, "awaiting_approval", "push_failed", "data_waits");
    assertEquals(end.stage, "data_waits", end.reason);
    await engine.push(id, decided(end, "theirs"));
    end = await bench.broker.reaches(id, "push_failed", "data_waits");
  }
  assertEquals([end.outcome, resultsOf(end)[0]?.result], ["pushed", "promoted"], end.reason);
  const pushed = [...(await bench.broker.branches())].filter(([name]) => name.startsWith("agent/"));
  assertEquals(pushed, moment === ARRIVED ? [] : [[`agent/${id}`, end.pushed!.commit]]);
  const milk = base === "still" ? [] : [[9, "milk", 100]];
  const changed = landed
    ? [[2, "coffee", 450], [3, "cocoa", 400]]
    : [[2, "coffee", 500], [3, "cocoa", 400], [4, "mate", 350]];
  assertEquals(await bench.rows(), [[1, "tea", 300], ...changed, ...milk]);
  const { verified, checks } = await engine.verification(id);
  assert(verified, JSON.stringify(checks));
  await bench.released();
}
