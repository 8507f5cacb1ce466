import { verifyTrace } from "../../tests/broker/task/verify_trace.ts";
import { assertEquals } from "@std/assert";
import { anyLife, encodeAll, fileOf, foldRows, plantTrace, someOrder, staged } from "../../tests/broker/task/lives.ts";
import { VirtualClock } from "../../tests/support/clock.ts";
import { SeededRandom } from "../../tests/support/writers/random.ts";
import { recoverTask } from "./recover.ts";
import type { TaskEvent } from "./rows.ts";
import { Task } from "./task.ts";
import { tracePath } from "./trace.ts";

const ID = "ab".repeat(16);
const clock = new VirtualClock();
const CREATED: TaskEvent = { type: "created", task: someOrder(ID) };
const GATE = { diff_sha256: "d1".repeat(32), second_look: [], timeout_ms: 0 };
const PUSHED = { branch: "agent/1", commit: "c" };
const TO_THE_PUSH: TaskEvent[] = [
  CREATED,
  staged({ from: "admission", to: "staging" }),
  staged({ from: "staging", to: "running" }),
  staged({ from: "running", to: "collecting" }),
  staged({ from: "collecting", to: "awaiting_approval", gate: GATE }),
  staged({ from: "awaiting_approval", to: "pushing", approval: { diff_sha256: GATE.diff_sha256, acknowledged: [] } }),
];
/** What a broker makes of a task that was left so, and what a second start makes of it. */
async function restart(events: TaskEvent[], hooks: { watch_ci: boolean }) {
  const root = await Deno.makeTempDir();
  try {
    plantTrace(root, events);
    const task = await Task.open(root, ID, { clock });
    const recovered = await recoverTask(task, hooks);
    const { stage, outcome, reason, pushed, ci } = task.record;
    const { seq } = task.record;
    const again = await recoverTask(task, hooks);
    await task.close();
    return {
      kind: recovered,
      stage,
      outcome,
      reason,
      pushed,
      ci,
      again,
      settled: task.record.seq === seq,
    };
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

Deno.test("a crash at each stage: what was under way has failed and says so, all else is as it was", async () => {
  const found: Record<string, string | undefined> = {};
  const lives: TaskEvent[][] = [
    TO_THE_PUSH.slice(0, 1),
    TO_THE_PUSH.slice(0, 2),
    [...TO_THE_PUSH.slice(0, 2), staged({ from: "staging", to: "setting_up" })],
    TO_THE_PUSH.slice(0, 3),
    TO_THE_PUSH.slice(0, 4),
    TO_THE_PUSH.slice(0, 5),
    TO_THE_PUSH,
    [...TO_THE_PUSH, staged({ from: "pushing", to: "push_failed", reason: "the host is away" })],
    [...TO_THE_PUSH, staged({ from: "pushing", to: "data_waits", pushed: PUSHED, reason: "the base has moved" })],
    [...TO_THE_PUSH, staged({ from: "pushing", to: "awaiting_ci", pushed: PUSHED })],
  ];
  for (const events of lives) {
    const { stage: before } = foldRows(encodeAll(events).map(({ row }) => row));
    const { stage, outcome, reason, settled } = await restart(events, { watch_ci: true });
    found[before] = outcome ?? stage;
    if (outcome !== undefined) {
      assertEquals(reason?.startsWith(`the broker stopped while the task was in ${before}`), true);
    }
    assertEquals(settled, true);
  }
  assertEquals(found, {
    admission: "setup_failed",
    staging: "setup_failed",
    setting_up: "setup_failed",
    running: "agent_failed",
    collecting: "agent_failed",
    awaiting_approval: "awaiting_approval",
    pushing: "pushing",
    push_failed: "push_failed",
    data_waits: "data_waits",
    awaiting_ci: "awaiting_ci",
  });
});

// conformance: b2.ci.turn_off b3.dead_letter
Deno.test("a watch that was switched off ends without a conclusion, and never as passed", async () => {
  const events = [...TO_THE_PUSH, staged({ from: "pushing", to: "awaiting_ci", pushed: PUSHED })];
  const left = await restart(events, { watch_ci: false });
  assertEquals([left.outcome, left.reason, left.ci], ["pushed", "no CI conclusion was observed", {
    state: "no_conclusion",
  }]);
});

Deno.test("a trace cut at any byte opens, recovers and is intact", async () => {
  const root = await Deno.makeTempDir();
  const random = new SeededRandom(7);
  try {
    for (let n = 0; n < 40; n++) {
      const rows = encodeAll(anyLife(ID, random));
      const whole = fileOf(rows);
      const cut = random.between(rows[0]!.line.length, whole.length);
      Deno.writeFileSync(tracePath(root, ID), whole.subarray(0, cut));
      const task = await Task.open(root, ID, { clock });
      const left = await recoverTask(task, { watch_ci: true });
      await task.close();
      const ends = left === "unpushed"
        ? ["pushing", "push_failed", "data_waits"]
        : ["done", "awaiting_approval", "awaiting_ci"];
      assertEquals(ends.includes(task.record.stage), true);
      assertEquals(verifyTrace(root, ID), { intact: true, head: task.head });
    }
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
