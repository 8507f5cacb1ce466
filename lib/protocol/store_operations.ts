/**
 * What each operation is on a store at rest: the one translation from a request's fields to the store's methods. The
 * daemon adds locks and live sessions around it; without a daemon it is all there is.
 */

import { TaskdError } from "../errors.ts";
import { plural } from "../text/plural.ts";
import { type Address, DEFAULT_BRANCH, formatAddress, parseAddress } from "../store/names.ts";
import type { LongOptions, UndoResult, VerifyResult } from "../store/results.ts";
import { DEFAULT_GC_GRACE_MS } from "../store/gc.ts";
import { DEFAULT_LEVELS_TEXT, parseLevels } from "../store/retention.ts";
import type { Store } from "../store/store.ts";
import type { MergeBranchesOptions, MergeBranchesResult } from "../capture/merge.ts";
import type { CallableOp, OpAnswer, OpArgs, VerifyAnswer } from "./messages.ts";

/** What is done to a store beside its own methods: these open a session while they work, unless they are given one. */
export interface MergeMethods {
  merge(from: Address, onto: Address, options?: MergeBranchesOptions): Promise<MergeBranchesResult>;
  revert(onto: Address, merge: string | undefined, options?: MergeBranchesOptions): Promise<MergeBranchesResult>;
}
type Methods = Omit<Store, "context" | "path" | "close" | typeof Symbol.dispose> & MergeMethods;
/** A method of a store that depends on no open session. */
export type StoreMethod = keyof Methods;
export type StoreArgs<M extends StoreMethod> = Parameters<Methods[M]>;
export type StoreAnswer<M extends StoreMethod> = Awaited<ReturnType<Methods[M]>>;
/** Runs a method of a store, wherever the store is open. */
export type RunStoreMethod = <M extends StoreMethod>(method: M, args: StoreArgs<M>) => Promise<StoreAnswer<M>>;

/** Runs a method of a store that is open in this process. */
export async function runStoreMethod(store: Store, method: StoreMethod, args: unknown[]): Promise<unknown> {
  if (method !== "merge" && method !== "revert") {
    return await (store[method] as (...args: unknown[]) => Promise<unknown>).apply(store, args);
  }
  const { mergeBranches, revertMerge } = await import("../capture/merge.ts");
  const work = method === "merge" ? mergeBranches : revertMerge;
  return await (work as (store: Store, ...args: unknown[]) => Promise<unknown>)(store, ...args);
}

/** Operations that a store can do without a session and without the process that answers. */
export type StoreOp = Exclude<CallableOp, "open" | "flush" | "close" | "status" | "shutdown">;

