import { assertEquals, assertRejects } from "@std/assert";
import type { TaskSummary } from "../../broker/task/schema.ts";
import { TaskdError } from "../../lib/errors.ts";
import { VirtualClock } from "../../tests/support/clock.ts";
import { settleRunning, type TasksEnd } from "./_running_tasks.ts";

const task = (id: string): TaskSummary => ({
  id: id.repeat(32),
  repo: "git.example.com/o/r",
  instruction: "Fix",
  agent: "agent_d",
  stage: "running",
  created_at: "2026-01-01T00:00:00.000Z",
  updated_at: "2026-01-01T00:00:00.000Z",
});

/** Settles with brokers that have fewer tasks each time that they are asked. */
async function settled(ending: TasksEnd, counts: number[], answer?: "now" | "drain" | "keep") {
  const said: string[] = [];
  const asked: number[] = [];
  const clock = new VirtualClock();
  const left = [...counts];
  const ask = async (tasks: readonly TaskSummary[]) => {
    asked.push(tasks.length);
    if (answer === "keep") throw new TaskdError("interrupted", "The broker runs on");
    return await Promise.resolve(answer!);
  };
  const work = settleRunning({
    ending,
    ...(answer === undefined ? {} : { ask }),
    list: () => Promise.resolve(["a", "b", "c"].slice(0, left.shift()).map(task)),
    say: (text) => said.push(text.split("\n")[0]!),
    clock,
    signal: new AbortController().signal,
  });
  await clock.through(work, 500);
  return { said, asked, left: left.length, ms: clock.monotonic() - 1_000 };
}

Deno.test("a broker without running tasks ends unasked", async () => {
  assertEquals(await settled(undefined, [0], "drain"), { said: [], asked: [], left: 0, ms: 0 });
});

Deno.test("where a script stops it, tasks that run are named and end, as with --now", async () => {
  for (const ending of [undefined, "now"] as const) {
    assertEquals(await settled(ending, [2]), { said: ["These tasks end with the broker:"], asked: [], left: 0, ms: 0 });
  }
});

Deno.test("--drain waits until no task runs without a question", async () => {
  const said = ["Waiting for 2 tasks to come to the gate or to end:"];
  assertEquals(await settled("drain", [2, 2, 1, 0], "now"), { said, asked: [], left: 0, ms: 1_500 });
});

Deno.test("a person at a terminal chooses to wait, to end them or to let the broker run on", async () => {
  assertEquals((await settled(undefined, [3, 0], "drain")).asked, [3]);
  assertEquals(await settled(undefined, [3], "now"), { said: [], asked: [3], left: 0, ms: 0 });
  await assertRejects(() => settled(undefined, [3], "keep"), TaskdError, "runs on");
});
