import { assert } from "@std/assert";
import { withDirectory } from "../support/stores.ts";
import { GcModel } from "./gc_model.ts";
import { testSeeds } from "../support/seed.ts";

/** How many seeds a run takes; `SIM_SEEDS=500` takes more. */
const SEEDS = Number(Deno.env.get("SIM_SEEDS") ?? 6);

Deno.test("at random work with deaths at any call nothing reached is deleted, and nothing else stays", async (t) => {
  for (const seed of testSeeds(SEEDS)) {
    await t.step(`seed ${seed}`, async () => {
      await withDirectory(async (directory) => {
        const summary = await new GcModel(directory, seed).run(160);
        if (Deno.env.get("SIM_LOG") === "1") console.log(JSON.stringify(summary));
        assert(summary.deleted > 0);
      });
    });
  }
});
