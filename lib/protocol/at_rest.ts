/**
 * Answers operations from a store in this process, for callers that no daemon serves.
 */

import { TaskdError } from "../errors.ts";
import { sqliteVersion } from "../sqlite/connection.ts";
import type { LongOptions } from "../store/results.ts";
import type { Store } from "../store/store.ts";
import type { CallableOp, OpAnswer, OpArgs, StatusAnswer } from "./messages.ts";
import { runStoreMethod, statusAddress, storeOperations } from "./store_operations.ts";
import type { RunStoreMethod, StoreMethod, StoreOp, StoreOperations } from "./store_operations.ts";

export class StoreAtRest {
  readonly #store: Store;
  readonly #location: string;
  readonly #operations: StoreOperations;

  /** `location` is where `store` is, for people. */
  constructor(store: Store, location: string) {
    this.#store = store;
    this.#location = location;
    const run = (method: StoreMethod, args: unknown[]) => runStoreMethod(store, method, args);
    this.#operations = storeOperations(run as RunStoreMethod);
  }

  /**
   * Runs an operation.
   *
   * @throws {TaskdError} with the store's code; `daemon_unreachable` for what needs a session or a daemon.
   */
  async call<O extends CallableOp>(op: O, args: OpArgs<O>, long: LongOptions = {}): Promise<OpAnswer<O>> {
    if (op === "status") return await this.#status(args as OpArgs<"status">) as OpAnswer<O>;
    if (!Object.hasOwn(this.#operations, op)) throw noDaemon();
    return await this.#operations[op as StoreOp](args as never, long) as OpAnswer<O>;
  }

  async #status(args: OpArgs<"status">): Promise<StatusAnswer> {
    const address = statusAddress(args);
    return {
      sessions: [],
      ...(address === undefined ? {} : { branch: await this.#store.status(address) }),
      ...(args.branches
        ? { branches: await this.#store.branches(args.db), condition: await this.#store.condition() }
        : {}),
      ...(args.ro_cache ? { ro_cache_bytes: this.#store.roCacheBytes() } : {}),
      store: this.#location,
      sqlite_version: sqliteVersion(),
      pid: Deno.pid,
    };
  }
}

export function noDaemon(): TaskdError {
  return new TaskdError("daemon_unreachable", "No daemon serves this store", { hint: "Start it with: taskd serve" });
}
