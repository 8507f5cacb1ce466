/**
 * What a branch costs, at any size of the database.
 */

import { OUTRIGHT } from "../../support/stores.ts";
import { join } from "@std/path/join";
import type { Bench, BenchCase } from "../bench.ts";
import { peers } from "../peers.ts";
import type { Place } from "../file_systems.ts";
import { elapsed, interleave, type Measure, sample } from "../stats.ts";
import { DB, filesUnder, MAIN, removeShopStore, type ShopStore, shopStore } from "./_store.ts";

// Beyond this a checkout where blocks cannot be shared takes seconds and says nothing new.
const COPY_LIMIT_MB = 1_024;

/** The case. */
export const fork: BenchCase = {
  name: "fork",
  title: "Fork a branch",
  method:
    "`fork` makes a branch, durably: no file yet, since most branches are opened later or never. `fork + checkout` also makes the " +
    "database file an application can open, which is what every other way does. The other ways are listed beside it.",
  places: "each",
  async run(bench, place) {
    for (const size_mb of bench.pick([12, 100, 1_024, 4_096], [12])) {
      const shop = await shopStore(bench, place, size_mb);
      if (shop === undefined) continue;
      await compare(bench, place, shop, size_mb);
      await removeShopStore(shop);
    }
  },
};

async function compare(bench: Bench, place: Place, shop: ShopStore, size_mb: number): Promise<void> {
  let forks = 0;
  const makeFork = async () => {
    const branch = `fork-${++forks}`;
    await shop.store.fork(MAIN, branch);
    return { db: DB, branch };
  };
  await written(bench, place, shop, size_mb, makeFork);
  const forkOnly: Measure = () => elapsed(makeFork);
  const forkAndCheckout: Measure = async () => {
    let branch = MAIN;
    const ms = await elapsed(async () => {
      branch = await makeFork();
      await shop.store.checkout(branch);
    });
    await shop.store.destroy(branch, OUTRIGHT);
    return ms;
  };
  const subjects: Record<string, Measure> = { "taskd fork": forkOnly };
  if (place.clones || size_mb <= COPY_LIMIT_MB) subjects["taskd fork + checkout"] = forkAndCheckout;
  else bench.skip(`fork + checkout at ${size_mb} MB on ${place.kind}`, "it copies the whole file there");
  Object.assign(subjects, await peers(shop.file, place));
  const budget_ms = bench.pick(30_000, 5_000);
  const rounds = size_mb > COPY_LIMIT_MB ? { samples: 5, warmup: 0 } : { samples: bench.pick(20, 5) };
  const taken = await interleave(subjects, { ...rounds, budget_ms });
  const more = await sample(forkOnly, { samples: bench.pick(200, 20) });
  taken["taskd fork"]!.push(...more);
  for (const [subject, samples] of Object.entries(taken)) {
    const target = subject === "taskd fork" ? { target: { value: 3, is: "at_most" } as const } : {};
    bench.add(place, subject, "ms", samples, { size_mb, beside: "taskd fork", ...target });
  }
}

/** What one fork adds to the store. */
async function written(
  bench: Bench,
  place: Place,
  shop: ShopStore,
  size_mb: number,
  makeFork: () => Promise<unknown>,
): Promise<void> {
  const objects = async () =>
    new Map([...await filesUnder(join(shop.dir, "data")), ...await filesUnder(join(shop.dir, "refs"))]);
  const before = await objects();
  await makeFork();
  const added = [...await objects()].filter(([path]) => !before.has(path));
  bench.add(place, "objects a fork adds", "objects", [added.length], { size_mb, target: { value: 2, is: "at_most" } });
  const bytes = added.reduce((sum, [, size]) => sum + size, 0);
  bench.add(place, "bytes a fork adds", "bytes", [bytes], { size_mb, target: { value: 400, is: "at_most" } });
}
