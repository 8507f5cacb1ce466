import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { hasCode, TaskdError } from "../../../lib/errors.ts";
import { BrokerBench, ONE_CHANGE, until } from "./bench.ts";
import { longTest } from "../../support/long.ts";

async function refused(bench: BrokerBench): Promise<TaskdError> {
  const error = await assertRejects(() => bench.submit(), TaskdError);
  assert(hasCode(error, "ceiling_reached"), error.message);
  return error;
}

// conformance: b7.never_killed b2.ceiling.usd_source
Deno.test("a task that crosses the global ceiling finishes; only new tasks are refused", async () => {
  await using bench = await BrokerBench.start({
    config: "global_budget_usd: 0.000001\nmax_concurrent_tasks: 2\n",
    script: [...ONE_CHANGE, ...ONE_CHANGE],
  });
  const { id } = await bench.submit();
  const waiting = await bench.reaches(id, "awaiting_approval");
  assertEquals([waiting.stage, waiting.spend?.requests], ["awaiting_approval", 2]);
  assertStringIncludes((await refused(bench)).message, "by tasks under way");
  const { spent_usd, in_flight_starts } = bench.engine.ceiling();
  assertEquals([spent_usd, in_flight_starts], [waiting.spend!.usd, 1]);

  await bench.engine.approve(id, { diff_sha256: waiting.gate!.diff_sha256, acknowledge: [] });
  assertEquals((await bench.reaches(id)).outcome, "pushed");
  await refused(bench);
  await bench.broker.stop();
  await bench.serve();
  await refused(bench);
  const view = bench.engine.ceiling();
  assertEquals([view.recorded_starts, view.in_flight_starts, view.spent_usd], [1, 0, spent_usd]);
  const metrics = await bench.engine.metrics();
  assertStringIncludes(metrics, 'taskd_broker_ceiling_blocked{limb="usd"} 1\n');
  assertStringIncludes(metrics, 'taskd_broker_starts_refused_total{code="ceiling_reached"} 1\n');
});

Deno.test("with budget_mode: strict nothing goes out that a ceiling has no room for", async () => {
  const config = (usd: number) => `budget_mode: strict\ntask_budget_usd: 100\nglobal_budget_usd: ${usd}\n`;
  {
    await using bench = await BrokerBench.start({ config: config(0.0001) });
    const { id } = await bench.submit();
    const { outcome, spend } = await bench.reaches(id);
    assertEquals([outcome, spend?.requests, bench.engine.ceiling().spent_usd], ["agent_failed", 0, 0]);
  }
  await using bench = await BrokerBench.start({ config: config(100), script: [...ONE_CHANGE, ...ONE_CHANGE] });
  for (let task = 0; task < 2; task++) await bench.pushed();
  assert(bench.engine.ceiling().spent_usd < 1, "what was held is free again");
});

longTest("a task at the gate is one start before and after the broker starts again, and at its end", async () => {
  await using bench = await BrokerBench.start({ config: "global_max_tasks: 2\n" });
  const { id } = await bench.submit();
  const { spend } = await bench.reaches(id, "awaiting_approval");
  const counts = () => {
    const { recorded_starts, in_flight_starts, spent_usd } = bench.engine.ceiling();
    return [recorded_starts, in_flight_starts, spent_usd];
  };
  assertEquals(counts(), [0, 1, spend!.usd]);
  await bench.broker.stop();
  await bench.serve();
  assertEquals(counts(), [0, 1, spend!.usd]);
  await bench.engine.deny(id, "no");
  await bench.reaches(id);
  await bench.broker.stop();
  await bench.serve();
  assertEquals(counts(), [1, 0, spend!.usd]);
});

Deno.test("the metrics of a broker tell stages, spend and what the proxy decided", async () => {
  await using bench = await BrokerBench.start();
  await bench.pushed();
  // A task is counted once its end is written.
  await until(async () => /^taskd_broker_tasks_ended_total\S* 1$/m.test(await bench.engine.metrics()));
  const metrics = await bench.engine.metrics();
  for (
    const line of [
      'stage_duration_seconds_count{stage="running"} 1',
      'gateway_requests_total{lane="compat",auth="api_key",ending="complete"} 2',
      'tasks_ended_total{outcome="pushed"} 1',
      'queue_items{state="queued"} 0',
    ]
  ) assertStringIncludes(metrics, `taskd_broker_${line}\n`);
  assert(/gateway_spend_usd_total\{lane="compat",auth="api_key"\} 0\.\d+/.test(metrics), metrics);
});

Deno.test("what an endpoint says that its answers cost stands in the trace, beside what was metered", async () => {
  const costs = [0.02, 0.01];
  const script = ONE_CHANGE.map((step, at) => ({ ...step as { calls: [string, unknown][] }, cost: costs[at]! }));
  await using bench = await BrokerBench.start({ script });
  const { id } = await bench.submit();
  const { spend } = await bench.reaches(id, "awaiting_approval");
  assertEquals(spend?.usd.toFixed(3), "0.024");
  const trace = await Deno.readTextFile(`${bench.home}/.taskd/audit/${id}.jsonl`);
  assertStringIncludes(trace, "the endpoint says that 2 requests cost $0.03; metered $0.02, $0.006000 less");
});
