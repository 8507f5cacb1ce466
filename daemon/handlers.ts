/**
 * What each operation does in the daemon: locks and live sessions, around the operation on the store.
 *
 * Operations that change a branch's ref or checkout hold its lock. Those that read a branch flush its live session
 * first, so that everything committed is included. Those that would change the branch under a live session are refused.
 */

import { hasCode, TaskdError } from "../lib/errors.ts";
import { placeInside } from "../lib/real_path.ts";
import type { RepointAnswer, RepointArgs, SessionInfo } from "../lib/protocol/messages.ts";
import { addressOf, type RunStoreMethod, statusAddress, type StoreArgs } from "../lib/protocol/store_operations.ts";
import { type StoreOperations, storeOperations } from "../lib/protocol/store_operations.ts";
import { type Address, parseAddress } from "../lib/store/names.ts";
import type { InspectOptions } from "../lib/store/ops/inspect.ts";
import type { BranchInfo, RepointResult } from "../lib/store/results.ts";
import { formatLevels, type KeepLevel } from "../lib/store/retention.ts";
import { isS3Location, parseS3Location } from "../lib/store/s3_location.ts";
import type { Handlers } from "./dispatch.ts";
import type { OutsidePaths, StoreEngine } from "./store_engine.ts";
import type { KeyedMutex } from "../lib/keyed_mutex.ts";
import { keyOf, type Sessions } from "./sessions.ts";

export interface HandlerContext {
  engine: StoreEngine;
  sessions: Sessions;
  locks: KeyedMutex;
  /** Where the store is, for people. */
  location: string;
  /** Directory of its files on this host. */
  workspace: string;
  pid: number;
  /** Milliseconds that a collection on demand keeps unreachable objects, unless it names its own. */
  gc_grace_ms: number;
  /** How long it keeps the points of branches that do not say so themselves. */
  keep: readonly KeepLevel[];
  /** Begins a shutdown; does not wait for it. */
  onShutdown: () => void;
}

/** The files that a new database is read from: SQLite opens them together. */
const SOURCE_SUFFIXES = ["", "-wal", "-shm", "-journal"];

/** The files an export writes or removes: its own, the one it is built in, and what SQLite may have left beside it. */
const EXPORT_SUFFIXES = ["", ".partial", "-wal", "-shm", "-journal"];

export function createHandlers(context: HandlerContext): Handlers {
  const branches = new GuardedBranches(context);
  return {
    ...sessionHandlers(context, branches),
    ...listHandlers(context, branches),
    ...readHandlers(context, branches),
    ...changeHandlers(context, branches),
    ...repointHandlers(context, branches),
    ...mergeHandlers(branches),
  };
}

/** Branches under their locks, with their live sessions in mind. */
class GuardedBranches {
  readonly #context: Pick<HandlerContext, "engine" | "sessions" | "locks">;

  constructor(context: HandlerContext) {
    this.#context = context;
  }

  locked<T>(addresses: Address[], work: () => Promise<T>): Promise<T> {
    return this.#context.locks.run(addresses.map(keyOf), work);
  }

  /** Does `work` on the branch that `args` name, under its lock. */
  on<T>(args: Parameters<typeof addressOf>[0], work: (address: Address) => Promise<T>): Promise<T> {
    const address = addressOf(args);
    return this.locked([address], () => work(address));
  }

  /** Does `work` on a branch under its lock, unless it has a session. */
  onIdle<T>(args: Parameters<typeof addressOf>[0], attempted: string, work: () => Promise<T>): Promise<T> {
    return this.on(args, (address) => {
      this.#context.sessions.refuseLive(address, attempted);
      return work();
    });
  }

  /** Merges into a branch; one with a live session is changed by a transaction on that session's checkout, which stores it. */
  mergesInto(address: Address): RunStoreMethod {
    const { engine, sessions } = this.#context;
    const session = sessions.live(address);
    if (session !== undefined) {
      // Of the store's methods only those that such a session has.
      return (method, args) =>
        (session[method as "merge" | "revert"] as (...args: unknown[]) => Promise<never>)(...args);
    }
    sessions.refuseLive(address, "merge into");
    return (method, args) => engine.store(method, args);
  }

  /** Flushes the branch's live session, if there is one: what is read of the branch then includes every commit. */
  async flushLive(address: Address): Promise<void> {
    await this.#context.sessions.live(address)?.flushPending();
  }

  /** Flushes the live sessions of those addresses that name a branch, each under its lock. */
  async flushHeads(...addresses: Address[]): Promise<void> {
    const heads = addresses.filter(({ checkpoint }) => checkpoint === undefined);
    await Promise.all(heads.map((address) => this.locked([address], () => this.flushLive(address))));
  }

