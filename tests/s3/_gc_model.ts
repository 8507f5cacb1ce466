/**
 * The model of garbage collection on a bucket: the same random work, deaths and passes as in memory.
 */

import { assert } from "@std/assert";
import { GcModel } from "../sim/gc_model.ts";
import { emptyS3, type S3Place } from "../support/s3_server.ts";
import { withDirectory } from "../support/stores.ts";
import { testSeed } from "../support/seed.ts";

/** How much a plain run does; `SIM_OPERATIONS=400` does more. */
const OPERATIONS = Number(Deno.env.get("SIM_OPERATIONS") ?? 60);
const SEED = testSeed(1);

/** Registers the test for one server. */
export function gcModelOnS3(name: string, place: () => S3Place): void {
  Deno.test(`${name}: at random work with deaths nothing reached is deleted, and nothing else stays`, async () => {
    await using bucket = await emptyS3(place());
    await withDirectory(async (directory) => {
      const { operations, crashes } = await new GcModel(directory, SEED, bucket.backend).run(OPERATIONS);
      assert(Object.keys(operations).length > 5 && crashes > 0);
    });
  });
}
