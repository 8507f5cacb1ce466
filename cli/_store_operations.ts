/**
 * The operations, done on the store in this process.
 *
 * @module
 */

import { sqliteVersion } from "../lib/sqlite/connection.ts";
import { openStore } from "../lib/store/open.ts";
import type { Operations } from "./operations.ts";

/** Opens the store in `directory`, made if it is not there yet. */
export async function openStoreOperations(directory: string): Promise<Operations> {
  const store = await openStore(directory, { holder: "cli" });
  return {
    branches: store,
    store: () => Promise.resolve(store),
    sqliteVersion: () => Promise.resolve(sqliteVersion()),
    close: () => Promise.resolve(store.close()),
  };
}
