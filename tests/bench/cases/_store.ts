/**
 * Making stores for cases, and looking at what is in them.
 */

import { join } from "@std/path/join";
import { openStore } from "../../../lib/store/open.ts";
import type { Address } from "../../../lib/store/names.ts";
import type { CreateResult } from "../../../lib/store/results.ts";
import type { Store } from "../../../lib/store/store.ts";
import { type Bench, settle } from "../bench.ts";
import type { Place } from "../file_systems.ts";

/** Name of the database in every case. */
export const DB = "shop";

/** The branch that a case starts from. */
export const MAIN: Address = { db: DB, branch: "main" };

/** A store that holds one shop. */
export interface ShopStore {
  store: Store;
  /** Directory of the store. */
  dir: string;
  /** The shop as a plain file, still there for the peers. */
  file: string;
  created: CreateResult;
}

/** Builds a shop and puts it into a new store of its own; undefined when there is no room. */
export async function shopStore(bench: Bench, place: Place, size_mb: number): Promise<ShopStore | undefined> {
  const file = await bench.shop(place, size_mb);
  if (file === undefined) return undefined;
  const dir = join(place.dir, `store-${size_mb}`);
  const store = await openStore(dir, { holder: "bench" });
  const created = await store.create(DB, { from: file });
  await settle(place);
  return { store, dir, file, created };
}

/** Removes a shop's store and file: the next size needs the room. */
export async function removeShopStore({ dir, file }: ShopStore): Promise<void> {
  await Deno.remove(dir, { recursive: true });
  await Deno.remove(file);
}

/** Sizes of all files under `dir` by path. */
export async function filesUnder(dir: string): Promise<Map<string, number>> {
  const files = new Map<string, number>();
  for await (const entry of Deno.readDir(dir)) {
    const path = join(dir, entry.name);
    if (entry.isDirectory) { for (const [inner, size] of await filesUnder(path)) files.set(inner, size); }
    else files.set(path, (await Deno.stat(path)).size);
  }
  return files;
}
