/**
 * From a branch to a database file, in the three ways there are.
 */

import { OUTRIGHT } from "../../support/stores.ts";
import { join } from "@std/path/join";
import { type Bench, type BenchCase, settle } from "../bench.ts";
import { peers } from "../peers.ts";
import type { Place } from "../file_systems.ts";
import { run } from "../process.ts";
import { elapsed, interleave, type Measure, sample } from "../stats.ts";
import { DB, MAIN, removeShopStore, type ShopStore, shopStore } from "./_store.ts";

// A checkout is known clean without a look inside once its stamp is this old: the spec's second, and some.
const STAMP_AGE_MS = 1_100;

/** The case. */
export const checkout: BenchCase = {
  name: "checkout",
  title: "Check a branch out",
  method:
    "`clean check` finds the checkout as it was left; the other way to know is to hash it. `again, cached` makes the file of a new branch " +
    "whose content was checked out before. `first` starts with no checkout and no cache.",
  places: "each",
  async run(bench, place) {
    for (const size_mb of bench.pick([12, 1_024], [12])) {
      const shop = await shopStore(bench, place, size_mb);
      if (shop === undefined) continue;
      await first(bench, place, shop, size_mb);
      await again(bench, place, shop, size_mb);
      await clean(bench, place, shop, size_mb);
      await removeShopStore(shop);
    }
  },
};

async function first(bench: Bench, place: Place, shop: ShopStore, size_mb: number): Promise<void> {
  const { "cp": cp } = await peers(shop.file, place);
  const size = shop.created.size_bytes / 1e6;
  const rate = (ms: number) => size / (ms / 1_000);
  const materialize: Measure = async () => {
    for (const cache of ["checkouts", "checkouts-ro"]) {
      await Deno.remove(join(shop.dir, cache), { recursive: true }).catch(ignoreMissing);
    }
    await settle(place);
    return rate(await elapsed(() => shop.store.checkout(MAIN)));
  };
  const copy: Measure = async (round) => {
    await settle(place);
    return rate(await cp!(round));
  };
  const subjects = { "taskd checkout, first": materialize, "cp": copy };
  const taken = await interleave(subjects, { samples: bench.pick(8, 3), budget_ms: 60_000 });
  const target = { value: 400, is: "at_least" } as const;
  bench.add(place, "taskd checkout, first", "MB/s", taken["taskd checkout, first"]!, { size_mb, target });
  bench.add(place, "cp", "MB/s", taken.cp!, { size_mb, beside: "taskd checkout, first" });
}

async function again(bench: Bench, place: Place, shop: ShopStore, size_mb: number): Promise<void> {
  let count = 0;
  const cached: Measure = async () => {
    const branch = { db: DB, branch: `again-${++count}` };
    await shop.store.fork(MAIN, branch.branch);
    let source = "";
    const ms = await elapsed(async () => {
      source = (await shop.store.checkout(branch)).source;
    });
    if (place.clones && source !== "cached") throw new Error(`A cached chain was ${source} instead of cloned`);
    await shop.store.destroy(branch, OUTRIGHT);
    return ms;
  };
  const subjects = { "taskd checkout, again": cached, ...await peers(shop.file, place) };
  const taken = await interleave(subjects, { samples: bench.pick(20, 3), budget_ms: 30_000 });
  for (const [subject, samples] of Object.entries(taken)) {
    const promised = place.clones && subject.startsWith("taskd")
      ? { target: { value: 5, is: "at_most" } as const }
      : {};
    bench.add(place, subject, "ms", samples, { size_mb, beside: "taskd checkout, again", ...promised });
  }
}

async function clean(bench: Bench, place: Place, shop: ShopStore, size_mb: number): Promise<void> {
  const { path } = await shop.store.checkout(MAIN);
  await new Promise((resolve) => setTimeout(resolve, STAMP_AGE_MS));
  await shop.store.checkout(MAIN);
  const check: Measure = () =>
    elapsed(async () => {
      const { source } = await shop.store.checkout(MAIN);
      if (source !== "kept") throw new Error(`A clean checkout was ${source} instead of kept`);
    });
  const samples = await sample(check, { samples: bench.pick(200, 20), warmup: 5 });
  bench.add(place, "taskd clean check", "ms", samples, { size_mb, target: { value: 1, is: "at_most" } });
  const hash: Measure = () => elapsed(() => run("sha256sum", [path]));
  bench.add(place, "sha256sum", "ms", await sample(hash, { samples: bench.pick(5, 3) }), {
    size_mb,
    beside: "taskd clean check",
  });
}

function ignoreMissing(error: unknown): void {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}
