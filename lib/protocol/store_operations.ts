/**
 * What each operation is on a store at rest: the one translation from a request's fields to the store's methods. The
 * daemon adds locks and live sessions around it; without a daemon it is all there is.
 */

import { TaskdError } from "../errors.ts";
import { type Address, DEFAULT_BRANCH, parseAddress } from "../store/names.ts";
import type { LongOptions } from "../store/results.ts";
import { DEFAULT_GC_GRACE_MS } from "../store/gc.ts";
import type { Store } from "../store/store.ts";
import type { CallableOp, OpAnswer, OpArgs } from "./messages.ts";

/** A method of a store that answers with a promise and depends on no session. */
export type StoreMethod = Exclude<
  keyof Store,
  "context" | "path" | "roCacheBytes" | "close" | typeof Symbol.dispose
>;
export type StoreArgs<M extends StoreMethod> = Parameters<Store[M]>;
export type StoreAnswer<M extends StoreMethod> = Awaited<ReturnType<Store[M]>>;
/** Runs a method of a store, wherever the store is open. */
export type RunStoreMethod = <M extends StoreMethod>(method: M, args: StoreArgs<M>) => Promise<StoreAnswer<M>>;

/** Operations that a store can do without a session and without the process that answers. */
export type StoreOp = Exclude<CallableOp, "open" | "flush" | "close" | "status" | "shutdown">;

export type StoreOperations = {
  readonly [O in StoreOp]: (args: OpArgs<O>, long?: LongOptions) => Promise<OpAnswer<O>>;
};

/** Each operation, done by `run`. */
export function storeOperations(run: RunStoreMethod): StoreOperations {
  return {
    create: ({ db, ...options }, long) => run("create", [db, { ...options, ...long }]),
    branches: async ({ db }) => ({ branches: await run("branches", [db]) }),
    databases: async () => ({ databases: await run("databases", []) }),
    checkpoint: ({ db, branch, name, ...options }, long) =>
      run("checkpoint", [addressOf({ db, branch }), name, { ...options, ...long }]),
    checkout: ({ db, branch, ...options }, long) =>
      run("checkout", [addressOf({ db, branch }), { ...options, ...long }]),
    "checkout-at": (args, long) => run("checkout", [addressOf(args), { ...long }]),
    fork: ({ db, branch, at, new_branch, ...options }, long) =>
      run("fork", [addressOf({ db, branch, checkpoint: at }), new_branch, { ...options, ...long }]),
    rollback: ({ db, branch, to, reopen: _, ...options }, long) =>
      run("rollback", [addressOf({ db, branch, checkpoint: to }), { ...options, ...long }]),
    promote: ({ db, branch, onto, reopen: _, ...options }, long) =>
      run("promote", [addressOf({ db, branch }), { db, branch: onto }, { ...options, ...long }]),
    compact: (args, long) => run("compact", [addressOf(args), { ...long }]),
    destroy: ({ db, branch, ...options }) => run("destroy", [{ db, branch }, options]),
    touch: ({ db, branch, ...options }) => run("touch", [addressOf({ db, branch }), options]),
    protect: ({ on, ...args }) => run("protect", [addressOf(args), on]),
    export: ({ path, force = false, ...args }, long) => run("export", [addressOf(args), path, { force, ...long }]),
    diff: ({ a, b, ...options }, long) => run("diff", [parseAddress(a), parseAddress(b), { ...options, ...long }]),
    verify: async (args, long) => {
      const { ok, ...found } = await run("verify", [addressOf(args), { ...long }]);
      return { ...found, intact: ok };
    },
    lease: (args) => run("lease", [addressOf(args)]),
    gc: ({ grace_ms = DEFAULT_GC_GRACE_MS, ...options }, { signal } = {}) =>
      run("collectGarbage", [{ grace_ms, ...options, ...(signal === undefined ? {} : { signal }) }]),
  };
}

/** The branch or checkpoint that a request's fields name. */
export function addressOf(
  { db, branch = DEFAULT_BRANCH, checkpoint }: {
    db: string;
    branch?: string | undefined;
    checkpoint?: string | undefined;
  },
): Address {
  return checkpoint === undefined ? { db, branch } : { db, branch, checkpoint };
}

/**
 * The branch that `status` is asked to describe; undefined when it is none.
 *
 * @throws {TaskdError} `invalid_request` for a branch of no database.
 */
export function statusAddress({ db, branch }: OpArgs<"status">): Address | undefined {
  if (branch === undefined) return undefined;
  if (db !== undefined) return { db, branch };
  throw new TaskdError("invalid_request", 'Cannot run status: field "branch" needs field "db"');
}