  /** The status of a branch without a session, read under its lock: another worker may be about to open its checkout. */
  idleStatus(address: Address, options: InspectOptions = {}) {
    return this.locked([address], () => this.#context.engine.store("status", [address, options]));
  }

  /** Changes what a branch points to: not under a live session, unless that may be closed meanwhile. */
  async repoint<R extends RepointResult>(
    target: Address,
    args: RepointArgs,
    attempted: string,
    work: () => Promise<R>,
  ): Promise<R & Pick<RepointAnswer, "session">> {
    const { sessions } = this.#context;
    if (args.reopen === true && sessions.has(target)) return await sessions.closedFor(target, attempted, work);
    sessions.refuseLive(target, attempted);
    return await work();
  }
}

function sessionHandlers({ engine, sessions, onShutdown }: HandlerContext, branches: GuardedBranches) {
  return {
    open: (args) => {
      // Refused at once, not after the wait for the open that is under way.
      sessions.refuseLive(addressOf(args), "open");
      return branches.on(args, (address) => sessions.open(address));
    },
    flush: (args) => branches.on(args, (address) => sessions.require(address).flush()),
    close: (args) =>
      branches.on(args, async (address) => {
        const closed = await sessions.close(address);
        // For a warning alone: the session is closed, whatever becomes of the list.
        const open_in = await engine.store("openIn", [address]).catch(() => []);
        return open_in.length === 0 ? closed : { ...closed, open_in };
      }),
    shutdown: () => {
      onShutdown();
      return Promise.resolve({ sessions: sessions.size });
    },
  } satisfies Partial<Handlers>;
}

function listHandlers(context: HandlerContext, branches: GuardedBranches) {
  const { engine, sessions } = context;
  const store = storeOf(engine);

  const listed = async (info: BranchInfo): Promise<BranchInfo | undefined> => {
    const session = await sessions.info(info);
    if (session !== undefined) return merged(info, session);
    if (info.checkout === undefined || info.state !== "idle") return info;
    try {
      const status = await branches.idleStatus({ db: info.db, branch: info.branch }, { history: false });
      const { storage: _storage, lineage: _lineage, depth: _depth, keep: _keep, ...bytes } = status;
      const { chain_bytes: _chain, own_bytes: _own, ...now } = bytes;
      return now;
    } catch (error) {
      // It was destroyed since it was listed.
      if (hasCode(error, "not_found")) return undefined;
      throw error;
    }
  };

  const listing = async (db: string | undefined): Promise<BranchInfo[]> => {
    const infos = await Promise.all((await engine.store("branches", [db, { look: false }])).map(listed));
    return infos.filter((info) => info !== undefined);
  };

  return {
    status: async (args) => {
      const { db, branch } = args;
      const asked = statusAddress(args);
      const isAsked = (address: Address) =>
        (db === undefined || address.db === db) && (branch === undefined || address.branch === branch);
      const common = {
        ...(args.branches ? { branches: await listing(db), condition: await engine.store("condition", []) } : {}),
        ...(args.ro_cache ? { ro_cache_bytes: await engine.store("roCacheBytes", []) } : {}),
        store: context.location,
        sqlite_version: engine.sqlite_version,
        pid: context.pid,
      };
      const infos = await sessions.infos(isAsked);
      if (asked === undefined) return { sessions: infos, ...common };
      // With a session, also one that is being opened, the checkout is that session's alone.
      const status = sessions.has(asked)
        ? await engine.store("status", [asked, { look: false }])
        : await branches.idleStatus(asked);
      return { sessions: infos, branch: { ...status, ...merged(status, infos[0]) }, ...common };
    },
    branches: async ({ db }) => ({ branches: await listing(db) }),
    databases: store.databases,
    lease: store.lease,
    undoable: store.undoable,
    merges: store.merges,
    log: store.log,
  } satisfies Partial<Handlers>;
}

function readHandlers({ engine, workspace }: HandlerContext, branches: GuardedBranches) {
  const store = storeOf(engine);
  return {
    export: async (args, long) => {
      refuseInside(workspace, args.path);
      await branches.flushHeads(addressOf(args));
      const write = EXPORT_SUFFIXES.map((suffix) => args.path + suffix);
      return await storeOf(engine, { write }).export(args, long);
    },
    diff: async (args, long) => {
      await branches.flushHeads(parseAddress(args.a), parseAddress(args.b));
      return await store.diff(args, long);
    },
    "diff-rows": async (args, long) => {
      await branches.flushHeads(parseAddress(args.a), parseAddress(args.b));
      return await store["diff-rows"](args, long);
    },
    verify: async (args, long) => {
      await branches.flushHeads(addressOf(args));
      return await store.verify(args, long);
    },
    "verify-all": store["verify-all"],
    "checkout-at": store["checkout-at"],
  } satisfies Partial<Handlers>;
}

function changeHandlers({ engine, sessions, gc_grace_ms, keep, location }: HandlerContext, branches: GuardedBranches) {
  const store = storeOf(engine);
  return {
    create: (args, long) => {
      const { from } = args;
      const read = SOURCE_SUFFIXES.map((suffix) => from + suffix);
      const { create } = from === undefined ? store : storeOf(engine, { read, write: [from] });
      return branches.on(args, () => create(args, long));
    },
    checkpoint: (args, long) =>
      branches.on(args, async (address) => {
        const session = sessions.live(address);
        if (session === undefined) return await store.checkpoint(args, long);
        return await session.checkpoint(args.name, args.note === undefined ? {} : { note: args.note });
      }),
    checkout: (args, long) =>
      branches.on(args, async (address) => {
        if (args.force === true) sessions.refuseLive(address, "check out anew");
        const session = sessions.live(address);
        if (session === undefined) return await store.checkout(args, long);
        const { durable_txid } = await session.status();
        const { checkout } = session.opened;
        return { ...address, path: checkout, txid: durable_txid, read_only: false, source: "kept" as const };
      }),
    fork: (args, long) => {
      const source = addressOf(args);
      return branches.locked([source, { db: source.db, branch: args.new_branch }], async () => {
        if (args.at === undefined) await branches.flushLive(source);
        return await store.fork(args, long);
      });
    },
    compact: (args, long) => branches.onIdle(args, "compact", () => store.compact(args, long)),
    destroy: (args) =>
      branches.onIdle(args, "destroy", async () => {
        const destroyed = await store.destroy(args);
        sessions.forget(addressOf(args));
        return destroyed;
      }),
    repair: (args, long) => {
      const { db, branch, from } = args;
      // Workers reach no other.
      if (from !== undefined && isS3Location(from) && bucketOf(from) !== bucketOf(location)) {
        const message = "Cannot run repair: the daemon reaches no bucket but its own store's";
        throw new TaskdError("invalid_request", message, { hint: "Run in a terminal: taskd repair --from" });
      }
      const { repair } = from?.startsWith("/") ? storeOf(engine, { read: [from] }) : store;
      // Of all branches, those with a session are left out: it holds their leases.
      if (db === undefined) return repair(args, long);
      return branches.onIdle({ db, branch }, "repair", () => repair(args, long));
    },
    touch: (args) => branches.on(args, () => store.touch(args)),
    protect: (args) => branches.on(args, () => store.protect(args)),
    gc: (args, long) => store.gc({ grace_ms: gc_grace_ms, keep: formatLevels(keep), ...args }, long),
  } satisfies Partial<Handlers>;
}

function repointHandlers({ engine }: HandlerContext, branches: GuardedBranches) {
  const store = storeOf(engine);
  return {
    rollback: (args, long) => {
      const rollback = () => store.rollback(args, long);
      return branches.on(args, (address) => branches.repoint(address, args, "roll back", rollback));
    },
    undo: (args, long) =>
      branches.on(args, (address) => {
        const run: RunStoreMethod = (method, given) => {
          if (method === "revert") return branches.mergesInto(address)(method, given);
          if (method !== "undo") return engine.store(method, given);
          const undo = () => engine.store("undo", given as StoreArgs<"undo">);
          return branches.repoint(address, args, "undo an operation on", undo) as Promise<never>;
        };
        return storeOperations(run).undo(args, long);
      }),
    reset: async (args, long) => {
      const address = addressOf(args);
      const parent = await engine.store("parent", [address]);
      const reset = () => store.reset(args, long);
      return await branches.locked([parent, address], async () => {
        await branches.flushLive(parent);
        return await branches.repoint(address, args, "reset", reset);
      });
    },
    promote: (args, long) => {
      const from = addressOf(args);
      const onto = { db: from.db, branch: args.onto };
      if (onto.branch === from.branch) {
        throw new TaskdError("invalid_request", 'Cannot run promote: field "onto" is the branch itself');
      }
      const promote = () => store.promote(args, long);
      return branches.locked([from, onto], async () => {
        await branches.flushLive(from);
        return await branches.repoint(onto, args, "promote onto", promote);
      });
    },
  } satisfies Partial<Handlers>;
}

function mergeHandlers(branches: GuardedBranches) {
  return {
    merge: (args, long) => {
      const from = addressOf(args);
      const onto = { db: from.db, branch: args.into };
      return branches.locked([from, onto], async () => {
        if (from.checkpoint === undefined && from.branch !== onto.branch) await branches.flushLive(from);
        return await storeOperations(branches.mergesInto(onto)).merge(args, long);
      });
    },
    revert: (args, long) =>
      branches.on(args, (address) => storeOperations(branches.mergesInto(address)).revert(args, long)),
  } satisfies Partial<Handlers>;
}

function bucketOf(location: string): string | undefined {
  return isS3Location(location) ? parseS3Location(location).bucket : undefined;
}

/** The operations on the store, done by the engine, with the files outside the store that `outside` names. */
function storeOf(engine: StoreEngine, outside?: OutsidePaths): StoreOperations {
  return storeOperations((method, args) => engine.store(method, args, outside));
}

/** With `force` an export replaces files, and those of the store may be open in a session. */
function refuseInside(store: string, path: string): void {
  if (placeInside(store, path) === undefined) return;
  throw new TaskdError("denied", `Cannot export to ${path}: it is inside the store`, {
    hint: "Name a file outside the store's directory",
  });
}

/** A branch's state with its session's: error, pending and active take precedence over the state at rest. */
function merged<B extends BranchInfo>(info: B, session: SessionInfo | undefined): B {
  if (session === undefined) return info;
  const error = session.error === undefined ? {} : { error: session.error.message };
  return { ...info, state: session.state, ...error };
}
