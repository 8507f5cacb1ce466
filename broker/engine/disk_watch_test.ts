import { assertEquals, assertRejects } from "@std/assert";
import { VirtualClock } from "../../tests/support/clock.ts";
import type { DiskCount } from "./disk_count.ts";
import { COUNT_EVERY_MS, DiskWatch } from "./disk_watch.ts";
import { TaskEnding } from "./endings.ts";

const GIB = 2 ** 30;

/** A watch of 10 GiB over a meter that answers from a list, its last answer again and again. */
function watched(counts: (DiskCount & { took_ms?: number })[], limit_bytes = 10 * GIB) {
  const clock = new VirtualClock();
  const asked: (readonly string[])[] = [];
  const ended: string[] = [];
  const watch = new DiskWatch(["/s/work"], {
    clock,
    limit_bytes,
    meter: {
      count(folders) {
        const { took_ms = 0, ...found } = counts[Math.min(asked.length, counts.length - 1)]!;
        asked.push(folders);
        clock.advance(took_ms);
        return Promise.resolve(found);
      },
    },
    onEnding: ({ outcome, message }) => ended.push(`${outcome}: ${message}`),
  });
  /** Lets `ms` pass once the watch sleeps, and what is due happen. */
  const pass = async (ms = COUNT_EVERY_MS) => {
    clock.advance(ms);
    for (let turn = 0; turn < 10; turn++) await Promise.resolve();
  };
  return { watch, clock, asked, ended, pass };
}

Deno.test("a task that is found above its bound is ended once, with the figure and the setting", async () => {
  const { watch, ended, pass, asked } = watched([{ bytes: 10 * GIB }, { bytes: 12 * GIB }]);
  watch.start();
  await pass();
  assertEquals(ended, []);
  await pass();
  await pass();
  const hint = "have it write less, or raise task_disk_gb";
  assertEquals(ended, [`agent_failed: it took 12 GiB of disk, more than task_disk_gb (10 GiB); ${hint}`]);
  assertEquals([asked.length, watch.use], [2, { peak_bytes: 12 * GIB, limit_bytes: 10 * GIB }]);
  await watch.stop();
});

Deno.test("counting takes at most a twentieth of the time, and is never more than a minute behind", async () => {
  const { watch, clock, pass } = watched([
    { bytes: 1 },
    { bytes: 1, took_ms: 3_000 },
    { bytes: 1, took_ms: 30_000 },
    { bytes: 1 },
  ]);
  watch.start();
  await pass();
  assertEquals(clock.sleeping, [COUNT_EVERY_MS]);
  await pass();
  assertEquals(clock.sleeping, [19 * 3_000]);
  await pass(19 * 3_000);
  assertEquals(clock.sleeping, [60_000]);
  await pass(60_000);
  assertEquals(clock.sleeping, [COUNT_EVERY_MS]);
  await watch.stop();
  assertEquals(clock.sleeping, []);
});

Deno.test("a folder that stays closed to the count ends the task, and no other that is closed", async () => {
  const closed = { bytes: 1, incomplete: "du: cannot read directory '/s/work/x': Permission denied" };
  const { watch, ended, pass } = watched([closed, closed, { bytes: 1 }, closed]);
  watch.start();
  for (let count = 0; count < 5; count++) await pass();
  assertEquals(ended, []);
  await pass();
  assertEquals(ended, [
    `agent_failed: the disk that it takes, for task_disk_gb (10 GiB), cannot be counted: ${closed.incomplete}`,
  ]);
  await watch.stop();
});

Deno.test("what could be seen counts, also where it is not all", async () => {
  const { watch, ended, pass } = watched([{ bytes: 11 * GIB, incomplete: "no end" }]);
  watch.start();
  await pass();
  assertEquals(ended.length, 1);
  await watch.stop();
});

Deno.test("the last count holds a task to its bound that wrote just before its end", async () => {
  const { signal } = new AbortController();
  for (
    const [found, message] of [[{ bytes: 11 * GIB }, "it took 11 GiB"], [
      { bytes: 1, incomplete: "no end" },
      "no end",
    ]] as const
  ) {
    const { watch } = watched([found]);
    watch.start();
    await assertRejects(() => watch.finish(signal), TaskEnding, message);
  }
  const { watch, asked } = watched([{ bytes: 1 }]);
  watch.start();
  watch.add("/c/deps");
  await watch.finish(signal);
  assertEquals([asked, watch.use?.peak_bytes], [[["/s/work", "/c/deps"]], 1]);
});

Deno.test("a bound of 0 counts nothing", async () => {
  const { watch, asked, clock } = watched([{ bytes: 1 }], 0);
  watch.start();
  assertEquals(clock.sleeping, []);
  await watch.finish(new AbortController().signal);
  assertEquals([asked, watch.use], [[], undefined]);
});
