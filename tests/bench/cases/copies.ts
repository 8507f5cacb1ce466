/**
 * What a second copy of a database costs without a branch store.
 *
 * @module
 */

import type { BenchCase } from "../bench.ts";
import { peers } from "../peers.ts";
import { run } from "../process.ts";
import { elapsed, interleave } from "../stats.ts";

/** The case. */
export const copies: BenchCase = {
  name: "copies",
  title: "A second copy without a branch store",
  method: "One database file, copied in every usual way; `true` is what starting a program costs alone.",
  places: "each",
  async run(bench, place) {
    for (const size_mb of bench.pick([12, 100, 1_024, 4_096], [12])) {
      const shop = await bench.shop(place, size_mb);
      if (shop === undefined) continue;
      const subjects = { true: () => elapsed(() => run("true", [])), ...await peers(shop, place) };
      const budget_ms = bench.pick(20_000, 5_000);
      const taken = await interleave(subjects, { samples: size_mb > 500 ? 5 : 20, warmup: 1, budget_ms });
      for (const [subject, samples] of Object.entries(taken)) bench.add(place, subject, "ms", samples, { size_mb });
      await Deno.remove(shop);
    }
  },
};
