/**
 * What each operation does in the daemon: locks and live sessions, around the operation on the store.
 *
 * Operations that change a branch's ref or checkout hold its lock. Those that read a branch flush its live session
 * first, so that everything committed is included. Those that would change the branch under a live session are refused.
 */

import { hasCode, TaskdError } from "../lib/errors.ts";
import { placeInside } from "../lib/real_path.ts";
import type { RepointAnswer, RepointArgs, SessionInfo } from "../lib/protocol/messages.ts";
import { addressOf, statusAddress, type StoreOperations, storeOperations } from "../lib/protocol/store_operations.ts";
import { type Address, parseAddress } from "../lib/store/names.ts";
import type { BranchInfo, RepointResult } from "../lib/store/results.ts";
import type { Handlers } from "./dispatch.ts";
import type { OutsidePaths, StoreEngine } from "./store_engine.ts";
import type { KeyedMutex } from "./keyed_mutex.ts";
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
  /** Begins a shutdown; does not wait for it. */
  onShutdown: () => void;
}

/** The files that a new database is read from: SQLite opens them together. */
const SOURCE_SUFFIXES = ["", "-wal", "-shm", "-journal"];

/** The files an export writes or removes: its own, the one it is built in, and what SQLite may have left beside it. */
const EXPORT_SUFFIXES = ["", ".partial", "-wal", "-shm", "-journal"];

type SessionOp = "open" | "flush" | "close" | "shutdown";
type ListOp = "status" | "branches" | "databases" | "lease";
type ReadOp = "export" | "diff" | "verify" | "checkout-at";
type RepointOp = "rollback" | "promote";
type ChangeOp = Exclude<keyof Handlers, SessionOp | ListOp | ReadOp | RepointOp>;

export function createHandlers(context: HandlerContext): Handlers {
  const branches = new GuardedBranches(context);
  return {
    ...sessionHandlers(context, branches),
    ...listHandlers(context, branches),
    ...readHandlers(context, branches),
    ...changeHandlers(context, branches),
    ...repointHandlers(context, branches),
  };
}

/** Branches under their locks, with their live sessions in mind. */
class GuardedBranches {
  readonly #engine: StoreEngine;
  readonly #sessions: Sessions;
  readonly #locks: KeyedMutex;

  constructor({ engine, sessions, locks }: HandlerContext) {
    this.#engine = engine;
    this.#sessions = sessions;
    this.#locks = locks;
  }

  locked<T>(addresses: Address[], work: () => Promise<T>): Promise<T> {
    return this.#locks.run(addresses.map(keyOf), work);
  }

  /** Does `work` on a branch under its lock, unless it has a session. */
  lockedIdle<T>(address: Address, attempted: string, work: () => Promise<T>): Promise<T> {
    return this.locked([address], () => {
      this.#sessions.refuseLive(address, attempted);
      return work();
    });
  }

  /** Flushes the branch's live session, if there is one: what is read of the branch then includes every commit. */
  async flushLive(address: Address): Promise<void> {
    await this.#sessions.live(address)?.flushPending();
  }

  /** Flushes the live sessions of those addresses that name a branch, each under its lock. */
  async flushHeads(...addresses: Address[]): Promise<void> {
    const heads = addresses.filter(({ checkpoint }) => checkpoint === undefined);
    await Promise.all(heads.map((address) => this.locked([address], () => this.flushLive(address))));
  }

