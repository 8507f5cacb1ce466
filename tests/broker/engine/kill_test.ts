import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { listProcesses } from "../../../broker/sandbox/processes.ts";
import type { SubmitRequest } from "../../../broker/task/schema.ts";
import { VirtualClock } from "../../support/clock.ts";
import { serveGit } from "../git/git_server.ts";
import { type BenchOptions, BrokerBench, silentServer, until } from "./bench.ts";
import { BrokerProcess } from "./broker_process.ts";
import { ProcessRuntime } from "./process_runtime.ts";
import { writeProgram } from "../../support/programs.ts";

/** Starts a broker, submits a task, lets `kill` decide when it dies, and starts the next one here. */
async function afterKill(
  options: BenchOptions,
  request: (bench: BrokerBench) => Partial<SubmitRequest>,
  untilDeath: (broker: BrokerProcess, id: string, bench: BrokerBench) => Promise<void>,
): Promise<{ bench: BrokerBench; id: string }> {
  const bench = await BrokerBench.prepare(options);
  try {
    await using broker = new BrokerProcess(bench);
    await broker.says("broker_started");
    const { id } = await broker.client.submit({ repo: bench.git.origin, instruction: "Say hello", ...request(bench) });
    await untilDeath(broker, id, bench);
    await broker.kill();
    const rows = Deno.readTextFileSync(`${bench.home}/.taskd/audit/${id}.jsonl`).split("\n").length;
    await bench.serve();
    const view = await bench.engine.view(id);
    assert(view.trace.intact && view.trace.rows >= rows - 1, "a row was lost");
    const left = await listProcesses();
    assertEquals(left.filter(({ command_line }) => command_line.endsWith(`:${id}`)), []);
    return { bench, id };
  } catch (error) {
    await bench[Symbol.asyncDispose]();
    throw error;
  }
}

Deno.test("a broker killed while staging: the task ends as setup_failed without scratch", async () => {
  using silent = silentServer();
  const { bench, id } = await afterKill(
    {},
    () => ({ repo: silent.url }),
    (broker) => broker.says("task_stage", "staging"),
  );
  await using _ = bench;
  const { outcome, reason } = await bench.engine.view(id);
  assertEquals(outcome, "setup_failed");
  assertStringIncludes(reason!, "the broker stopped while the task was in staging");
  assertEquals(bench.staged(), []);
});

Deno.test("a broker killed twice in setup: setup_failed, without scratch or cache entry", async () => {
  const programs = await Deno.makeTempDir();
  try {
    // Ends when it loses its output, as a sandbox does that is swept.
    await writeProgram(`${programs}/install`, "#!/bin/bash\nwhile echo waiting; do /bin/sleep 0.05; done\n");
    const bench = await BrokerBench.prepare({
      files: { "package-lock.json": "{}\n" },
      env: { SANDBOX_PROGRAMS: programs },
      overrides: { runtime: new ProcessRuntime(programs) },
    });
    await using _ = bench;
    bench.configure(
      `profiles:\n  repos:\n    file://${bench.git.origin}:\n      setup: [[install]]\n      cache: true\n`,
    );
    const ids: string[] = [];
    for (let life = 0; life < 2; life++) {
      await using broker = new BrokerProcess(bench);
      await broker.says("broker_started");
      ids.push((await broker.client.submit({ repo: bench.git.origin, instruction: "Say hello" })).id);
      await broker.says("task_stage", "setting_up");
      await until(() => Deno.readDirSync(`${bench.home}/.taskd/cache/staging`).toArray().length > 0);
    }
    await bench.serve();
    for (const id of ids) {
      const { outcome, reason, trace } = await bench.engine.view(id);
      assertEquals([outcome, trace.intact], ["setup_failed", true]);
      assertStringIncludes(reason!, "the broker stopped while the task was in setting_up");
    }
    assertEquals(bench.staged(), []);
    for (const folder of ["staging", "entries", "trash"]) {
      assertEquals(Deno.readDirSync(`${bench.home}/.taskd/cache/${folder}`).toArray(), []);
    }
  } finally {
    await Deno.remove(programs, { recursive: true });
  }
});

Deno.test("killed while the agent works: no process stays, and the task ends as agent_failed", async () => {
  const { bench, id } = await afterKill(
    { script: ["hang"] },
    () => ({}),
    async (_, __, { model }) => await model.hanging,
  );
  await using _ = bench;
  assertEquals((await bench.engine.view(id)).outcome, "agent_failed");
  assertEquals(bench.staged(), []);
});

