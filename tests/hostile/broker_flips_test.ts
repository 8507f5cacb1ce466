/**
 * One bit flipped in any record of a broker's home: what it says afterwards is what it said before, or it names the
 * record as damaged. A task, an item or a spend is never another one, and never gone without a word.
 */

import { assert, assertEquals } from "@std/assert";
import { hasCode } from "../../lib/errors.ts";
import type { SubmitRequest } from "../../broker/task/schema.ts";
import { DurableQueue } from "../../broker/engine/queue/queue.ts";
import { TaskStore } from "../../broker/task/task_store.ts";
import { Site } from "../broker/admission/site.ts";
import { APPROVED, plantTrace, someOrder, staged, TO_THE_GATE } from "../broker/task/lives.ts";
import { VirtualClock } from "../support/clock.ts";
import { scaled, scaledTest } from "../support/long.ts";
import { withDirectory } from "../support/stores.ts";
import { SeededRandom } from "../support/writers/random.ts";

/** Calls back with each file with one bit flipped: those of `first`, a text in it, and as many others as `counts` say. */
async function withFlips(
  paths: string[],
  { first = "", ...counts }: { short: number; long: number; first?: string },
  look: (flipped: { path: string; bit: number }) => Promise<void>,
): Promise<number> {
  const random = new SeededRandom(11);
  let flips = 0;
  for (const path of paths) {
    const bytes = await Deno.readFile(path);
    const { mtime } = await Deno.stat(path);
    const begin = new TextDecoder().decode(bytes).indexOf(first) * 8;
    for (let flip = 0; flip < first.length * 8 + scaled(counts); flip++, flips++) {
      const bit = flip < first.length * 8 ? begin + flip : random.between(0, bytes.length * 8 - 1);
      await Deno.writeFile(path, bytes.with(bit >> 3, bytes[bit >> 3]! ^ (1 << (bit & 7))));
      // Half of them as a disk flips them, which changes no time: an index then vouches for what it has noted.
      if (flip % 2 === 0) await Deno.utime(path, mtime!, mtime!);
      await look({ path, bit });
      await Deno.writeFile(path, bytes);
      await Deno.utime(path, mtime!, mtime!);
    }
  }
  return flips;
}

scaledTest("a bit flipped in a trace or in the index changes no task unsaid", () =>
  withDirectory(async (root) => {
    const ids = ["ab", "cd", "ef"].map((pair) => pair.repeat(16));
    ids.forEach((id, index) =>
      plantTrace(root, [
        { type: "created", task: someOrder(id) },
        ...TO_THE_GATE.map(staged),
        ...(index === 0 ? [] : [staged(APPROVED)]),
      ])
    );
    const expected = new Map<string, unknown>();
    {
      const store = await TaskStore.open(root);
      for (const id of ids) expected.set(id, store.read(id));
      await store.close();
    }
    const paths = [`${root}/index.jsonl`, ...ids.map((id) => `${root}/${id}.jsonl`)];
    await withFlips(paths, { short: 60, long: 500 }, async ({ path, bit }) => {
      const index = await Deno.readFile(`${root}/index.jsonl`);
      const store = await TaskStore.open(root);
      const damaged = new Set(store.damaged().map(({ id }) => id));
      for (const id of ids) {
        const own = path === `${root}/${id}.jsonl`;
        try {
          assertEquals(store.read(id), expected.get(id), `bit ${bit} of ${path}`);
          assert(!own, `bit ${bit} of ${path} is read over`);
        } catch (error) {
          assert(own && hasCode(error, "corrupt") && error.message.includes(path), String(error));
          assert(!(await store.verify(id)).intact);
          // What the index vouches for by size and time is looked at when it is read.
          assert(damaged.has(id) || store.list().some((task) => task.id === id));
        }
      }
      await store.close();
      await Deno.writeFile(`${root}/index.jsonl`, index);
    });
  }));

scaledTest(
  "a bit flipped in an item of the queue changes no request, and the log names the item",
  () =>
    withDirectory(async (root) => {
      const directory = `${root}/queue`;
      const tasks = await TaskStore.open(`${root}/audit`);
      const logged: string[] = [];
      const engine = { submit: () => Promise.reject(new Error("none begins")), kill: () => Promise.resolve() };
      const open = () =>
        new DurableQueue({
          directory,
          tasks,
          // No slot: what waits goes on waiting.
          engine: { ...engine, submit: () => new Promise<never>(() => {}) },
          log: (_level, _event, message) => logged.push(message),
          clock: new VirtualClock(),
        });
      const request: SubmitRequest = { repo: "example.com/o/r", instruction: "Say hello" };
      const queue = open();
      const items = [await queue.enqueue(request), await queue.enqueue(request)];
      const paths = items.map(({ id }) => `${directory}/${id}.json`);
      await withFlips(paths, { short: 150, long: 500 }, ({ path, bit }) => {
        logged.length = 0;
        const left = open().list();
        const named = logged.some((line) => line.includes(path));
        for (const item of left) assertEquals(item, items.find(({ id }) => id === item.id), `bit ${bit} of ${path}`);
        assertEquals(left.length, named ? 1 : 2, `bit ${bit} of ${path}`);
        return Promise.resolve();
      });
      await tasks.close();
    }),
);

scaledTest("a bit flipped in the ledger forgets no spend: the ceiling counts it or refuses", async () => {
  await using site = await Site.make({ global_budget_usd: 100, global_max_tasks: 1_000 });
  for (const usd of [1, 2.5, 0.125]) await site.run(usd);
  await site.admission.close();
  const whole = await Deno.readFile(site.ledger);
  await withFlips([site.ledger], { short: 100, long: 500, first: "2.5" }, async ({ bit }) => {
    await site.start();
    const { starts, spent_usd, damaged, usd } = site.admission.ceiling();
    await site.admission.close();
    assert(damaged > 0 ? usd.blocked : spent_usd === 3.625, `bit ${bit}: ${spent_usd} USD, ${damaged} damaged`);
    assert(starts >= 3 || damaged > 0, `bit ${bit}: ${starts} starts`);
    await Deno.writeFile(site.ledger, whole);
  });
  await site.start();
});
