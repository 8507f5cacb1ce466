import { verifyTrace } from "../../tests/broker/task/verify_trace.ts";
import { assertEquals, assertRejects } from "@std/assert";
import { APPROVED, plantTrace, SHA, someOrder, staged, TO_THE_GATE } from "../../tests/broker/task/lives.ts";
import { VirtualClock } from "../../tests/support/clock.ts";
import { fillDisk, makeRoom } from "../../tests/support/full_disk.ts";
import { whyNotMountable, withMount } from "../../tests/support/mounts.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { Move } from "./stages.ts";
import { Task, type TaskChange } from "./task.ts";

const ID = "ab".repeat(16);
const ALL = { diff_sha256: SHA, acknowledge: ["ci_files", "lockfile"] };
const unmountable = await whyNotMountable("tmpfs");

async function withRoot(fn: (root: string, clock: VirtualClock) => Promise<void>): Promise<void> {
  const root = await Deno.makeTempDir();
  try {
    await fn(root, new VirtualClock());
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

async function atTheGate(root: string, clock: VirtualClock, changes: TaskChange[] = []): Promise<Task> {
  const task = await Task.create(root, someOrder(ID), { clock, onChange: (change) => void changes.push(change) });
  for (const move of TO_THE_GATE) await task.move(move);
  return task;
}

async function refused(work: Promise<unknown>): Promise<string> {
  return (await assertRejects(() => work, TaskdError)).code;
}

/** The code that an attempt is refused with; undefined when it is not. */
function refusal(attempt: Promise<void>): Promise<string | undefined> {
  return attempt.then(() => undefined, (error) => error.code);
}

Deno.test("the record moves when the row is on the disk, and not before", () =>
  withRoot(async (root, clock) => {
    const task = await Task.create(root, someOrder(ID), { clock });
    const moving = task.move({ from: "admission", to: "staging" });
    assertEquals(task.record.stage, "admission");
    assertEquals((await moving).stage, "staging");
    assertEquals(task.record.seq, 2);
    await task.close();
  }));

Deno.test("of two answers to a gate at once, the first counts and the other is refused", () =>
  withRoot(async (root, clock) => {
    const task = await atTheGate(root, clock);
    const answers = [task.approve(ALL), task.approve(ALL), task.deny("no")];
    assertEquals(await Promise.all(answers.map(refusal)), [undefined, "wrong_state", "wrong_state"]);
    assertEquals(task.record.stage, "pushing");
    assertEquals(task.record.seq, 6);
    await task.close();
  }));

Deno.test("a refused approval leaves no row", () =>
  withRoot(async (root, clock) => {
    const task = await atTheGate(root, clock);
    assertEquals(await refusal(task.approve({ ...ALL, diff_sha256: "x" })), "stale_diff");
    assertEquals(await refusal(task.approve({ ...ALL, acknowledge: [] })), "not_acknowledged");
    assertEquals(task.record.seq, 5);
    await task.close();
  }));

Deno.test("approval_timeout denies by the given clock; approving afterwards is refused", () =>
  withRoot(async (root, clock) => {
    const task = await atTheGate(root, clock);
    const watching = task.denyWhenExpired(new AbortController().signal);
    clock.advance(60_000);
    // Before the denial is written, too.
    assertEquals(await refusal(task.approve(ALL)), "expired");
    assertEquals(await watching, true);
    assertEquals([task.record.outcome, task.record.reason], [
      "denied",
      "it was not approved within approval_timeout (60000 ms)",
    ]);
    assertEquals(await refusal(task.approve(ALL)), "wrong_state");
    await task.close();
  }));

Deno.test("a wall clock that is set back while a task waits does not hold its gate open", () =>
  withRoot(async (root, clock) => {
    const task = await atTheGate(root, clock);
    clock.jump(-86_400_000);
    const watching = task.denyWhenExpired(new AbortController().signal);
    clock.advance(60_000);
    assertEquals(await watching, true);
    await task.close();
  }));

Deno.test("approval_timeout goes on through a restart", () =>
  withRoot(async (root, clock) => {
    await (await atTheGate(root, clock)).close();
    clock.advance(40_000);
    const task = await Task.open(root, ID, { clock });
    const watching = task.denyWhenExpired(new AbortController().signal);
    clock.advance(20_000);
    assertEquals(await watching, true);
    await task.close();
  }));

Deno.test("the watch of a gate ends when the task leaves it, or on its signal", () =>
  withRoot(async (root, clock) => {
    const task = await atTheGate(root, clock);
    const stop = new AbortController();
    const stopped = task.denyWhenExpired(stop.signal);
    stop.abort();
    assertEquals(await stopped, false);
    const left = task.denyWhenExpired(new AbortController().signal);
    await task.approve(ALL);
    clock.advance(60_000);
    assertEquals(await left, false);
    assertEquals(task.record.stage, "pushing");
    await task.close();
  }));

Deno.test("a move or a row that does not fit the stage is a conflict and leaves no row", () =>
  withRoot(async (root, clock) => {
    const task = await atTheGate(root, clock);
    assertEquals(await refused(task.move(TO_THE_GATE[0]!)), "conflict");
    assertEquals(
      await refused(task.append({ type: "push_attempt", remote: "r", branch: "b", commit: "c" })),
      "conflict",
    );
    await task.deny("no");
    assertEquals(await refused(task.append({ type: "note", text: "late" })), "conflict");
    assertEquals(verifyTrace(root, ID), { intact: true, head: task.head });
    assertEquals(task.record.seq, 6);
    await task.close();
  }));

Deno.test("every change is reported once, in order, with rows that are on the disk", () =>
  withRoot(async (root, clock) => {
    const changes: TaskChange[] = [];
    const task = await atTheGate(root, clock, changes);
    await Promise.all([task.append({ type: "note", text: "a" }), task.append({ type: "note", text: "b" })]);
    assertEquals(changes.flatMap(({ rows }) => rows.map(({ seq }) => seq)), [1, 2, 3, 4, 5, 6, 7]);
    assertEquals(changes.at(-1)!.record, task.record);
    await task.close();
  }));

Deno.test("a task is opened as it was left, and its clock may have been wrong", () =>
  withRoot(async (root, clock) => {
    plantTrace(root, [{ type: "created", task: someOrder(ID) }, ...TO_THE_GATE.map(staged)], Date.UTC(2099, 0, 1));
    const task = await Task.open(root, ID, { clock });
    await task.approve(ALL);
    assertEquals(task.record.updated_at < task.record.created_at, true);
    await task.close();
  }));

Deno.test({
  name: "on a full disk a task stays where it is, and can be approved once there is room" + unmountable,
  ignore: unmountable !== "",
  fn: () =>
    withMount("tmpfs", 1, async (root) => {
      const task = await atTheGate(root, new VirtualClock());
      fillDisk(`${root}/filler`);
      // What is left of the file's own last page takes a few rows more.
      let failure: string | undefined;
      for (let n = 0; n < 100 && failure === undefined; n++) {
        await task.append({ type: "note", text: "x".repeat(1_000) }).catch(({ code }) => failure = code);
      }
      assertEquals(failure, "no_space");
      const before = task.record;
      const huge: Move = { ...APPROVED, approval: { diff_sha256: SHA, acknowledged: ["x".repeat(4_000)] } } as Move;
      assertEquals(await refused(task.move(huge)), "no_space");
      assertEquals(task.record, before);
      makeRoom(`${root}/filler`);
      await task.approve(ALL);
      await task.close();
      assertEquals(verifyTrace(root, ID).intact, true);
    }),
});
