import { assert, assertEquals } from "@std/assert";
import { torture } from "./_torture.ts";

Deno.test("a branch equals its writers' database through kills, bounces, forks and checkpoints", async () => {
  const summary = await torture({ seed: 20_251, rounds: 4, log: () => {} });
  assertEquals(summary.rounds, 4);
  assert(summary.acknowledged > 50);
});
