import { assertEquals, assertThrows } from "@std/assert";
import { interleave, summarize } from "./stats.ts";

Deno.test("summarize() gives percentiles that are samples, by nearest rank", () => {
  const samples = Array.from({ length: 100 }, (_, index) => 100 - index);
  assertEquals(summarize(samples), { n: 100, min: 1, p5: 5, p50: 50, p95: 95, max: 100 });
  assertEquals(summarize([7]), { n: 1, min: 7, p5: 7, p50: 7, p95: 7, max: 7 });
  assertThrows(() => summarize([]), RangeError);
});

Deno.test("interleave() alternates the order and leaves warm-up rounds out", async () => {
  const order: string[] = [];
  const subject = (name: string) => (round: number) => {
    order.push(name);
    return round;
  };
  const taken = await interleave({ a: subject("a"), b: subject("b") }, { samples: 3, warmup: 1 });
  assertEquals(taken, { a: [0, 1, 2], b: [0, 1, 2] });
  assertEquals(order.join(""), "baabbaab");
});

Deno.test("interleave() makes three rounds even when its budget is spent at once", async () => {
  assertEquals((await interleave({ a: () => 1 }, { samples: 50, budget_ms: 0 })).a, [1, 1, 1]);
});
