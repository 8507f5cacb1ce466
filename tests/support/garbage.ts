/**
 * A store in memory whose garbage is collected under a test's control.
 */

import type { FaultyBackend } from "./faulty_backend.ts";
import { MemoryBackend } from "./memory_backend.ts";
import type { GcResult } from "../../lib/store/gc.ts";
import { Store } from "../../lib/store/store.ts";
import { VirtualClock } from "./clock.ts";
import { makeTinyDatabase } from "./histories.ts";
import { withDirectory } from "./stores.ts";

/** What a test of garbage collection works with. */
export interface Bench {
  store: Store;
  backend: MemoryBackend;
  clock: VirtualClock;
  /** One pass; without a grace unless it is given. */
  gc: (grace_ms?: number) => Promise<GcResult>;
  /** Opens the same store once more, through `backend`. */
  open: (backend: MemoryBackend | FaultyBackend) => Promise<Store>;
}

/** A store in memory with the database `app`. */
export async function withStore(work: (bench: Bench) => Promise<void>): Promise<void> {
  await withDirectory(async (directory) => {
    const backend = new MemoryBackend();
    const clock = new VirtualClock();
    const open = (through: MemoryBackend | FaultyBackend) =>
      Store.open({ backend: through, workspace: directory, clock });
    using store = await open(backend);
    makeTinyDatabase(`${directory}/tiny.db`);
    await store.create("app", { from: `${directory}/tiny.db` });
    const gc = (grace_ms = 0) => store.collectGarbage({ grace_ms });
    await work({ store, backend, clock, gc, open });
  });
}

/** Passes until nothing is left to do. */
export async function settle({ gc }: Bench): Promise<void> {
  for (let pass = 0; pass < 5; pass++) {
    const { tombstoned, deleted } = await gc();
    if (tombstoned + deleted === 0) return;
  }
  throw new Error("garbage collection does not come to an end");
}
