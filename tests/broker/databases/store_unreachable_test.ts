import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { TaskdError } from "../../../lib/errors.ts";
import { serveGit } from "../git/git_server.ts";
import { agentDoes, DataBench, RAISE, resultsOf } from "./_bench.ts";
import { longTest } from "../../support/long.ts";

/** Starts a daemon and a broker again: what is left of tasks that have ended is destroyed by then. */
async function startAgain(bench: DataBench): Promise<void> {
  await bench.startDaemon();
  await bench.broker.broker.stop();
  await bench.broker.serve();
  await bench.broker.broker.stop();
}

Deno.test("without a branch store a task with databases is refused, and nothing is started", async () => {
  await using bench = await DataBench.start();
  await bench.daemon.stop();
  const error = await assertRejects(() => bench.broker.submit({ databases: ["shop"] }), TaskdError);
  assertEquals([error.code, bench.broker.engine.tasks.list().length], ["daemon_unreachable", 0]);
  assertStringIncludes(error.hint!, "taskd serve");
});

Deno.test("what there is no branch of, or what is no branch, is refused before there is a task", async () => {
  await using bench = await DataBench.start();
  for (
    const [databases, reason] of [
      [["nosuch"], "nosuch"],
      [["shop@nosuch"], "nosuch"],
      [["shop@main@v1"], "names a checkpoint"],
      [["shop", "shop@dev"], "shop is named twice"],
      [["a.b", "a-b"], "would both be TASKD_DATABASE_A_B"],
      [[`shop@task-${"0".repeat(32)}`], "the branch of a task"],
      [["../x"], "as a database name"],
    ] as const
  ) {
    const error = await assertRejects(() => bench.broker.submit({ databases: [...databases] }), TaskdError, reason);
    assertEquals(error.code, "invalid_request");
  }
  assertEquals([bench.broker.engine.tasks.list(), await bench.branches()], [[], ["main"]]);
});

longTest("a branch store that goes away while a task is staged: setup_failed, with what to start", async () => {
  await using bench = await DataBench.start();
  await using git = await serveGit(bench.broker.git.root, () => {
    void bench.daemon.stop("SIGKILL");
    return "pass";
  });
  const { id } = await bench.broker.submit({ repo: `${git.origin}/acme/app.git`, databases: ["shop"] });
  const done = await bench.broker.reaches(id);
  assertEquals(done.outcome, "setup_failed");
  assertStringIncludes(done.reason!, "Cannot fork the task's databases: no branch store answers");
  assertStringIncludes(done.reason!, "taskd serve");
  assertEquals(bench.broker.staged(), []);
});

Deno.test("a branch store that goes away while the agent works: agent_failed; the branch goes later", async () => {
  const places: DataBench[] = [];
  const [change, finish] = agentDoes([RAISE]);
  const leave = () => {
    void places[0]!.daemon.stop("SIGKILL");
    return finish!;
  };
  await using bench = await DataBench.start({ script: [change!, leave] });
  places.push(bench);
  const done = await bench.toGate();
  assertEquals(done.outcome, "agent_failed");
  assertStringIncludes(done.reason!, "no branch store answers");
  await startAgain(bench);
  assertEquals(await bench.branches(), ["main"]);
});

Deno.test("a branch store that is away after the approval: nothing lands, and with its return both do", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt") });
  const waiting = await bench.toGate();
  await bench.daemon.stop("SIGKILL");
  const done = await bench.approve(waiting);
  assertEquals([done.stage, done.push_attempts, resultsOf(done)], ["push_failed", [], []]);
  assertStringIncludes(done.reason!, "Cannot see whether the task's databases can be changed: no branch store answers");
  assertStringIncludes(done.reason!, "Run: taskd serve");
  await bench.startDaemon();
  await bench.broker.broker.stop();
  await bench.broker.serve();
  const { outcome, reason } = await bench.broker.reaches(done.id, "done");
  assertEquals(outcome, "pushed", reason);
  assertEquals((await bench.rows()).length, 4);
});

longTest("a branch store that is away when a task is denied: the branch goes at the next start", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt") });
  const { id } = await bench.toGate();
  await bench.daemon.stop("SIGKILL");
  await bench.broker.engine.deny(id, "no");
  await startAgain(bench);
  assertEquals(await bench.branches(), ["main"]);
});

Deno.test("branches named like a task's, but of no task that the broker knows, are left alone", async () => {
  await using bench = await DataBench.start();
  const foreign = `task-${"f".repeat(32)}`;
  await bench.store((client) => client.call("fork", { db: "shop", new_branch: foreign }));
  await bench.broker.broker.stop();
  await bench.broker.serve();
  await bench.broker.broker.stop();
  assertEquals(await bench.branches(), ["main", foreign]);
});

Deno.test("a task that is cancelled at the gate leaves no branch", async () => {
  await using bench = await DataBench.start({ script: agentDoes([RAISE], "a.txt") });
  const { id } = await bench.toGate();
  assertEquals(await bench.branches(), ["main", `task-${id}`]);
  await bench.broker.engine.kill(id, "enough");
  assertEquals((await bench.broker.reaches(id)).outcome, "cancelled");
  await bench.released();
});
