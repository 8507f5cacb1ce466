import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { listProcesses } from "../../../broker/sandbox/processes.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { serveGit } from "../git/git_server.ts";
import { BrokerBench, oneChange, silentServer } from "./bench.ts";
import { longTest } from "../../support/long.ts";

const BY = { via: "page", who: "ada" } as const;

Deno.test("ended while it is cloned: the task is cancelled and git runs no more", async () => {
  using silent = silentServer();
  await using bench = await BrokerBench.start();
  const { id } = await bench.submit({ repo: silent.url });
  await bench.reaches(id, "staging");
  await bench.engine.kill(id, "wrong repository", BY);
  const done = await bench.reaches(id);
  assertEquals([done.outcome, done.reason, done.ended_by], ["cancelled", "wrong repository", BY]);
  const left = (await listProcesses()).filter(({ command_line }) => command_line.includes(silent.url));
  assertEquals(left, []);
});

Deno.test("cancelling a working agent ends its process, its token and the task", async () => {
  await using bench = await BrokerBench.start({
    script: ["hang"],
    overrides: { gateway: { limits: { last_drain_ms: 100 } } },
  });
  const { id } = await bench.submit();
  await bench.model.hanging;
  assertEquals(bench.engine.liveSpend(id)?.requests, 1);
  await bench.engine.kill(id, "", BY);
  const done = await bench.reaches(id);
  assertEquals([done.outcome, done.ended_by], ["cancelled", BY]);
  assertStringIncludes(done.reason!, "gave no reason");
  assertEquals(done.spend?.unmetered_requests, 1);
  assertEquals((await listProcesses()).filter(({ command_line }) => command_line.endsWith(`:${id}`)), []);
  assertEquals(bench.staged(), []);
});

Deno.test("ended at the gate: the task is cancelled and nothing is pushed", async () => {
  await using bench = await BrokerBench.start();
  const { id } = await bench.submit();
  await bench.reaches(id, "awaiting_approval");
  await bench.engine.kill(id, "not needed any more", BY);
  const { outcome, ended_by } = await bench.engine.view(id);
  assertEquals([outcome, ended_by], ["cancelled", BY]);
  assertEquals((await bench.branches()).size, 1);
  const again = await assertRejects(() => bench.engine.kill(id, ""), TaskdError);
  assertEquals(again.code, "wrong_state");
});

longTest("once a push has begun a task cannot be ended any more", async () => {
  await using bench = await BrokerBench.start();
  const pushing = Promise.withResolvers<void>();
  let broken = true;
  await using server = await serveGit(bench.git.root, ({ url }) => {
    if (!broken || !url.includes("git-receive-pack")) return "pass";
    pushing.resolve();
    return "reset";
  });
  const { id } = await bench.submit({ repo: `${server.origin}/acme/app.git` });
  const { gate } = await bench.reaches(id, "awaiting_approval");
  await bench.engine.approve(id, { diff_sha256: gate!.diff_sha256, acknowledge: [] });
  await pushing.promise;
  broken = false;
  const refused = await assertRejects(() => bench.engine.kill(id, "stop"), TaskdError);
  assertEquals(refused.code, "wrong_state");
  assertEquals((await bench.reaches(id)).outcome, "pushed");
});

Deno.test("ended while the broker's stop ends it already: no notice says that the task was cancelled", async () => {
  await using bench = await BrokerBench.start({
    script: ["hang"],
    overrides: { gateway: { limits: { last_drain_ms: 500 } } },
  });
  const { id } = await bench.submit();
  await bench.model.hanging;
  const { engine } = bench;
  const stopped = engine.stop();
  const refused = await assertRejects(() => engine.kill(id, "too late"), TaskdError);
  assertEquals(refused.code, "wrong_state");
  await stopped;
  await bench.broker.stop();
  await bench.serve();
  assertEquals((await bench.engine.view(id)).outcome, "agent_failed");
});

Deno.test("a stopping broker ends what runs with the reason, keeps the gate, and takes nothing more", async () => {
  await using bench = await BrokerBench.start({
    script: [
      (asked) => asked.body.messages.some(({ content }) => content?.includes("SLEEP")) ? "hang" : oneChange(asked),
    ],
    overrides: { gateway: { limits: { last_drain_ms: 100 } } },
  });
  const gate = await bench.submit();
  await bench.reaches(gate.id, "awaiting_approval");
  const runs = await bench.submit({ instruction: "SLEEP" });
  await bench.model.hanging;
  const { engine, socket } = bench.broker;
  await bench.broker.stop();
  const refused = await assertRejects(() => engine.submit({ repo: bench.git.origin, instruction: "x" }), TaskdError);
  assertEquals(refused.code, "stopping");
  assertEquals(await Deno.stat(socket).then(() => true, () => false), false);

  await bench.serve();
  const ended = await bench.engine.view(runs.id);
  assertEquals(ended.outcome, "agent_failed");
  assertStringIncludes(ended.reason!, "the broker was stopped while the task was in running");
  assertEquals(bench.engine.pending().map(({ id }) => id), [gate.id]);
  assert(ended.trace.intact);
});

Deno.test("an approval that another decision overtakes is refused as such, and nothing was altered", async () => {
  await using bench = await BrokerBench.start();
  const { id } = await bench.submit();
  const { gate } = await bench.reaches(id, "awaiting_approval");
  const approval = { diff_sha256: gate!.diff_sha256, acknowledge: [] };
  const approving = bench.engine.approve(id, approval).catch((error) => error);
  await bench.engine.deny(id, "not needed");
  assertEquals((await approving).code, "wrong_state");
  assertEquals((await bench.reaches(id)).outcome, "denied");
});
