import { unsealed } from "../../../tests/support/unsealed.ts";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { APPROVED, plantTrace, someOrder, staged, TO_THE_GATE } from "../../../tests/broker/task/lives.ts";
import { VirtualClock } from "../../../tests/support/clock.ts";
import { TaskdError } from "../../../lib/errors.ts";
import type { QueueItemView, QueueState } from "../../api/wire.ts";
import type { SubmitRequest } from "../../task/schema.ts";
import type { TaskOrigin } from "../engine_deps.ts";
import { NO_CI_CONCLUSION } from "../../task/recover.ts";
import type { TaskEvent } from "../../task/rows.ts";
import type { Outcome } from "../../task/stages.ts";
import type { Task } from "../../task/task.ts";
import { TaskStore } from "../../task/task_store.ts";
import { DurableQueue, MAX_ENDED_BYTES, MAX_OPEN_BYTES } from "./queue.ts";
import { standing } from "./item.ts";

/** A queue before an engine with slots, on a real disk. */
class Bench implements AsyncDisposable {
  readonly root = Deno.makeTempDirSync();
  readonly directory = `${this.root}/audit/queue`;
  readonly clock = new VirtualClock();
  readonly submitted: { request: SubmitRequest; origin: TaskOrigin | undefined }[] = [];
  readonly killed: string[] = [];
  readonly logged: string[] = [];
  slots = 2;
  /** What every submission is refused with. */
  refusal: Error | undefined;
  /** The only agent whose submissions are refused with it. */
  refused_agent: string | undefined;
  /** Whether only submissions with databases are refused with it. */
  refused_databases = false;
  /** What happens while the task of an item is being made. */
  meanwhile: (origin: TaskOrigin | undefined) => Promise<void> = () => Promise.resolve();
  /** Submissions that were refused with it. */
  refusals = 0;
  tasks!: TaskStore;
  queue!: DurableQueue;

  async start(): Promise<this> {
    this.tasks = await TaskStore.open(`${this.root}/audit`, { clock: this.clock });
    this.queue = new DurableQueue({
      directory: this.directory,
      tasks: this.tasks,
      clock: this.clock,
      log: (_level, _event, message) => this.logged.push(message),
      engine: {
        submit: async (request, origin) => {
          const meant = (this.refused_agent ?? request.agent) === request.agent &&
            (!this.refused_databases || request.databases !== undefined);
          if (this.refusal !== undefined && meant) {
            this.refusals++;
            throw this.refusal;
          }
          if (this.running().length >= this.slots) throw new TaskdError("at_capacity", "2 tasks run");
          this.submitted.push({ request, origin });
          await this.meanwhile(origin);
          const { agent = "agent_a", ...rest } = request;
          const task = await this.tasks.create({ ...rest, agent, ...origin });
          return task.record;
        },
        kill: async (id, reason, by) => {
          this.killed.push(id);
          await this.until(() => this.tasks.live(id) !== undefined);
          await this.tasks.live(id)!.move({
            from: "admission",
            to: "done",
            outcome: "cancelled",
            reason,
            ...(by && { by }),
          });
        },
      },
    });
    return this;
  }

  running(): string[] {
    return this.tasks.unfinished().filter(({ stage }) => stage !== "awaiting_approval").map(({ id }) => id);
  }

  add(instruction: string): Promise<QueueItemView> {
    return this.queue.enqueue({ repo: "example.com/o/r", instruction });
  }

  /** Waits until `holds`; the disk is a real one. */
  async until(holds: () => boolean): Promise<void> {
    while (!holds()) await new Promise((resolve) => setTimeout(resolve, 1));
  }

  states(): QueueState[] {
    return this.queue.list().map(({ state }) => state);
  }

  /** The task of an item, once it is open for writing: what is on the disk is seen a moment before. */
  async task(item: number): Promise<Task> {
    const live = () => this.tasks.live(this.queue.list()[item]!.task_id ?? "");
    await this.until(() => live() !== undefined);
    return live()!;
  }

