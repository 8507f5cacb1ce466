/**
 * The operations, done on the store in this process.
 *
 * @module
 */

import { sqliteVersion } from "../../lib/sqlite/connection.ts";
import { openStore } from "../../lib/store/open.ts";
import type { Store } from "../../lib/store/store.ts";
import type { Plan } from "./plan.ts";
import type { Operations } from "./operations.ts";

/** Opens the store of a plan, made if it is not there yet. */
export async function openPlanned({ store, workspace, s3 }: Plan): Promise<Store> {
  return await openStore(store, { holder: "cli", ...(s3 === undefined ? {} : { workspace, s3: s3.options }) });
}

/** Opens the store of a plan for its operations. */
export async function openStoreOperations(plan: Plan): Promise<Operations> {
  const store = await openPlanned(plan);
  return {
    branches: store,
    store: () => Promise.resolve(store),
    sqliteVersion: () => Promise.resolve(sqliteVersion()),
    close: () => Promise.resolve(store.close()),
  };
}
