import { assert } from "@std/assert";
import { scaled, scaledTest } from "../support/long.ts";
import { MemoryBackend } from "../support/memory_backend.ts";
import { testSeed } from "../support/seed.ts";
import { makeMemoryDirectory } from "./memory_directory.ts";
import { HistoryModel, type HistoryModelOptions, type HistorySummary } from "./history_model.ts";

/** Runs a model in memory. */
async function run(days: number, options: HistoryModelOptions): Promise<HistorySummary> {
  const directory = await makeMemoryDirectory("taskd-history-");
  try {
    const summary = await new HistoryModel(directory, new MemoryBackend(), options).run(days);
    if (Deno.env.get("SIM_LOG") === "1") console.log(JSON.stringify(summary));
    return summary;
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

scaledTest("a year is stored in five times the live size, and every kept point restores", async () => {
  const flushes_a_day = scaled({ short: 12, long: 24 });
  // One per cent of the pages changes in a day.
  const summary = await run(scaled({ short: 9, long: 365 }), {
    seed: testSeed(1),
    pages: 100 * flushes_a_day,
    flushes_a_day,
  });
  assert(summary.folded > summary.flushes / 2, JSON.stringify(summary));
  assert(summary.most_stored <= 5, JSON.stringify(summary));
});

scaledTest("at a flush every 30 s or 5 minutes no kept point is far from a snapshot", async () => {
  const summary = await run(2, {
    seed: testSeed(3),
    pages: scaled({ short: 288, long: 2880 }),
    flushes_a_day: scaled({ short: 288, long: 2880 }),
  });
  assert(summary.folded > 0 && summary.deepest > 3, JSON.stringify(summary));
});

scaledTest("with forks, rollbacks and promotes in between every kept point restores as well", async () => {
  const summary = await run(scaled({ short: 5, long: 120 }), {
    seed: testSeed(2),
    pages: 60,
    flushes_a_day: scaled({ short: 32, long: 96 }),
    operations: true,
  });
  assert(summary.folded > 0, JSON.stringify(summary));
});