  async end(task: Task): Promise<void> {
    await task.move({ from: "admission", to: "done", outcome: "setup_failed", reason: "no such repository" });
  }

  async stop(): Promise<void> {
    await this.queue.stop();
    await this.tasks.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await Deno.remove(this.root, { recursive: true });
  }
}

Deno.test("items begin in their order as slots become free, and name their tasks", async () => {
  await using bench = await new Bench().start();
  for (const name of ["one", "two", "three", "four"]) await bench.add(name);
  await bench.until(() => bench.running().length === 2);
  await bench.until(() => bench.states().join() === "running,running,queued,queued");
  await bench.end(await bench.task(1));
  await bench.until(() => bench.states().join() === "running,dead_letter,running,queued");
  assertEquals(bench.queue.list()[1]!.reason, "setup_failed: no such repository");
  assertEquals(bench.submitted.map(({ request }) => request.instruction), ["one", "two", "three"]);
  const [first] = bench.queue.list();
  assertEquals(bench.submitted[0]!.origin, { queue_id: first!.id });
  assertEquals(bench.tasks.read(first!.task_id!).queue_id, first!.id);
});

Deno.test("an item whose start meets a broker that stops is the next broker's, and no dead letter", async () => {
  await using bench = await new Bench().start();
  bench.refusal = new TaskdError("stopping", "the broker is stopping");
  await bench.add("one");
  await bench.until(() => bench.queue.list()[0]!.reason !== undefined);
  assertEquals(bench.states(), ["queued"]);
  await bench.stop();
  bench.refusal = undefined;
  await bench.start();
  await bench.until(() => bench.states().join() === "running");
});

Deno.test("the queue's directory is 0700, its files 0600", async () => {
  await using bench = await new Bench().start();
  const { id } = await bench.add("one");
  assertEquals(Deno.statSync(bench.directory).mode! & 0o777, 0o700);
  assertEquals(Deno.statSync(`${bench.directory}/${id}.json`).mode! & 0o777, 0o600);
});

Deno.test("an item that was accepted is there after a restart, in its place", async () => {
  await using bench = await new Bench().start();
  bench.slots = 0;
  for (let i = 0; i < 20; i++) await bench.add(`item ${i}`);
  const before = bench.queue.list().map(({ id, instruction }) => [id, instruction]);
  await bench.stop();
  await bench.start();
  assertEquals(bench.queue.list().map(({ id, instruction }) => [id, instruction]), before);
});

Deno.test("what was in flight when the broker died is never begun again", async () => {
  await using bench = await new Bench().start();
  bench.slots = 0;
  const { id } = await bench.add("one");
  await bench.stop();
  // What a crash leaves between a task's first row and its item's: only the trace has both.
  const begun: TaskEvent = { type: "created", task: someOrder("a1".repeat(16), { queue_id: id }) };
  plantTrace(`${bench.root}/audit`, [begun, staged({ from: "admission", to: "staging" })]);
  bench.slots = 5;
  await bench.start();
  assertEquals([bench.states()[0], bench.queue.list()[0]!.task_id], ["running", "a1".repeat(16)]);
  await bench.add("two");
  await bench.until(() => bench.states().join() === "running,running");
  assertEquals(bench.submitted.map(({ request }) => request.instruction), ["two"]);
});

