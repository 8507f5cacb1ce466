/**
 * Answers operations from a store in this process, for callers that no daemon serves.
 */

import { TaskdError } from "../errors.ts";
import { sqliteVersion } from "../sqlite/connection.ts";
import type { LongOptions } from "../store/results.ts";
import type { Store } from "../store/store.ts";
import type { CallableOp, OpAnswer, OpArgs, StatusAnswer } from "./messages.ts";
import { runStoreMethod, statusAddress, storeOperations } from "./store_operations.ts";
import type { RunStoreMethod, StoreMethod, StoreOp } from "./store_operations.ts";

/**
 * Runs an operation on a store that is at `location`, for people.
 *
 * @throws {TaskdError} with the store's code; `daemon_unreachable` for what needs a session or a daemon.
 */
export async function callAtRest<O extends CallableOp>(
  { store, location }: { store: Store; location: string },
  op: O,
  args: OpArgs<O>,
  long: LongOptions = {},
): Promise<OpAnswer<O>> {
  if (op === "status") return await statusOf(store, location, args as OpArgs<"status">) as OpAnswer<O>;
  const run = (method: StoreMethod, args: unknown[]) => runStoreMethod(store, method, args);
  const operations = storeOperations(run as RunStoreMethod);
  if (!Object.hasOwn(operations, op)) throw noDaemon();
  return await operations[op as StoreOp](args as never, long) as OpAnswer<O>;
}

async function statusOf(store: Store, location: string, args: OpArgs<"status">): Promise<StatusAnswer> {
  const address = statusAddress(args);
  return {
    sessions: [],
    ...(address === undefined ? {} : { branch: await store.status(address) }),
    ...(args.branches ? { branches: await store.branches(args.db), condition: await store.condition() } : {}),
    ...(args.ro_cache ? { ro_cache_bytes: store.roCacheBytes() } : {}),
    store: location,
    sqlite_version: sqliteVersion(),
    pid: Deno.pid,
  };
}

export function noDaemon(): TaskdError {
  return new TaskdError("daemon_unreachable", "No daemon serves this store", { hint: "Start it with: taskd serve" });
}
