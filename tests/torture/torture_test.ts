import { assert, assertEquals } from "@std/assert";
import { MIN_XFS_MB, whyNotMountable, withMount } from "../support/mounts.ts";
import { torture } from "./_torture.ts";
import { longTest } from "../support/long.ts";

Deno.test("a branch equals its writers' database through kills, bounces, forks and checkpoints", async () => {
  const summary = await torture({ seed: 20_251, rounds: 4, log: () => {} });
  assertEquals(summary.rounds, 4);
  assert(summary.acknowledged > 50);
});

const why = await whyNotMountable("xfs");
longTest({
  name: `the same where snapshots, cache and checkouts share blocks${why}`,
  ignore: why !== "",
  fn: () =>
    withMount("xfs", MIN_XFS_MB * 2, async (directory) => {
      const summary = await torture({ seed: 20_252, rounds: 3, directory, log: () => {} });
      assertEquals(summary.rounds, 3);
    }),
});
