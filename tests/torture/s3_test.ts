import { assert, assertEquals } from "@std/assert";
import { startMinio } from "../support/minio.ts";
import { torture } from "./_torture.ts";
import { longTest } from "../support/long.ts";

longTest(
  "a branch in a bucket equals its writers' database through kills, bounces and forks",
  async () => {
    await using s3 = await startMinio();
    const summary = await torture({ seed: 20_253, rounds: 3, s3, log: () => {} });
    assertEquals(summary.rounds, 3);
    assert(summary.acknowledged > 50);
  },
);