// conformance: b3.dead_letter
Deno.test("what a task came to decides what its item came to", () => {
  const done = (outcome: Outcome, ci?: "passed" | "failed" | "no_checks" | "no_conclusion") =>
    standing({ stage: "done", outcome, reason: "why", ...(ci === undefined ? {} : { ci: { state: ci } }) });
  assertEquals(done("pushed").state, "completed");
  assertEquals(done("pushed", "passed").state, "completed");
  assertEquals(done("pushed", "no_checks").state, "completed");
  assertEquals(done("pushed", "failed").state, "ci_failed");
  assertEquals(done("pushed", "no_conclusion"), { state: "dead_letter", reason: NO_CI_CONCLUSION });
  assertEquals(done("no_diff").state, "completed");
  for (const outcome of ["denied", "cancelled"] as const) assertEquals(done(outcome).state, "cancelled");
  for (const outcome of ["timed_out", "setup_failed", "agent_failed", "policy_blocked", "push_failed"] as const) {
    assertEquals(done(outcome), { state: "dead_letter", reason: `${outcome}: why` });
  }
});

Deno.test("an item follows its task to the gate and to its end, also over a restart", async () => {
  await using bench = await new Bench().start();
  await bench.add("one");
  await bench.until(() => bench.states()[0] === "running");
  const task = await bench.task(0);
  for (const move of TO_THE_GATE) await task.move(move);
  await bench.until(() => bench.states()[0] === "awaiting_approval");
  await bench.stop();
  await bench.start();
  assertEquals(bench.states(), ["awaiting_approval"]);
  const again = await bench.tasks.reopen(task.id);
  await again.move(APPROVED);
  const pushed = { branch: "agent/1", commit: "c".repeat(40) };
  await again.move({ from: "pushing", to: "done", outcome: "pushed", reason: "pushed", pushed });
  await bench.until(() => bench.states()[0] === "completed");
});

Deno.test("a refusal that passes leaves the item in the queue, any other one ends it with its reason", async () => {
  await using bench = await new Bench().start();
  bench.refusal = new TaskdError("ceiling_reached", "global_budget_usd is reached");
  await bench.add("one");
  await bench.until(() => bench.queue.list()[0]!.reason !== undefined);
  assertEquals([bench.states()[0], bench.queue.list()[0]!.reason], ["queued", "global_budget_usd is reached"]);
  bench.refusal = new TaskdError("invalid_request", "there is no such agent");
  await bench.until(() => {
    bench.clock.advance(60_000);
    return bench.states()[0] === "dead_letter";
  });
  assertEquals(bench.queue.list()[0]!.reason, "there is no such agent");
});

for (const code of ["daemon_unreachable", "timed_out", "interrupted", "unavailable", "busy", "overloaded"] as const) {
  Deno.test(`a branch store that answers ${code} holds up only the items with its databases`, async () => {
    await using bench = await new Bench().start();
    [bench.refusal, bench.refused_databases] = [new TaskdError(code, "no branch store now"), true];
    const asked = { repo: "example.com/o/r", agent: "agent_a" };
    for (const instruction of ["one", "two"]) await bench.queue.enqueue({ ...asked, instruction, databases: ["shop"] });
    await bench.queue.enqueue({ ...asked, instruction: "three" });
    await bench.until(() => bench.states()[2] === "running");
    assertEquals(bench.states(), ["queued", "queued", "running"]);
    assertEquals(bench.queue.list()[0]!.reason, "no branch store now");
    bench.refusal = undefined;
    await bench.until(() => {
      bench.clock.advance(5_000);
      return bench.states()[0] === "running";
    });
  });
}

Deno.test("what happens while the queue is empty or waits makes no wait longer", async () => {
  await using bench = await new Bench().start();
  const idle = () => new Promise((resolve) => setTimeout(resolve, 5));
  const task = await bench.tasks.create({ repo: "example.com/o/r", instruction: "other", agent: "agent_a" });
  const rows = async () => {
    for (let row = 0; row < 5; row++) {
      await task.append({ type: "note", text: "busy" });
      await idle();
    }
  };
  await rows();
  bench.refusal = new TaskdError("ceiling_reached", "global_max_tasks is reached");
  await bench.add("one");
  await bench.until(() => bench.refusals > 0);
  await rows();
  const before = bench.refusals;
  bench.clock.advance(5_000);
  await idle();
  assertEquals(bench.refusals, before + 1);
});