  /** The status of a branch without a session, read under its lock: another worker may be about to open its checkout. */
  idleStatus(address: Address) {
    return this.locked([address], () => this.#engine.store("status", [address]));
  }

  /** Changes what a branch points to: not under a live session, unless that may be closed meanwhile. */
  async repoint(
    target: Address,
    args: RepointArgs,
    attempted: string,
    work: () => Promise<RepointResult>,
  ): Promise<RepointAnswer> {
    if (args.reopen === true && this.#sessions.has(target)) {
      return await this.#sessions.closedFor(target, attempted, work);
    }
    this.#sessions.refuseLive(target, attempted);
    return await work();
  }
}

function sessionHandlers(
  { sessions, onShutdown }: HandlerContext,
  branches: GuardedBranches,
): Pick<Handlers, SessionOp> {
  return {
    open: (args) => {
      const address = addressOf(args);
      // Refused at once, not after the wait for the open that is under way.
      sessions.refuseLive(address, "open");
      return branches.locked([address], () => sessions.open(address));
    },
    flush: (args) => {
      const address = addressOf(args);
      return branches.locked([address], () => sessions.require(address).flush());
    },
    close: (args) => {
      const address = addressOf(args);
      return branches.locked([address], () => sessions.close(address));
    },
    shutdown: () => {
      onShutdown();
      return Promise.resolve({ sessions: sessions.size });
    },
  };
}

function listHandlers(context: HandlerContext, branches: GuardedBranches): Pick<Handlers, ListOp> {
  const { engine, sessions } = context;
  const store = storeOf(engine);

  const listed = async (info: BranchInfo): Promise<BranchInfo | undefined> => {
    const session = await sessions.info(info);
    if (session !== undefined) return merged(info, session);
    if (info.checkout === undefined || info.state !== "idle") return info;
    try {
      const { storage: _storage, lineage: _lineage, depth: _depth, chain_bytes: _chain, own_bytes: _own, ...now } =
        await branches.idleStatus({ db: info.db, branch: info.branch });
      return now;
    } catch (error) {
      // It was destroyed since it was listed.
      if (hasCode(error, "not_found")) return undefined;
      throw error;
    }
  };

  return {
    status: async (args) => {
      const { db, branch } = args;
      const asked = statusAddress(args);
      const isAsked = (address: Address) =>
        (db === undefined || address.db === db) && (branch === undefined || address.branch === branch);
      const common = { store: context.location, sqlite_version: engine.sqlite_version, pid: context.pid };
      const infos = await sessions.infos(isAsked);
      if (asked === undefined) return { sessions: infos, ...common };
      // With a session, also one that is being opened, the checkout is that session's alone.
      const status = sessions.has(asked)
        ? await engine.store("status", [asked, { look: false }])
        : await branches.idleStatus(asked);
      return { sessions: infos, branch: { ...status, ...merged(status, infos[0]) }, ...common };
    },
    branches: async ({ db }) => {
      const infos = await engine.store("branches", [db, { look: false }]);
      const listing = await Promise.all(infos.map(listed));
      return { branches: listing.filter((info) => info !== undefined) };
    },
    databases: store.databases,
    lease: store.lease,
  };
}

function readHandlers({ engine, workspace }: HandlerContext, branches: GuardedBranches): Pick<Handlers, ReadOp> {
  const store = storeOf(engine);
  return {
    export: async (args) => {
      refuseInside(workspace, args.path);
      await branches.flushHeads(addressOf(args));
      const write = EXPORT_SUFFIXES.map((suffix) => args.path + suffix);
      return await storeOf(engine, { write }).export(args);
    },
    diff: async (args) => {
      await branches.flushHeads(parseAddress(args.a), parseAddress(args.b));
      return await store.diff(args);
    },
    verify: async (args) => {
      await branches.flushHeads(addressOf(args));
      return await store.verify(args);
    },
    "checkout-at": store["checkout-at"],
  };
}

function changeHandlers(
  { engine, sessions, gc_grace_ms }: HandlerContext,
  branches: GuardedBranches,
): Pick<Handlers, ChangeOp> {
  const store = storeOf(engine);
  return {
    create: (args) => {
      const { from } = args;
      const read = SOURCE_SUFFIXES.map((suffix) => from + suffix);
      const { create } = from === undefined ? store : storeOf(engine, { read, write: [from] });
      return branches.locked([addressOf(args)], () => create(args));
    },
    checkpoint: (args) => {
      const address = addressOf(args);
      return branches.locked([address], async () => {
        const session = sessions.live(address);
        if (session === undefined) return await store.checkpoint(args);
        return await session.checkpoint(args.name, args.note === undefined ? {} : { note: args.note });
      });
    },
    checkout: (args) => {
      const address = addressOf(args);
      return branches.locked([address], async () => {
        if (args.force === true) sessions.refuseLive(address, "check out anew");
        const session = sessions.live(address);
        if (session === undefined) return await store.checkout(args);
        const { durable_txid } = await session.status();
        const { checkout } = session.opened;
        return { ...address, path: checkout, txid: durable_txid, read_only: false, source: "kept" as const };
      });
    },
    fork: (args) => {
      const source = addressOf(args);
      return branches.locked([source, { db: source.db, branch: args.new_branch }], async () => {
        if (args.at === undefined) await branches.flushLive(source);
        return await store.fork(args);
      });
    },
    compact: (args) => branches.lockedIdle(addressOf(args), "compact", () => store.compact(args)),
    destroy: (args) => branches.lockedIdle(addressOf(args), "destroy", () => store.destroy(args)),
    touch: (args) => branches.locked([addressOf(args)], () => store.touch(args)),
    protect: (args) => branches.locked([addressOf(args)], () => store.protect(args)),
    gc: (args) => store.gc({ grace_ms: gc_grace_ms, ...args }),
  };
}

function repointHandlers({ engine }: HandlerContext, branches: GuardedBranches): Pick<Handlers, RepointOp> {
  const store = storeOf(engine);
  return {
    rollback: (args) => {
      const address = addressOf(args);
      const rollback = () => store.rollback(args);
      return branches.locked([address], () => branches.repoint(address, args, "roll back", rollback));
    },
    promote: (args) => {
      const from = addressOf(args);
      const onto = { db: from.db, branch: args.onto };
      if (onto.branch === from.branch) {
        throw new TaskdError("invalid_request", 'Cannot run promote: field "onto" is the branch itself');
      }
      const promote = () => store.promote(args);
      return branches.locked([from, onto], async () => {
        await branches.flushLive(from);
        return await branches.repoint(onto, args, "promote onto", promote);
      });
    },
  };
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
