import { assertEquals } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { anyLife, encodeAll, fileOf, foldRows, plantTrace, someOrder, staged } from "../../tests/broker/task/lives.ts";
import { VirtualClock } from "../../tests/support/clock.ts";
import { SeededRandom } from "../../tests/support/writers/random.ts";
import { recover, recoverTask, type RecoveryHooks } from "./recover.ts";
import type { TaskEvent } from "./rows.ts";
import type { PushAttempt } from "./schema.ts";
import { STAGES } from "./stages.ts";
import { Task } from "./task.ts";
import { tracePath, verifyTrace } from "./trace.ts";

const ID = "ab".repeat(16);
const clock = new VirtualClock();
const CREATED: TaskEvent = { type: "created", task: someOrder(ID) };
const GATE = { diff_sha256: "d1".repeat(32), second_look: [], timeout_ms: 0 };
const TO_THE_PUSH: TaskEvent[] = [
  CREATED,
  staged({ from: "admission", to: "staging" }),
  staged({ from: "staging", to: "running" }),
  staged({ from: "running", to: "collecting" }),
  staged({ from: "collecting", to: "awaiting_approval", gate: GATE }),
  staged({ from: "awaiting_approval", to: "pushing", approval: { diff_sha256: GATE.diff_sha256, acknowledged: [] } }),
];
const attempt = (branch: string): PushAttempt => ({ remote: "https://example.com/o/r", branch, commit: "c0ffee" });
const tried = (branch: string): TaskEvent => ({ type: "push_attempt", ...attempt(branch) });
const NOT_ASKED: RecoveryHooks["wasPushed"] = () => Promise.reject(new Error("nobody may look"));

/** What a broker makes of a task that was left so, and what a second start makes of it. */
async function restart(events: TaskEvent[], hooks: RecoveryHooks) {
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
      kind: recovered.kind,
      stage,
      outcome,
      reason,
      pushed,
      ci,
      again: again.kind,
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
    [...TO_THE_PUSH, staged({ from: "pushing", to: "awaiting_ci", pushed: { branch: "b", commit: "c" } })],
  ];
  for (const events of lives) {
    const { stage: before } = foldRows(encodeAll(events).map(({ row }) => row));
    const { stage, outcome, reason, settled } = await restart(events, { wasPushed: NOT_ASKED, watch_ci: true });
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
    pushing: "push_failed",
    awaiting_ci: "awaiting_ci",
  });
});

Deno.test("an interrupted push is decided by every branch that was tried, the last first", async () => {
  const looked: string[] = [];
  const hooks = (there: string | undefined, watch_ci: boolean, pull_request?: string): RecoveryHooks => ({
    wasPushed: ({ branch }) => {
      looked.push(branch);
      return Promise.resolve(branch === there);
    },
    arrived: () => Promise.resolve(pull_request),
    watch_ci,
  });
  const events = [...TO_THE_PUSH, tried("agent/1"), tried("agent/1-2")];
  const first = await restart(events, hooks("agent/1", false));
  assertEquals([first.outcome, first.pushed], ["pushed", { branch: "agent/1", commit: "c0ffee" }]);
  assertEquals(looked, ["agent/1-2", "agent/1"]);
  const url = "https://git.example.com/acme/app/pull/7";
  const watched = await restart(events, hooks("agent/1-2", true, url));
  assertEquals([watched.stage, watched.pushed?.pull_request], ["awaiting_ci", url]);
  assertEquals((await restart(events, hooks("agent/1-2", true))).outcome, "pushed");
  const none = await restart(events, hooks(undefined, true));
  assertEquals([none.outcome, none.reason], [
    "push_failed",
    "the broker stopped while it pushed; the change had not arrived",
  ]);
});

Deno.test("a remote that cannot be asked decides nothing", async () => {
  const left = await restart([...TO_THE_PUSH, tried("agent/1")], { wasPushed: NOT_ASKED, watch_ci: true });
  assertEquals([left.kind, left.stage, left.again, left.settled], ["undecided", "pushing", "undecided", true]);
});

// conformance: b2.ci.turn_off b3.dead_letter
Deno.test("a watch that was switched off ends without a conclusion, and never as passed", async () => {
  const pushed = { branch: "agent/1", commit: "c" };
  const events = [...TO_THE_PUSH, staged({ from: "pushing", to: "awaiting_ci", pushed })];
  const left = await restart(events, { wasPushed: NOT_ASKED, watch_ci: false });
  assertEquals([left.outcome, left.reason, left.ci], ["pushed", "no CI conclusion was observed", {
    state: "no_conclusion",
  }]);
});

Deno.test("recover() agrees with the table of stages wherever a life is cut", () => {
  const KINDS = { fail: ["fail"], keep: ["keep", "none"], look: ["look", "fail"], resume: ["watch"] };
  fc.assert(
    fc.property(fc.integer(), (seed) => {
      const rows = encodeAll(anyLife(ID, new SeededRandom(seed))).map(({ row }) => row);
      for (let count = 1; count <= rows.length; count++) {
        const record = foldRows(rows.slice(0, count));
        const { kind } = recover(record);
        assertEquals(KINDS[STAGES[record.stage].at_restart.kind].includes(kind), true, `${record.stage}: ${kind}`);
      }
    }),
    { numRuns: 60 },
  );
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
      await recoverTask(task, { wasPushed: () => Promise.resolve(random.chance(0.5)), watch_ci: true });
      await task.close();
      assertEquals(["done", "awaiting_approval", "awaiting_ci"].includes(task.record.stage), true);
      assertEquals(verifyTrace(root, ID), { intact: true, head: task.head, torn_bytes: 0 });
    }
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
