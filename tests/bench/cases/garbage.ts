/**
 * What a pass of garbage collection costs in a large store.
 */

import { join } from "@std/path/join";
import { randomHex, systemRandom } from "../../../lib/clock.ts";
import { openStore } from "../../../lib/store/open.ts";
import { decodeRef, encodeRef, markOf } from "../../../lib/store/ref.ts";
import type { BenchCase } from "../bench.ts";
import type { Place } from "../file_systems.ts";
import { elapsed } from "../stats.ts";

/** Objects of each branch that was destroyed. */
const OBJECTS_PER_LINEAGE = 100;

/** One pass after another, until all garbage is gone. */
export const garbage: BenchCase = {
  name: "garbage",
  title: "Garbage collection in a large store",
  method:
    "One object in ten is the base pointer of a living fork, with a ref of its own; the others are what destroyed branches left, a hundred each. The passes: one that finds the garbage, one that finds nothing new, one that deletes all of it, and one over what is left.",
  places: "once",
  async run(bench, place) {
    const objects = bench.pick(100_000, 2_000);
    const store_dir = await fill(place, { forks: objects / 10, destroyed: objects * 9 / 10 / OBJECTS_PER_LINEAGE });
    using store = await openStore(store_dir, { holder: "bench" });
    const pass = async (subject: string, grace_ms: number) => {
      let deleted = 0;
      const took_ms = await elapsed(async () => {
        deleted = (await store.collectGarbage({ grace_ms })).deleted;
      });
      bench.add(place, `${subject}, ${objects} objects`, "s", [took_ms / 1_000]);
      return deleted;
    };
    await pass("find the garbage", 3_600_000);
    await pass("find nothing new", 3_600_000);
    const deleted = await pass("delete it", 0);
    if (deleted !== objects * 9 / 10) throw new Error(`${deleted} of ${objects * 9 / 10} objects were deleted`);
    await pass("look at the rest", 0);
  },
};

/** Makes a store of so many forks and of what so many destroyed branches left; returns its directory. */
async function fill(place: Place, { forks, destroyed }: { forks: number; destroyed: number }): Promise<string> {
  const dir = join(place.dir, "store");
  {
    using store = await openStore(dir, { holder: "bench" });
    await store.create("app");
    await store.fork({ db: "app", branch: "main" }, "fork");
  }
  // A fork is two small files: copied here, so that making the store takes seconds and not minutes.
  const fork = decodeRef(await Deno.readFile(join(dir, "refs/app/fork.json")), "app@fork");
  const base = await Deno.readFile(join(dir, "data", fork.lineage, "base.json"));
  for (let index = 1; index < forks; index++) {
    const own = randomHex(systemRandom, 16);
    await writeInto(join(dir, "data", own), "base.json", base);
    const name = { db: "app", branch: `fork-${index}` };
    const copy = encodeRef({ ...fork, lineage: own, of: markOf(name), nonce: randomHex(systemRandom, 8) });
    await Deno.writeFile(join(dir, `refs/app/${name.branch}.json`), copy);
  }
  const content = new Uint8Array(200);
  for (let index = 0; index < destroyed; index++) {
    const epoch = join(dir, "data", randomHex(systemRandom, 16), hex(1));
    for (let txid = 1; txid <= OBJECTS_PER_LINEAGE; txid++) {
      await writeInto(epoch, `segment-${hex(txid + 1)}-${hex(txid)}.zst`, content);
    }
  }
  return dir;
}

async function writeInto(directory: string, name: string, bytes: Uint8Array): Promise<void> {
  await Deno.mkdir(directory, { recursive: true, mode: 0o700 });
  await Deno.writeFile(join(directory, name), bytes);
}

function hex(value: number): string {
  return value.toString(16).padStart(16, "0");
}
