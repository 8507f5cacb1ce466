import { assert } from "@std/assert";
import { withDirectory } from "../support/stores.ts";
import { GcModel } from "./gc_model.ts";

/** How many seeds a plain run takes; `SIM_SEEDS=500` takes more, `SIM_SEED=7` replays one. */
const SEEDS = Number(Deno.env.get("SIM_SEEDS") ?? 6);
const ONLY = Deno.env.get("SIM_SEED");

Deno.test("at random work with deaths at any call nothing reached is deleted, and nothing else stays", async (t) => {
  const seeds = ONLY === undefined ? Array.from({ length: SEEDS }, (_, index) => index + 1) : [Number(ONLY)];
  for (const seed of seeds) {
    await t.step(`seed ${seed}`, async () => {
      await withDirectory(async (directory) => {
        const summary = await new GcModel(directory, seed).run(160);
        if (Deno.env.get("SIM_LOG") === "1") console.log(JSON.stringify(summary));
        assert(summary.deleted > 0);
      });
    });
  }
});