Deno.test("the queue backs off from a ceiling that refuses, and retries when a task ends", async () => {
  await using bench = await new Bench().start();
  const live = await bench.tasks.create({ repo: "example.com/o/r", instruction: "other", agent: "agent_a" });
  bench.refusal = new TaskdError("ceiling_reached", "global_max_tasks is reached");
  await bench.add("one");
  await bench.until(() => bench.refusals === 1);
  for (let hour_ms = 0; hour_ms < 3_600_000; hour_ms += 5_000) {
    bench.clock.advance(5_000);
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
  assert(bench.refusals < 75, `${bench.refusals} times in an hour`);
  assert(bench.refusals > 50, `${bench.refusals} times in an hour`);
  const before = bench.refusals;
  await bench.end(live);
  await bench.until(() => bench.refusals > before);
});

Deno.test("a queue takes no more than its bytes, says so, and takes on once items are gone", async () => {
  await using bench = await new Bench().start();
  bench.slots = 0;
  // Longer than what the HTTP interface lets through, to get there sooner.
  const large = "x".repeat(1_000_000);
  const ids: string[] = [];
  const error = await assertRejects(async () => {
    for (;;) ids.push((await bench.add(large)).id);
  }, TaskdError);
  assertEquals([error.code, ids.length], ["overloaded", Math.floor(MAX_OPEN_BYTES / 1_001_000)]);
  assertEquals(error.message, "Cannot queue the task: those that have not ended have 64 MiB already");
  await assertRejects(() => Promise.all([bench.add(large), bench.add(large)]), TaskdError);
  await bench.queue.cancel(ids[0]!);
  const [one, other] = await Promise.allSettled([bench.add(large), bench.add(large)]);
  assertEquals([one.status, other.status], ["fulfilled", "rejected"]);
  for (const id of ids.slice(1)) await bench.queue.cancel(id);
  const left = bench.queue.list().filter(({ state }) => state === "cancelled");
  assertEquals(left.length, Math.floor(MAX_ENDED_BYTES / 1_001_000), "those that ended have a bound of their own");
  assertEquals(left.at(-1)!.id, ids.at(-1));
});

Deno.test("a refusal of one vendor delays no item of another, and its own keep their order", async () => {
  for (const code of ["ceiling_reached", "unavailable"] as const) {
    await using bench = await new Bench().start();
    [bench.refusal, bench.refused_agent] = [new TaskdError(code, "not agent_a now"), "agent_a"];
    const add = (instruction: string, agent: string) =>
      bench.queue.enqueue({ repo: "example.com/o/r", instruction, agent });
    await add("one", "agent_a");
    await add("two", "agent_a");
    await add("three", "agent_b");
    await bench.until(() => bench.states().join() === "queued,queued,running");
    assertEquals(bench.queue.list()[0]!.reason, "not agent_a now");
    [bench.refusal, bench.slots] = [undefined, 9];
    await bench.until(() => {
      bench.clock.advance(5_000);
      return bench.states().every((state) => state === "running");
    });
    assertEquals(bench.submitted.map(({ request }) => request.instruction), ["three", "one", "two"]);
  }
});

Deno.test("cancelling removes a waiting item, ends a begun one's task, and refuses an ended one", async () => {
  await using bench = await new Bench().start();
  bench.slots = 1;
  await bench.add("one");
  const { id } = await bench.add("two");
  await bench.until(() => bench.states().join() === "running,queued");
  await bench.queue.cancel(id.slice(0, 12));
  assertEquals(bench.states(), ["running", "cancelled"]);
  const first = bench.queue.list()[0]!;
  const by = { via: "page", who: "ada" } as const;
  await bench.queue.cancel(first.id, by);
  await bench.until(() => bench.states()[0] === "cancelled");
  assertEquals([bench.killed, bench.tasks.read(first.task_id!).ended_by], [[first.task_id], by]);
  for (const ended of [id, first.id]) {
    assertEquals((await assertRejects(() => bench.queue.cancel(ended), TaskdError)).code, "wrong_state");
  }
  const unknown = await assertRejects(
    () => bench.queue.cancel("f".repeat(32)),
    TaskdError,
    "Cannot find the queue item",
  );
  assertEquals([unknown.code, unknown.hint], ["not_found", "`taskd queue list` lists what there is"]);
  await bench.stop();
  await bench.start();
  assertEquals(bench.states(), ["cancelled", "cancelled"]);
});

Deno.test("an item that is cancelled while its task is being made names it, over a crash too", async () => {
  await using bench = await new Bench().start();
  bench.meanwhile = ({ queue_id } = {}) => bench.queue.cancel(queue_id!);
  await bench.add("one");
  await bench.until(() => bench.killed.length === 1);
  const [first] = bench.queue.list();
  assertEquals([first!.state, first!.task_id], ["cancelled", bench.killed[0]]);
  await bench.until(() => bench.running().length === 0);
  bench.meanwhile = () => Promise.resolve();
  bench.slots = 0;
  const { id } = await bench.add("two");
  await bench.queue.cancel(id);
  await bench.stop();
  const task = someOrder("b2".repeat(16), { queue_id: id });
  plantTrace(`${bench.root}/audit`, [{ type: "created", task }]);
  await bench.start();
  const again = bench.queue.list();
  assertEquals(again.map(({ state, task_id }) => [state, task_id]), [
    ["cancelled", first!.task_id],
    ["cancelled", task.id],
  ]);
  assertEquals(again[1]!.reason, "cancelled before it began");
});

Deno.test("a damaged item is reported, left as it is, and keeps no other from beginning", async () => {
  await using bench = await new Bench().start();
  bench.slots = 0;
  const { id } = await bench.add("one");
  await bench.stop();
  const torn = `${bench.directory}/${"e".repeat(32)}.json`;
  await Deno.writeTextFile(torn, '{"v":1,"id":');
  await Deno.writeTextFile(
    `${bench.directory}/${"d".repeat(32)}.json`,
    await Deno.readTextFile(`${bench.directory}/${id}.json`),
  );
  bench.slots = 1;
  await bench.start();
  await bench.until(() => bench.states()[0] === "running");
  assertEquals(bench.queue.list().length, 1);
  assertEquals(bench.logged.filter((line) => line.includes("left as it is")).length, 2);
  assertEquals(await Deno.readTextFile(torn), '{"v":1,"id":');
});

Deno.test("an ended item whose file cannot be removed is reported and keeps no other from beginning", async () => {
  await using bench = await new Bench().start();
  [bench.refusal, bench.refused_agent] = [new TaskdError("invalid_config", "not like this"), "agent_b"];
  const large = { repo: "example.com/o/r", instruction: "x".repeat(1_000_000), agent: "agent_b" };
  const { id } = await bench.queue.enqueue(large);
  await bench.until(() => bench.states()[0] === "dead_letter");
  const path = `${bench.directory}/${id}.json`;
  await bench.until(() => Deno.readTextFileSync(path).includes("dead_letter"));
  await Deno.remove(path);
  await Deno.mkdir(`${path}/in the way`, { recursive: true });
  for (let bytes = 0; bytes <= MAX_ENDED_BYTES; bytes += 1_000_000) await bench.queue.enqueue(large);
  await bench.add("the next one");
  await bench.until(() => bench.states().at(-1) === "running");
  assert(bench.logged.some((line) => line.startsWith("Cannot remove an ended item: ")), bench.logged.join("\n"));
});

Deno.test("an item that the disk did not take is written again, and its task is kept until then", async () => {
  await using bench = await new Bench().start();
  bench.slots = 0;
  const { id } = await bench.add("one");
  const path = `${bench.directory}/${id}.json`;
  const queued = Deno.readTextFileSync(path);
  // A folder in the file's place refuses it as a full disk would.
  await Deno.remove(path);
  await Deno.mkdir(`${path}/in the way`, { recursive: true });
  bench.slots = 1;
  await bench.clock.sleeper(5_000);
  bench.clock.advance(5_000);
  await bench.end(await bench.task(0));
  await bench.until(() => bench.logged.length === 2);
  assertEquals(bench.queue.isSettled(id), false);
  await Deno.remove(path, { recursive: true });
  await Deno.writeTextFile(path, queued);
  await bench.until(() => {
    bench.clock.advance(5_000);
    return bench.queue.isSettled(id);
  });
  // What `prune` removes; the queue no longer needs it.
  const { task_id } = bench.queue.list()[0]!;
  await bench.stop();
  await Deno.remove(`${bench.root}/audit/${task_id}.jsonl`);
  bench.slots = 1;
  await bench.start();
  assertEquals([bench.states()[0], bench.submitted.length], ["dead_letter", 1]);
});

Deno.test("an item whose task is gone from the audit directory is dropped, not begun again", async () => {
  await using bench = await new Bench().start();
  await bench.add("one");
  const { id } = (await bench.task(0)).record;
  await bench.stop();
  await Deno.remove(`${bench.root}/audit/${id}.jsonl`);
  await bench.start();
  assertEquals([bench.states()[0], bench.submitted.length], ["dead_letter", 1]);
});

// conformance: b3.dead_letter
Deno.test("an item whose task cannot be read is a dead letter, unless it waits at the gate", async () => {
  for (
    const [state, after, reason] of [
      ["awaiting_ci", "dead_letter", NO_CI_CONCLUSION],
      ["running", "dead_letter", "its task cannot be followed: "],
      ["awaiting_approval", "awaiting_approval", undefined],
    ] as const
  ) {
    await using bench = await new Bench().start();
    const { id: item } = await bench.add("one");
    const { id } = (await bench.task(0)).record;
    await bench.stop();
    const change = (path: string, from: string, to: string) =>
      Deno.writeTextFileSync(path, unsealed(Deno.readTextFileSync(path)).replace(from, to));
    change(`${bench.directory}/${item}.json`, '"state":"running"', `"state":"${state}"`);
    change(`${bench.root}/audit/${id}.jsonl`, '"type":"created"', '"type":"creator"');
    await bench.start();
    const [found] = bench.queue.list();
    assertEquals([found?.state, bench.submitted.length], [after, 1]);
    assertEquals(found?.reason?.slice(0, reason?.length), reason);
  }
});

Deno.test("a trace that is damaged unseen does not stop the rest of the queue", async () => {
  await using bench = await new Bench().start();
  await bench.add("one");
  const { id } = (await bench.task(0)).record;
  await bench.stop();
  // Another broker notes what it has read, and the next one goes by that.
  await bench.start();
  await bench.stop();
  const path = `${bench.root}/audit/${id}.jsonl`;
  const { mtime } = Deno.statSync(path);
  Deno.writeTextFileSync(path, Deno.readTextFileSync(path).replace('"type":"created"', '"type":"creator"'));
  Deno.utimeSync(path, mtime!, mtime!);
  await bench.start();
  assertEquals(bench.states(), ["dead_letter"]);
  bench.slots = 9;
  await bench.add("two");
  await bench.until(() => bench.states()[1] === "running");
});

Deno.test("many items at once are all accepted, and each begins exactly once", async () => {
  await using bench = await new Bench().start();
  bench.slots = 500;
  await Promise.all(Array.from({ length: 200 }, (_, i) => bench.add(`item ${i}`)));
  await bench.until(() => bench.states().every((state) => state === "running"));
  const begun = bench.submitted.map(({ origin }) => origin!.queue_id);
  assertEquals([begun.length, new Set(begun).size], [200, 200]);
});