export type StoreOperations = {
  readonly [O in StoreOp]: (args: OpArgs<O>, long?: LongOptions) => Promise<OpAnswer<O>>;
};

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
    rollback: ({ db, branch, to, reopen, ...options }, long) =>
      run("rollback", [addressOf({ db, branch, checkpoint: to }), { ...options, ...followed(reopen), ...long }]),
    promote: ({ db, branch, onto, reopen, ...options }, long) =>
      run("promote", [addressOf({ db, branch }), { db, branch: onto }, { ...options, ...followed(reopen), ...long }]),
    undo: (args, long) => undo(run, args, long),
    merge: ({ db, branch, checkpoint, into, ...options }, long) =>
      run("merge", [addressOf({ db, branch, checkpoint }), { db, branch: into }, { ...options, ...long }]),
    revert: ({ db, branch, merge, ...options }, long) =>
      run("revert", [addressOf({ db, branch }), merge, { ...options, ...long }]),
    merges: async (args) => ({ merges: await run("merges", [addressOf(args)]) }),
    log: ({ db, branch, ...options }) => run("log", [addressOf({ db, branch }), options]),
    reset: async ({ db, branch, reopen, ...options }, long) => {
      const address = addressOf({ db, branch });
      const parent = await run("parent", [address]);
      const reset = await run("promote", [parent, address, { ...options, ...followed(reopen), ...long }]);
      return { ...reset, parent: parent.branch };
    },
    undoable: async (args) => ({ entries: await run("undoable", [addressOf(args)]) }),
    compact: (args, long) => run("compact", [addressOf(args), { ...long }]),
    destroy: ({ db, branch, ...options }) => run("destroy", [{ db, branch }, options]),
    touch: ({ db, branch, ...options }) => run("touch", [addressOf({ db, branch }), options]),
    protect: ({ on, ...args }) => run("protect", [addressOf(args), on]),
    export: ({ path, force = false, wait_ms = 0, ...args }, long) =>
      run("export", [addressOf(args), path, { force, wait_ms, ...long }]),
    diff: ({ a, b, ...options }, long) => run("diff", [parseAddress(a), parseAddress(b), { ...options, ...long }]),
    "diff-rows": ({ a, b, table, ...options }, long) =>
      run("diffRows", [parseAddress(a), parseAddress(b), table, { ...options, ...long }]),
    verify: async ({ fast = false, ...args }, long) =>
      verified(await run("verify", [addressOf(args), { fast, ...long }])),
    "verify-all": async ({ fast = false }, long) => {
      const { ok, branches, ...found } = await run("verifyAll", [{ fast, ...long }]);
      return { ...found, intact: ok, branches: branches.map(verified) };
    },
    repair: ({ db, branch, ...options }, long) =>
      run("repair", [{ ...options, ...(db === undefined ? {} : { branch: addressOf({ db, branch }) }), ...long }]),
    lease: (args) => run("lease", [addressOf(args)]),
    gc: ({ grace_ms = DEFAULT_GC_GRACE_MS, keep = DEFAULT_LEVELS_TEXT, ...options }, { signal } = {}) =>
      run("collectGarbage", [
        { grace_ms, keep: parseLevels(keep), ...options, ...(signal === undefined ? {} : { signal }) },
      ]),
  };
}

/**
 * Takes back the last operation on a branch: a merge, too, where nothing that `undo` can take back is newer.
 *
 * @throws {TaskdError} `conflict` when `expected` names something that came before the merge, and when that is not taken
 * back, because rows that it brought were changed since.
 */
async function undo(
  run: RunStoreMethod,
  { db, branch, reopen, ...options }: OpArgs<"undo">,
  long?: LongOptions,
): Promise<UndoResult> {
  const address = addressOf({ db, branch });
  const name = formatAddress(address);
  const [last] = await run("undoable", [address]);
  if (last?.merge === undefined) return await run("undo", [address, { ...options, ...followed(reopen), ...long }]);
  const { expected, wait_ms } = options;
  if (expected !== undefined) {
    throw new TaskdError("conflict", `Cannot undo what ${db}@${expected} keeps: merge ${last.merge} is newer`, {
      hint: `taskd undo ${name} --list shows what can be taken back`,
    });
  }
  const wait = wait_ms === undefined ? {} : { wait_ms };
  const { txid, conflicts_total } = await run("revert", [address, last.merge, { ...wait, ...long }]);
  if (conflicts_total > 0) {
    const what = `${plural(conflicts_total, "conflict")} with what was changed since`;
    throw new TaskdError("conflict", `Cannot undo merge ${last.merge} of ${name}: ${what}`, {
      hint: `taskd revert ${name} ${last.merge} shows them, and takes decisions`,
    });
  }
  const { storage: mode } = await run("status", [address, { look: false, history: false }]);
  return { ...address, txid, mode, checkout_refreshed: true, undone: "merge", undone_at: last.at };
}

/** In an answer `ok` means that the request succeeded. */
function verified({ ok, ...found }: VerifyResult): VerifyAnswer {
  return { ...found, intact: ok };
}

/** Who wants the session back wants the new content in it: a file that cannot be replaced is a refusal. */
function followed(reopen: boolean | undefined): { refuse_in_use?: boolean } {
  return reopen ? { refuse_in_use: true } : {};
}

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
