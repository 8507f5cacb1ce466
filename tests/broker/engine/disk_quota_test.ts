import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { COUNT_EVERY_MS } from "../../../broker/engine/disk_watch.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { VirtualClock } from "../../support/clock.ts";
import type { Asked, Scripted } from "../../support/model_server.ts";
import { podmanTest, testRuntime } from "../../support/podman.ts";
import { BrokerBench, oneChange, until } from "./bench.ts";

/** A mebibyte or so, which two files of the agent's are beyond. */
const QUOTA = "task_disk_gb: 0.001\n";
const FILE = "x".repeat(900_000);

/** Writes two files, then asks `last` what comes next. */
function writer(last: () => Scripted | Promise<Scripted>): (asked: Asked) => Scripted | Promise<Scripted> {
  return ({ body }) => {
    const turns = body.messages.filter(({ role }) => role === "assistant").length;
    if (turns < 2) return { calls: [["write", { path: `file${turns}`, content: FILE }]] };
    return last();
  };
}

const FINISH: Scripted = { calls: [["finish", { summary: "done" }]] };

for (const when of ["while its agent runs", "right before its end"] as const) {
  Deno.test(`a task that writes more than task_disk_gb ${when} ends as that, and its scratch goes`, async () => {
    const clock = new VirtualClock();
    const over = Promise.withResolvers<Scripted>();
    await using bench = await BrokerBench.start({
      clock,
      config: QUOTA,
      script: [writer(() => when === "right before its end" ? FINISH : over.promise)],
    });
    const { id } = await bench.submit();
    await until(async () => {
      if (when === "while its agent runs" && clock.sleeping.includes(COUNT_EVERY_MS)) clock.advance(COUNT_EVERY_MS);
      const { stage, disk } = await bench.engine.view(id);
      // It is to end by now, and the gateway waits for the answer.
      if (disk !== undefined && disk.peak_bytes > disk.limit_bytes) over.resolve(FINISH);
      return stage === "done";
    });
    const { outcome, reason, disk, trace } = await bench.engine.view(id);
    assertEquals(outcome, "agent_failed");
    assertStringIncludes(reason ?? "", "it took 1.7 MiB of disk, more than task_disk_gb (1 MiB)");
    assertEquals([disk?.limit_bytes, trace.intact], [1_073_741, true]);
    assert(disk!.peak_bytes > 1_800_000);
    assertEquals(bench.staged(), []);
    const metrics = await bench.engine.metrics();
    assertStringIncludes(metrics, "taskd_broker_task_disk_bytes_count 1\n");
    assertStringIncludes(metrics, "taskd_broker_tasks_disk_bytes 0\n");
  });
}

Deno.test("what a task took is kept with it at the gate; 0 counts nothing", async () => {
  await using bench = await BrokerBench.prepare();
  for (const config of ["", "task_disk_gb: 0\n"]) {
    bench.configure(config);
    const broker = await bench.serve();
    const { id } = await bench.submit();
    await bench.reaches(id, "awaiting_approval");
    const { disk } = await bench.engine.view(id);
    assertEquals(disk?.limit_bytes, config === "" ? 10 * 2 ** 30 : undefined);
    assertEquals(disk === undefined || disk.peak_bytes > 0, true);
    await broker.stop();
  }
});

Deno.test("no task is begun while the file system of stage_root has no room, and one is once it has", async () => {
  let free = 1_000;
  await using bench = await BrokerBench.start({
    overrides: { space: () => Promise.resolve({ free, total: 2 ** 40 }) },
    script: [oneChange],
  });
  const { code, message } = await assertRejects(() => bench.submit(), TaskdError);
  assertEquals(code, "no_space");
  assertStringIncludes(message, "are free below stage_root, fewer than 1 GiB");
  assertStringIncludes(await bench.engine.metrics(), 'taskd_broker_starts_refused_total{code="no_space"} 1\n');
  assert(bench.lines.some((line) => line.includes("stage_low")));
  free = 2 ** 39;
  const { id } = await bench.submit();
  assertEquals((await bench.reaches(id, "awaiting_approval")).stage, "awaiting_approval");
});

podmanTest("a container that writes more than task_disk_gb is ended while it runs, and holes are free", async () => {
  await using test = await testRuntime();
  await using bench = await BrokerBench.prepare({
    env: { VENDORA_API_KEY: "sk-vendor-a-0123456789abcdef" },
    overrides: { runtime: test.runtime },
  });
  const script = "truncate -s 2T hole; head -c 3000000 /dev/urandom > large; chmod 0 .; sleep 600";
  bench.configure(`sandbox_image: ${test.image}
network: ${test.network}
gateway_ip: ${test.gateway_ip}
${QUOTA}profiles:
  repos:
    "file://${bench.git.origin}":
      setup: [["sh", "-c", ${JSON.stringify(script)}]]
`);
  await bench.serve();
  const { id } = await bench.submit({ agent: "agent_a", model: "claude-sonnet-4-5" });
  const { outcome, reason } = await bench.reaches(id);
  assertEquals(outcome, "setup_failed", reason);
  assertStringIncludes(reason ?? "", "it took 2.9 MiB of disk, more than task_disk_gb (1 MiB)");
  assertEquals(bench.staged(), []);
});
