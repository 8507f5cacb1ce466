import { assert } from "@std/assert";
import { MemoryBackend } from "../support/memory_backend.ts";
import { World } from "./_world.ts";
import { makeMemoryDirectory } from "./memory_directory.ts";
import { testSeeds } from "../support/seed.ts";

/** How many seeds a run takes; `SIM_SEEDS=500` takes more. */
const SEEDS = Number(Deno.env.get("SIM_SEEDS") ?? 4);

for (const fault_rate of [0, 0.05]) {
  const weather = fault_rate === 0 ? "" : ", on a backend that fails now and then";
  Deno.test(`actors that work at once, starve and crash are never lied to${weather}`, async (t) => {
    let merges = 0;
    const seeds = testSeeds(SEEDS);
    for (const seed of seeds) {
      await t.step(`seed ${seed}`, async () => {
        const directory = await makeMemoryDirectory("sim-");
        try {
          const world = new World(new MemoryBackend(), directory, { seed, fault_rate });
          const summary = await world.run({ actors: 3, operations: 60 });
          assert(summary.operations >= 60);
          merges += summary.merges;
          if (Deno.env.get("SIM_LOG") === "1") console.log(JSON.stringify(summary));
        } finally {
          await Deno.remove(directory, { recursive: true });
        }
      });
    }
    // Else the world has become one in which they are all refused.
    if (fault_rate === 0 && seeds.length > 3) assert(merges > 0);
  });
}
