import { assertEquals } from "@std/assert";
import fc from "../tests/packages/fast_check.ts";
import { KeyedMutex } from "./keyed_mutex.ts";

Deno.test("no key is ever held twice, every call finishes, and nothing is left behind", async () => {
  const keys = ["a", "b", "c", "d"];
  await fc.assert(fc.asyncProperty(
    fc.scheduler(),
    fc.array(fc.record({ keys: fc.array(fc.constantFrom(...keys), { maxLength: 4 }), fails: fc.boolean() }), {
      maxLength: 12,
    }),
    async (scheduler, calls) => {
      const mutex = new KeyedMutex();
      const held = new Set<string>();
      let finished = 0;
      const all = calls.map((call) =>
        mutex.run(call.keys, async () => {
          const mine = new Set(call.keys);
          for (const key of mine) {
            assertEquals(held.has(key), false);
            held.add(key);
          }
          await scheduler.schedule(Promise.resolve());
          for (const key of mine) held.delete(key);
          if (call.fails) throw new Error("staged");
        }).catch((error) => assertEquals(error.message, "staged")).finally(() => finished++)
      );
      await scheduler.waitFor(Promise.all(all));
      assertEquals([finished, mutex.size, held.size], [calls.length, 0, 0]);
    },
  ));
});

Deno.test("callers of one key are served in the order they came", async () => {
  const mutex = new KeyedMutex();
  const order: number[] = [];
  await Promise.all([1, 2, 3, 4].map((caller) =>
    mutex.run(["key"], async () => {
      order.push(caller);
      await Promise.resolve();
    })
  ));
  assertEquals(order, [1, 2, 3, 4]);
});

Deno.test("a caller of several keys is not overtaken at one of them while it waits for another", async () => {
  const mutex = new KeyedMutex();
  const order: string[] = [];
  await Promise.all([["a"], ["a", "b"], ["b"]].map((keys) =>
    mutex.run(keys, async () => {
      order.push(keys.join(""));
      await Promise.resolve();
    })
  ));
  assertEquals(order, ["a", "ab", "b"]);
});
