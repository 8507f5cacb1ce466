import { verifyTrace } from "../../tests/broker/task/verify_trace.ts";
import { assertEquals, assertRejects } from "@std/assert";
import { fileOf, plantTrace, someOrder, staged, TO_THE_GATE } from "../../tests/broker/task/lives.ts";
import { VirtualClock } from "../../tests/support/clock.ts";
import { makeRoom } from "../../tests/support/full_disk.ts";
import { mountReadOnlyView, whyNotMountable, withMount } from "../../tests/support/mounts.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { Row, TaskEvent } from "./rows.ts";
import { scanTrace, tracePath } from "./trace.ts";
import { TraceWriter } from "./trace_writer.ts";

const ID = "ab".repeat(16);
const CREATED = { type: "created", task: someOrder(ID) } as const;
const EVENTS: TaskEvent[] = [CREATED, ...TO_THE_GATE.map(staged)];
const clock = new VirtualClock();
const unmountable = await whyNotMountable("tmpfs");

async function withRoot(fn: (root: string) => Promise<void>): Promise<void> {
  const root = await Deno.makeTempDir();
  try {
    await fn(root);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

async function refused(work: Promise<unknown>): Promise<string> {
  return (await assertRejects(() => work, TaskdError)).code;
}

function rows(root: string): Row[] {
  return [...scanTrace(tracePath(root, ID))].map(({ row }) => row);
}

Deno.test("append() resolves when the row is in the file, rows of one turn in their order", () =>
  withRoot(async (root) => {
    const batches: number[][] = [];
    const onDurable = (batch: Row[]) => void batches.push(batch.map(({ seq }) => seq));
    const writer = await TraceWriter.create(root, CREATED, { clock, onDurable });
    const results = await Promise.all(TO_THE_GATE.map((move) => writer.append(staged(move))));
    assertEquals(rows(root).slice(1), results);
    assertEquals(batches, [[1], [2, 3, 4, 5]]);
    assertEquals(verifyTrace(root, ID), { intact: true, head: writer.head });
    assertEquals(Deno.statSync(tracePath(root, ID)).mode! & 0o777, 0o600);
    await writer.close();
    assertEquals(await refused(writer.append({ type: "note", text: "late" })), "stopping");
  }));

Deno.test("an id that is taken is refused and its trace left alone", () =>
  withRoot(async (root) => {
    plantTrace(root, EVENTS);
    assertEquals(await refused(TraceWriter.create(root, CREATED, { clock })), "already_exists");
    assertEquals(rows(root).length, 5);
  }));

Deno.test("a trace has one writer", () =>
  withRoot(async (root) => {
    const writer = await TraceWriter.create(root, CREATED, { clock });
    assertEquals(await refused(TraceWriter.open(root, ID, { clock })), "busy");
    await writer.close();
    const second = await TraceWriter.open(root, ID, { clock });
    await second.close();
  }));

Deno.test("wherever a crash tears the last line, it is cut off, a row says so, and the chain goes on", () =>
  withRoot(async (root) => {
    const planted = plantTrace(root, EVENTS);
    const whole = fileOf(planted);
    const last = planted.at(-1)!.line.length;
    for (let left = 1; left < last; left += 40) {
      Deno.writeFileSync(tracePath(root, ID), whole.subarray(0, whole.length - last + left));
      const seen: string[] = [];
      const writer = await TraceWriter.open(root, ID, { clock, onRow: (row) => void seen.push(row.type) });
      await writer.append({ type: "note", text: "on" });
      await writer.close();
      assertEquals(seen, ["created", "stage", "stage", "stage", "cut"]);
      const verdict = verifyTrace(root, ID);
      assertEquals(verdict.intact && verdict.head.seq, 6);
      assertEquals(rows(root)[4], { ...rows(root)[4]!, type: "cut", bytes: left } as Row);
    }
  }));

Deno.test("a trace that was altered is not continued", () =>
  withRoot(async (root) => {
    plantTrace(root, EVENTS);
    const text = Deno.readTextFileSync(tracePath(root, ID));
    for (
      const bad of [
        text.replace("Fix", "Fax"),
        text + "{}\n",
        text.slice(text.indexOf("\n") + 1),
        "",
        text.slice(0, 40),
      ]
    ) {
      Deno.writeTextFileSync(tracePath(root, ID), bad);
      assertEquals(await refused(TraceWriter.open(root, ID, { clock })), "corrupt");
      assertEquals(Deno.readTextFileSync(tracePath(root, ID)), bad);
    }
  }));

Deno.test("a file that another process appends to, or removes, takes no more rows", () =>
  withRoot(async (root) => {
    const harms: ((path: string) => void)[] = [
      (path) => Deno.writeTextFileSync(path, "{}\n", { append: true }),
      (path) => Deno.removeSync(path),
      (path) => Deno.truncateSync(path, 10),
    ];
    for (const harm of harms) {
      const writer = await TraceWriter.create(root, CREATED, { clock });
      harm(writer.path);
      assertEquals(await refused(writer.append({ type: "note", text: "n" })), "fenced");
      assertEquals(await refused(writer.append({ type: "note", text: "n" })), "fenced");
      await writer.close();
      await Deno.remove(writer.path).catch(() => {});
    }
  }));

Deno.test("output that comes faster than the disk is refused; what decides is not", () =>
  withRoot(async (root) => {
    const writer = await TraceWriter.create(root, CREATED, { clock });
    const output = { type: "output", channel: "stdout", text: "x".repeat(16_000) } as const;
    const flood = Promise.allSettled(Array.from({ length: 1_000 }, () => writer.append(output)));
    const move = writer.append(staged(TO_THE_GATE[0]!));
    const refusals = (await flood).filter(({ status }) => status === "rejected").length;
    assertEquals(refusals > 700 && refusals < 750, true);
    assertEquals((await move).seq, 1_002 - refusals);
    assertEquals((await writer.append(output)).type, "output");
    await writer.close();
    assertEquals(verifyTrace(root, ID).intact, true);
  }));

Deno.test("a row that breaks a limit is refused and the next one follows on", () =>
  withRoot(async (root) => {
    const writer = await TraceWriter.create(root, CREATED, { clock });
    const bad = writer.append({ type: "note", text: "x".repeat(1_000_000) });
    const good = writer.append({ type: "note", text: "good" });
    assertEquals(await refused(bad), "invalid_request");
    assertEquals((await good).seq, 2);
    await writer.close();
    assertEquals(verifyTrace(root, ID).intact, true);
  }));

Deno.test({
  name: "a full disk refuses the row, leaves no part of it, and takes rows again once there is room" + unmountable,
  ignore: unmountable !== "",
  fn: () =>
    withMount("tmpfs", 1, async (root) => {
      const writer = await TraceWriter.create(root, CREATED, { clock });
      const filler = `${root}/filler`;
      Deno.writeFileSync(filler, new Uint8Array(900_000));
      const failed: string[] = [];
      for (let n = 0; failed.length === 0 && n < 100; n++) {
        const two = [
          writer.append({ type: "note", text: "x".repeat(60_000) }),
          writer.append({ type: "note", text: "y" }),
        ];
        for (const result of await Promise.allSettled(two)) {
          if (result.status === "rejected") failed.push(result.reason.code);
        }
      }
      assertEquals(failed, ["no_space", "no_space"]);
      const verdict = verifyTrace(root, ID);
      assertEquals(verdict, { intact: true, head: writer.head });
      makeRoom(filler);
      assertEquals((await writer.append({ type: "note", text: "room" })).seq, writer.head.seq);
      await writer.close();
      assertEquals(verifyTrace(root, ID).intact, true);
    }),
});

Deno.test({
  name: "a full or read-only disk admits no task and leaves no trace of one" + unmountable,
  ignore: unmountable !== "",
  fn: () =>
    withMount("tmpfs", 1, async (root) => {
      Deno.writeFileSync(`${root}/filler`, new Uint8Array(1_040_384));
      const big = { type: "created", task: someOrder(ID, { instruction: "x".repeat(100_000) }) } as const;
      assertEquals(await refused(TraceWriter.create(root, big, { clock })), "no_space");
      assertEquals([...Deno.readDirSync(root)].map(({ name }) => name), ["filler"]);
      await using view = await mountReadOnlyView(root);
      assertEquals(await refused(TraceWriter.create(view.directory, CREATED, { clock })), "denied");
    }),
});