Deno.test("killed while collecting: the task has failed, or waits at the gate; nothing in between", async () => {
  const { bench, id } = await afterKill({}, () => ({}), (broker) => broker.says("task_stage", "collecting"));
  await using _ = bench;
  const { stage, outcome } = await bench.engine.view(id);
  assert(stage === "awaiting_approval" || outcome === "agent_failed", `${stage} ${outcome}`);
});

Deno.test("killed at the gate: the change waits on, and can be approved and pushed", async () => {
  const { bench, id } = await afterKill({}, () => ({}), (broker) => broker.says("task_stage", "awaiting_approval"));
  await using _ = bench;
  const [pending] = bench.engine.pending();
  assertEquals(pending?.id, id);
  assertStringIncludes(new TextDecoder().decode(await bench.engine.diff(id)), "+hello");
  await bench.engine.approve(id, { diff_sha256: pending!.gate.diff_sha256, acknowledge: [] });
  const done = await bench.reaches(id);
  assertEquals([done.outcome, (await bench.branches()).get(`agent/${id}`)], ["pushed", done.pushed?.commit]);
});

Deno.test("a broker killed at the gate with its staged change lost: the task is not offered again", async () => {
  const { bench, id } = await afterKill({}, () => ({}), async (broker, id, bench) => {
    await broker.says("task_stage", "awaiting_approval");
    await broker.kill();
    await Deno.remove(`${bench.home}/.taskd/stage/${id}/git/objects`, { recursive: true });
  });
  await using _ = bench;
  const { outcome, reason } = await bench.engine.view(id);
  assertEquals(outcome, "cancelled");
  assertStringIncludes(reason!, "cannot be pushed any more");
});

for (
  const { when, fault, later, outcome } of [
    { when: "after the push had arrived", fault: "lose_answer", later: "reset", outcome: "pushed" },
    { when: "before the push arrived", fault: "reset", later: "pass", outcome: "pushed" },
    { when: "before the push arrived, which fails again", fault: "reset", later: "reset", outcome: "push_failed" },
  ] as const
) {
  Deno.test(`killed while pushing, ${when}: it is ${outcome}`, async () => {
    const bench = await BrokerBench.prepare();
    const died = Promise.withResolvers<void>();
    let killed = false;
    await using server = await serveGit(bench.git.root, ({ url }) => {
      if (!url.includes("git-receive-pack") || url.includes("info/refs")) return "pass";
      died.resolve();
      return killed ? later : fault;
    });
    await using _ = bench;
    await using broker = new BrokerProcess(bench);
    await broker.says("broker_started");
    const { id } = await broker.client.submit({ repo: `${server.origin}/acme/app.git`, instruction: "Say hello" });
    await broker.says("task_stage", "awaiting_approval");
    const { gate } = await broker.client.task(id);
    const is_there = async () => (await bench.branches()).has(`agent/${id}`);
    await broker.client.approve(id, { diff_sha256: gate!.diff_sha256, acknowledge: [] });
    await died.promise;
    if (fault === "lose_answer") await until(is_there);
    await broker.kill();
    killed = true;
    await bench.serve();
    const { push_attempts, ...record } = await bench.reaches(id);
    assertEquals(record.outcome ?? record.stage, outcome);
    assertEquals(await is_there(), outcome === "pushed");
    // It may arrive twice, and is there once.
    assertEquals(new Set(push_attempts.map(({ commit }) => commit)).size, 1);
  });
}

Deno.test("a broker killed while pushing to a remote that goes away: the task waits for its answer", async () => {
  const clock = new VirtualClock();
  const bench = await BrokerBench.prepare({ clock });
  const begun = Promise.withResolvers<void>();
  let remote: "loses the answer" | "is down" | "is back" = "loses the answer";
  await using server = await serveGit(bench.git.root, ({ url }) => {
    if (remote === "is back") return "pass";
    if (remote === "is down") return "reset";
    if (!url.includes("git-receive-pack") || url.includes("info/refs")) return "pass";
    begun.resolve();
    return "lose_answer";
  });
  await using _ = bench;
  await using broker = new BrokerProcess(bench);
  await broker.says("broker_started");
  const { id } = await broker.client.submit({ repo: `${server.origin}/acme/app.git`, instruction: "Say hello" });
  await broker.says("task_stage", "awaiting_approval");
  const { gate } = await broker.client.task(id);
  await broker.client.approve(id, { diff_sha256: gate!.diff_sha256, acknowledge: [] });
  await begun.promise;
  await until(async () => (await bench.branches()).has(`agent/${id}`));
  remote = "is down";
  await broker.kill();
  await bench.serve();
  await until(() => {
    clock.advance(1);
    return bench.engine.tasks.read(id).stage === "push_failed";
  });
  remote = "is back";
  await clock.sleeper(60_000);
  clock.advance(60_000);
  assertEquals((await bench.reaches(id, "done")).outcome, "pushed");
});
