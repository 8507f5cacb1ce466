import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { BrokerProcess } from "../engine/broker_process.ts";
import { agentDoes, DataBench, RAISE } from "./_bench.ts";

const AFTER = [[1, "tea", 300], [2, "coffee", 500], [3, "cocoa", 400], [4, "mate", 350]];

/** Starts a broker process and a task, and resolves when the task has come to `stage`. */
async function startTask(bench: DataBench, broker: BrokerProcess, stage: string): Promise<string> {
  await broker.says("broker_started");
  const { broker: { git } } = bench;
  const { id } = await broker.client.submit({ repo: git.origin, instruction: "Raise prices", databases: ["shop"] });
  await broker.says("task_stage", stage);
  return id;
}

/** Approves data alone, and kills the broker while the store stands still, before it is promoted. */
async function killedBeforePromotion(bench: DataBench): Promise<string> {
  await using broker = new BrokerProcess(bench.broker);
  const id = await startTask(bench, broker, "awaiting_approval");
  const { gate } = await broker.client.task(id);
  Deno.kill(bench.daemon.pid, "SIGSTOP");
  try {
    const { diff_sha256, second_look } = gate!;
    await broker.client.approve(id, { diff_sha256, acknowledge: second_look });
    await broker.says("task_stage", "pushing");
    await broker.kill();
  } finally {
    Deno.kill(bench.daemon.pid, "SIGCONT");
  }
  return id;
}

Deno.test("killed while the agent works: the next broker destroys the task's branch", async () => {
  await using bench = await DataBench.start({ script: ["hang"], serve: false });
  await using broker = new BrokerProcess(bench.broker);
  const id = await startTask(bench, broker, "running");
  await bench.broker.model.hanging;
  assertEquals(await bench.branches(), ["main", `task-${id}`]);
  await broker.kill();
  await bench.broker.serve();
  assertEquals((await bench.broker.engine.view(id)).outcome, "agent_failed");
  await bench.released();
});

Deno.test("killed while collecting: the branch goes with a failed task, or waits with one at the gate", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt"), serve: false });
  await using broker = new BrokerProcess(bench.broker);
  const id = await startTask(bench, broker, "collecting");
  await broker.kill();
  await bench.broker.serve();
  if ((await bench.broker.engine.view(id)).stage === "awaiting_approval") {
    assertEquals(await bench.rows(`task-${id}`), AFTER);
  } else await bench.released();
});

Deno.test("killed at the gate: data and code wait, and are promoted and pushed when approved", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt"), serve: false });
  await using broker = new BrokerProcess(bench.broker);
  const id = await startTask(bench, broker, "awaiting_approval");
  await broker.kill();
  await bench.broker.serve();
  const done = await bench.approve(await bench.broker.engine.view(id));
  assertEquals(done.outcome, "pushed", done.reason);
  assertEquals(await bench.rows(), AFTER);
  await bench.released();
});

Deno.test("killed while it promotes data alone: the next broker goes on with what was approved", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE]), serve: false });
  const id = await killedBeforePromotion(bench);
  await bench.broker.serve();
  const done = await bench.broker.reaches(id);
  assertEquals(done.outcome, "promoted", done.reason);
  assertStringIncludes(done.reason!, "shop@main has the change to the database");
  assertEquals(await bench.rows(), AFTER);
  assert(!(await bench.broker.branches()).has(`agent/${id}`));
  await bench.released();
});
