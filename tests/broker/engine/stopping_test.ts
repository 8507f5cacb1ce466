import { assert, assertEquals, assertRejects } from "@std/assert";
import { TaskdError } from "../../../lib/errors.ts";
import { BrokerBench } from "./bench.ts";

Deno.test("attack: an answer to a gate while the broker stops is refused, and the gate waits", async () => {
  await using bench = await BrokerBench.start();
  const { id } = await bench.submit();
  const { gate } = await bench.reaches(id, "awaiting_approval");
  const { engine } = bench;
  const stopped = bench.broker.stop();
  await Promise.resolve();
  const consent = { diff_sha256: gate!.diff_sha256, acknowledge: [] };
  const answers = [() => engine.approve(id, consent), () => engine.deny(id, "no")];
  const refusals = async () => {
    for (const answer of answers) assertEquals((await assertRejects(answer, TaskdError)).code, "stopping");
  };
  await stopped;
  await refusals();
  await bench.serve();
  assertEquals(bench.engine.pending().map(({ id }) => id), [id]);
  assertEquals((await bench.branches()).has(`agent/${id}`), false);
  await bench.engine.deny(id, "no");
});

Deno.test("attack: a gate whose trace another process holds cannot be answered", async () => {
  await using bench = await BrokerBench.start();
  const { id } = await bench.submit();
  const { gate } = await bench.reaches(id, "awaiting_approval");
  await bench.broker.stop();
  {
    using held = Deno.openSync(`${bench.home}/.taskd/audit/${id}.jsonl`, { read: true, write: true });
    assert(held.tryLockSync(true));
    await bench.serve();
  }
  const consent = { diff_sha256: gate!.diff_sha256, acknowledge: [] };
  for (const answer of [() => bench.engine.approve(id, consent), () => bench.engine.deny(id, "no")]) {
    assertEquals((await assertRejects(answer, TaskdError)).code, "unavailable");
  }
  const stale = { diff_sha256: "0".repeat(64), acknowledge: [] };
  assertEquals((await assertRejects(() => bench.engine.approve(id, stale), TaskdError)).code, "stale_diff");
  assertEquals((await bench.engine.view(id)).stage, "awaiting_approval");
});

Deno.test("attack: a task submitted during a stop is ended by it, and nothing runs on", async () => {
  await using bench = await BrokerBench.start({ script: ["hang"] });
  const { engine } = bench;
  const submitted = bench.submit().then(({ id }) => id);
  // Past every check: its first row is being written.
  for (let turn = 0; turn < 50; turn++) await Promise.resolve();
  await engine.stop();
  const id = await submitted;
  await bench.broker.stop();
  assertEquals(engine.health().running, 0);
  await bench.serve();
  const { stage, outcome } = await bench.engine.view(id);
  assertEquals([stage, outcome], ["done", "setup_failed"]);
  assertEquals([bench.staged(), bench.model.asked.length], [[], 0]);
});
