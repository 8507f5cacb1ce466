import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  anyLife,
  APPROVED,
  plantTrace,
  SHA,
  someOrder,
  staged,
  START_MS,
  TO_THE_GATE,
} from "../../tests/broker/task/lives.ts";
import { VirtualClock } from "../../tests/support/clock.ts";
import { mountReadOnlyView, whyNotMountable } from "../../tests/support/mounts.ts";
import { SeededRandom } from "../../tests/support/writers/random.ts";
import { TaskdError } from "../../lib/errors.ts";
import { newTaskId } from "./ids.ts";
import type { Row, TaskEvent } from "./rows.ts";
import { indexPath, surveyTraces, visitTraces } from "./task_index.ts";
import { TaskStore } from "./task_store.ts";
import { tracePath } from "./trace.ts";

const random = new SeededRandom(11);
const clock = new VirtualClock();
const options = { clock, random: random.bytes };
const unmountable = await whyNotMountable("tmpfs");
const { id: _, ...ORDER } = someOrder("");

async function withRoot(fn: (root: string) => Promise<void>): Promise<void> {
  const root = await Deno.makeTempDir();
  try {
    await fn(`${root}/audit`);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

/** Leaves `count` finished tasks behind, an hour apart, oldest first. */
function past(root: string, count: number): string[] {
  Deno.mkdirSync(root, { mode: 0o700, recursive: true });
  return Array.from({ length: count }, (_, n) => {
    const id = newTaskId(random.bytes);
    plantTrace(root, anyLife(id, random), START_MS + n * 3_600_000);
    return id;
  });
}

function created(id: string): TaskEvent {
  return { type: "created", task: someOrder(id) };
}

async function take(rows: AsyncGenerator<Row, void>, count: number): Promise<number[]> {
  const seen: number[] = [];
  while (seen.length < count) {
    const { done, value } = await rows.next();
    if (done) break;
    seen.push(value.seq);
  }
  return seen;
}

Deno.test("the audit directory is the owner's alone, also when it was not before", () =>
  withRoot(async (root) => {
    Deno.mkdirSync(root, { mode: 0o755, recursive: true });
    const store = await TaskStore.open(root, options);
    assertEquals(Deno.statSync(root).mode! & 0o777, 0o700);
    const task = await store.create(ORDER);
    await store.close();
    for (const path of [tracePath(root, task.id), indexPath(root)]) {
      assertEquals(Deno.statSync(path).mode! & 0o777, 0o600);
    }
  }));

Deno.test("lists are newest first, in pages, by stage; a new task comes first", () =>
  withRoot(async (root) => {
    const ids = past(root, 5).reverse();
    const store = await TaskStore.open(root, options);
    assertEquals(store.list().map(({ id }) => id), ids);
    assertEquals(store.list({ limit: 2 }).map(({ id }) => id), ids.slice(0, 2));
    assertEquals(store.list({ limit: 2, before: ids[1]! }).map(({ id }) => id), ids.slice(2, 4));
    assertEquals(store.unfinished(), []);
    clock.advance(86_400_000);
    const task = await store.create({ ...ORDER, instruction: `\u001b[2J${"x".repeat(1_000)}\nsecond` });
    const [first] = store.list({ stage: "admission" });
    assertEquals(first?.id, task.id);
    assertEquals(first!.instruction.startsWith("\\x1b[2Jxxx"), true);
    assertEquals(first!.instruction.length < 200, true);
    assertEquals(store.list()[0], first);
    assertEquals(store.unfinished().map(({ id }) => id), [task.id]);
    assertEquals(store.resolve(task.id.slice(0, 12)), task.id);
    await store.close();
  }));

// conformance: b2.spend.agent
Deno.test("the agent's claim of its cost is listed only where the broker has metered nothing", () =>
  withRoot(async (root) => {
    const store = await TaskStore.open(root, options);
    const task = await store.create(ORDER);
    await task.append({ type: "claimed", usd: 7 });
    assertEquals(store.list()[0]!.claimed_usd, 7);
    const spend = { usd: 1, requests: 1, unmetered_requests: 0, input_tokens: 1, output_tokens: 1, priced: true };
    await task.append({ type: "spend", spend });
    assertEquals(store.list()[0]!.claimed_usd, undefined);
    assertEquals(store.list()[0]!.spend?.usd, 1);
    await store.close();
  }));

Deno.test("the index says what the traces say, and is believed only as long as they are as they were", () =>
  withRoot(async (root) => {
    const ids = past(root, 8);
    const whole = await surveyTraces(root);
    assertEquals(whole.read, 8);
    await (await TaskStore.open(root, options)).close();
    const fast = await surveyTraces(root);
    assertEquals([fast.read, fast.stale], [0, false]);
    assertEquals(fast.entries, whole.entries);
    // One that is new, one that goes on, one that is gone.
    const fresh = newTaskId(random.bytes);
    plantTrace(root, [created(fresh)]);
    Deno.removeSync(tracePath(root, ids[3]!));
    const store = await TaskStore.open(root, options);
    await (await store.reopen(fresh)).move({ from: "admission", to: "staging" });
    await store.close();
    const later = await surveyTraces(root);
    assertEquals([later.read, later.entries.size], [0, 8]);
    assertEquals(later.entries.get(fresh)?.summary.stage, "staging");
    assertEquals(later.entries.has(ids[3]!), false);
  }));

Deno.test("visitTraces() finds what a survey finds, with an index and without", () =>
  withRoot(async (root) => {
    const ids = past(root, 5);
    const path = tracePath(root, ids[2]!);
    const visited = async () => {
      const entries: unknown[] = [], damaged: unknown[] = [];
      await visitTraces(root, (found) => void ("fault" in found ? damaged : entries).push(found));
      return { entries, damaged };
    };
    const surveyed = async () => {
      const { entries, damaged } = await surveyTraces(root);
      return { entries: [...entries.values()].map(({ summary }) => summary), damaged: [...damaged.values()] };
    };
    assertEquals((await surveyed()).entries.length, 5);
    assertEquals(await visited(), await surveyed());
    await (await TaskStore.open(root, options)).close();
    assertEquals(await visited(), await surveyed());
    // Whole lines fewer than the index has noted: without its head, the rest would pass for the trace.
    Deno.writeTextFileSync(path, Deno.readTextFileSync(path).replace(/[^\n]*\n$/, ""));
    const noted = await visited();
    assertEquals(noted, await surveyed());
    assertEquals([noted.entries.length, noted.damaged.length], [4, 1]);
  }));

Deno.test("what is no regular file under a trace's name is damaged, and is not followed anywhere", () =>
  withRoot(async (root) => {
    const [linked, folder] = [past(root, 1)[0]!, newTaskId(random.bytes)];
    Deno.renameSync(tracePath(root, linked), `${root}/elsewhere`);
    Deno.symlinkSync(`${root}/elsewhere`, tracePath(root, linked));
    Deno.mkdirSync(tracePath(root, folder));
    const { entries, damaged } = await surveyTraces(root);
    assertEquals(entries.size, 0);
    for (const id of [linked, folder]) assertEquals(damaged.get(id)?.fault.problem, "unreadable");
  }));

Deno.test("an index that is absent, truncated, corrupt or forged costs only time", () =>
  withRoot(async (root) => {
    past(root, 6);
    const whole = (await surveyTraces(root)).entries;
    await (await TaskStore.open(root, options)).close();
    const good = Deno.readTextFileSync(indexPath(root));
    const forged = good.replaceAll('"agent":"agent_a"', '"agent":"agent_b"');
    for (const bad of ["", "{", good.slice(0, -30), forged, "\u0000".repeat(1_000), `${good.split("\n")[0]}\n[]\n`]) {
      Deno.writeTextFileSync(indexPath(root), bad);
      const survey = await surveyTraces(root);
      assertEquals([survey.read, survey.entries], [6, whole]);
    }
    Deno.removeSync(indexPath(root));
    Deno.symlinkSync("/dev/zero", indexPath(root));
    assertEquals((await surveyTraces(root)).entries, whole);
    await (await TaskStore.open(root, options)).close();
    assertEquals(Deno.lstatSync(indexPath(root)).isFile, true);
    assertEquals((await surveyTraces(root)).read, 0);
  }));

Deno.test("a finished trace without its last row, or forged as a whole, is found damaged", () =>
  withRoot(async (root) => {
    Deno.mkdirSync(root);
    const [cut, forged] = [newTaskId(random.bytes), newTaskId(random.bytes)];
    const end: TaskEvent = staged({ from: "admission", to: "done", outcome: "cancelled", reason: "r" });
    for (const id of [cut, forged]) plantTrace(root, [created(id), end]);
    await (await TaskStore.open(root, options)).close();
    plantTrace(root, [created(cut)]);
    plantTrace(root, [{ type: "created", task: someOrder(forged, { instruction: "Something else" }) }, end]);
    // However often it is read.
    await (await TaskStore.open(root, options)).close();
    const between = await TaskStore.open(root, options);
    await between.create(ORDER);
    await between.close();
    const store = await TaskStore.open(root, options);
    const faults = Object.fromEntries(store.damaged().map(({ id, fault }) => [id, [fault.seq, fault.problem]]));
    assertEquals(faults, { [cut]: [2, "missing"], [forged]: [2, "altered"] });
    assertEquals(store.size, 3);
    assertEquals(assertThrows(() => store.read("0".repeat(32)), TaskdError).code, "not_found");
  }));

Deno.test("a damaged trace is followed up to its damage, not continued, and hides no other", () =>
  withRoot(async (root) => {
    const [good] = past(root, 1);
    const id = newTaskId(random.bytes);
    plantTrace(root, [created(id), ...TO_THE_GATE.map(staged)]);
    const path = tracePath(root, id);
    Deno.writeTextFileSync(path, Deno.readTextFileSync(path).replace('"to":"running"', '"to":"RUNNING"'));
    const store = await TaskStore.open(root, options);
    assertEquals(store.list().map(({ id }) => id), [good!]);
    assertEquals(store.damaged().map(({ id, fault }) => [id, fault.seq]), [[id, 3]]);
    assertEquals(store.resolve(id), id);
    assertEquals(assertThrows(() => store.read(id), TaskdError).code, "corrupt");
    const verdict = await store.verify(id);
    assertEquals(!verdict.intact && verdict.fault.seq, 3);
    assertEquals((await assertRejects(() => store.reopen(id), TaskdError)).code, "corrupt");
    const seen: number[] = [];
    const following = async () => {
      for await (const { seq } of store.follow(id, { signal: new AbortController().signal })) seen.push(seq);
    };
    assertEquals((await assertRejects(following, TaskdError)).code, "corrupt");
    await store.close();
  }));

Deno.test("a trace with an intact chain and impossible moves is damaged", () =>
  withRoot(async (root) => {
    Deno.mkdirSync(root);
    const id = newTaskId(random.bytes);
    const pushed = { branch: "b", commit: "c" };
    const push: TaskEvent = staged({ from: "pushing", to: "done", outcome: "pushed", reason: "r", pushed });
    plantTrace(root, [created(id), ...TO_THE_GATE.map(staged), push]);
    const store = await TaskStore.open(root, options);
    assertEquals(store.damaged().map(({ id, fault }) => [id, fault.seq]), [[id, 6]]);
    const verdict = await store.verify(id);
    assertEquals(!verdict.intact && verdict.fault.detail.includes("not in pushing"), true);
    await store.close();
  }));

Deno.test("a follower gets every row once, those of the past and those to come, and an end", () =>
  withRoot(async (root) => {
    const store = await TaskStore.open(root, options);
    const task = await store.create(ORDER);
    await task.append({ type: "note", text: "before" });
    const rows = store.follow(task.id, { signal: new AbortController().signal });
    assertEquals(await take(rows, 2), [1, 2]);
    const next = take(rows, 99);
    for (let n = 0; n < 40; n++) void task.append({ type: "output", channel: "stdout", text: `${n}` });
    await task.append({ type: "note", text: "after" });
    await task.move({ from: "admission", to: "done", outcome: "cancelled", reason: "r" });
    assertEquals(await next, Array.from({ length: 42 }, (_, n) => n + 3));
    await store.close();
  }));

Deno.test("a follower that returns with its last id gets what it missed, also after the end", () =>
  withRoot(async (root) => {
    const [id] = past(root, 1);
    const store = await TaskStore.open(root, options);
    const { seq } = store.read(id!);
    const signal = new AbortController().signal;
    assertEquals(await take(store.follow(id!, { after_seq: seq - 1, signal }), 9), [seq]);
    assertEquals(await take(store.follow(id!, { after_seq: seq, signal }), 9), []);
    assertEquals(await take(store.follow(id!, { after_seq: 1e9, signal }), 9), []);
    await store.close();
  }));

Deno.test("a follower that waits or does not read can be ended, and keeps nothing of the rows", () =>
  withRoot(async (root) => {
    const store = await TaskStore.open(root, options);
    const task = await store.create(ORDER);
    const stop = new AbortController();
    const rows = store.follow(task.id, { after_seq: 1, signal: stop.signal });
    const waiting = take(rows, 1);
    stop.abort();
    assertEquals(await waiting, []);
    const slow = store.follow(task.id, { signal: new AbortController().signal });
    assertEquals(await take(slow, 1), [1]);
    for (let n = 0; n < 200; n++) void task.append({ type: "output", channel: "stdout", text: "x".repeat(1_000) });
    await task.append({ type: "note", text: "last" });
    assertEquals(await take(slow, 201), Array.from({ length: 201 }, (_, n) => n + 2));
    await slow.return();
    await store.close();
  }));

Deno.test("listeners receive changes until they stop", () =>
  withRoot(async (root) => {
    const store = await TaskStore.open(root, options);
    const seen: string[] = [];
    const forget = store.onChange(({ record }) => void seen.push(`${record.seq} ${record.stage}`));
    const task = await store.create(ORDER);
    await task.move({ from: "admission", to: "staging" });
    forget();
    await task.move({ from: "staging", to: "running" });
    assertEquals(seen, ["1 admission", "2 staging"]);
    await store.close();
  }));

Deno.test("a task is opened once, and released by the store", () =>
  withRoot(async (root) => {
    const store = await TaskStore.open(root, options);
    const id = newTaskId(random.bytes);
    const other = await TaskStore.open(root, options);
    plantTrace(root, [created(id), ...TO_THE_GATE.map(staged)]);
    const second = await TaskStore.open(root, options);
    const task = await second.reopen(id);
    assertEquals(await second.reopen(id), task);
    assertEquals(second.live(id), task);
    assertEquals((await assertRejects(() => store.reopen(id), TaskdError)).code, "not_found");
    const third = await TaskStore.open(root, options);
    assertEquals((await assertRejects(() => third.reopen(id), TaskdError)).code, "busy");
    await second.release(id);
    const taken = await third.reopen(id);
    const { code } = await assertRejects(
      () => taken.approve({ diff_sha256: SHA, acknowledge: ["ci_files", "lockfile"] }),
      TaskdError,
    );
    assertEquals(code, "expired");
    assertEquals(taken.record.stage, APPROVED.from);
    for (const each of [store, other, second, third]) await each.close();
  }));

Deno.test({
  name: "a read-only directory can be listed and read, and takes no task" + unmountable,
  ignore: unmountable !== "",
  fn: () =>
    withRoot(async (root) => {
      const [id] = past(root, 1);
      await using view = await mountReadOnlyView(root);
      const logged: string[] = [];
      const log = (_level: string, event: string) => void logged.push(event);
      const store = await TaskStore.open(view.directory, { ...options, log });
      assertEquals(store.list().length, 1);
      assertEquals(store.read(id!).stage, "done");
      assertEquals((await assertRejects(() => store.create(ORDER), TaskdError)).code, "denied");
      assertEquals(store.size, 1);
      assertEquals((await store.save())?.code, "denied");
      await store.close();
      assertEquals(logged, ["index_unsaved", "index_unsaved"]);
    }),
});
