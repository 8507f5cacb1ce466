/**
 * What each operation does: locks, live sessions, and then the engine.
 *
 * Operations that change a branch's ref or checkout hold its lock. Those that read a
 * branch flush its live session first, so that everything committed is included;
 * those that would pull the ground from under a live session are refused.
 *
 * @module
 */

import { resolve } from "@std/path/resolve";
import { hasCode, TaskdError } from "../lib/errors.ts";
import type { BranchArgs, RepointAnswer, RepointArgs, SessionInfo } from "../lib/protocol/messages.ts";
import { type Address, DEFAULT_BRANCH, parseAddress } from "../lib/store/names.ts";
import type { BranchInfo, RepointResult } from "../lib/store/results.ts";
import type { Handlers } from "./dispatch.ts";
import type { Engine } from "./engine.ts";
import type { KeyedMutex } from "./locks.ts";
import { keyOf, type Sessions } from "./sessions.ts";

/** What the handlers work with. */
export interface HandlerContext {
  engine: Engine;
  sessions: Sessions;
  locks: KeyedMutex;
  /** Where the store is, for people. */
  location: string;
  /** Directory of its files on this host. */
  workspace: string;
  pid: number;
  /** Milliseconds that a collection on demand keeps unreachable objects, unless it says otherwise. */
  gc_grace_ms: number;
  /** Begins a shutdown; does not wait for it. */
  onShutdown: () => void;
}

/** The files that a new database is read from: SQLite opens them together. */
const SOURCE_SUFFIXES = ["", "-wal", "-shm", "-journal"];

/** The files an export writes or removes: its own, the one it is built in, and what SQLite may have left beside it. */
const EXPORT_SUFFIXES = ["", ".partial", "-wal", "-shm", "-journal"];

/** The handlers of every operation. */
export function createHandlers(context: HandlerContext): Handlers {
  const { engine, sessions, locks } = context;
  const locked = <T>(addresses: Address[], work: () => Promise<T>) => locks.run(addresses.map(keyOf), work);

  /** Flushes the live session of a branch, if there is one: what is read of the branch then includes every commit. */
  const flushLive = async (address: Address) => {
    await sessions.live(address)?.flushPending();
  };
  const flushLocked = (addresses: Address[]) =>
    Promise.all(addresses.map((address) => locked([address], () => flushLive(address))));

  /** Changes what a branch points to: not under a live session, unless that may be closed meanwhile. */
  const repoint = async (
    target: Address,
    args: RepointArgs,
    what: string,
    work: () => Promise<RepointResult>,
  ): Promise<RepointAnswer> => {
    if (args.reopen === true && sessions.has(target)) return await sessions.closedFor(target, what, work);
    sessions.refuseLive(target, what);
    return await work();
  };

  /** A branch at rest, looked at under its lock: another worker may be about to open its checkout. */
  const inspect = (address: Address) => locked([address], () => engine.store("status", [address]));

  const listed = async (info: BranchInfo): Promise<BranchInfo | undefined> => {
    const session = await sessions.info(info);
    if (session !== undefined) return merged(info, session);
    if (info.checkout === undefined || info.state !== "idle") return info;
    try {
      const { storage: _storage, lineage: _lineage, depth: _depth, chain_bytes: _chain, own_bytes: _own, ...now } =
        await inspect({ db: info.db, branch: info.branch });
      return now;
    } catch (error) {
      // It was destroyed since it was listed.
      if (hasCode(error, "not_found")) return undefined;
      throw error;
    }
  };

  return {
    create: ({ db, from }) => {
      const address = { db, branch: DEFAULT_BRANCH };
      if (from === undefined) return locked([address], () => engine.store("create", [db, {}]));
      const outside = { read: SOURCE_SUFFIXES.map((suffix) => from + suffix), write: [from] };
      return locked([address], () => engine.store("create", [db, { from }], outside));
    },

    open: (args) => {
      const address = branchOf(args);
      // Told at once, not after the wait for whoever opens it now.
      sessions.refuseLive(address, "open");
      return locked([address], () => sessions.open(address));
    },

    flush: (args) => {
      const address = branchOf(args);
      return locked([address], () => sessions.require(address).flush());
    },

    close: (args) => {
      const address = branchOf(args);
      return locked([address], () => sessions.close(address));
    },

    status: async ({ db, branch }) => {
      if (branch !== undefined && db === undefined) {
        throw new TaskdError("invalid_request", 'Cannot run status: field "branch" needs field "db"');
      }
      const wanted = (address: Address) =>
        (db === undefined || address.db === db) && (branch === undefined || address.branch === branch);
      const common = { store: context.location, sqlite_version: engine.sqlite_version, pid: context.pid };
      const infos = await sessions.infos(wanted);
      if (db === undefined || branch === undefined) return { sessions: infos, ...common };
      const address = { db, branch };
      // With a session, also one that is being opened, the checkout is that session's alone.
      const status = sessions.has(address)
        ? await engine.store("status", [address, { look: false }])
        : await inspect(address);
      return { sessions: infos, branch: { ...status, ...merged(status, infos[0]) }, ...common };
    },

    branches: async ({ db }) => {
      const infos = await engine.store("branches", [db, { look: false }]);
      const branches = await Promise.all(infos.map(listed));
      return { branches: branches.filter((info) => info !== undefined) };
    },

    databases: async () => ({ databases: await engine.store("databases", []) }),

    checkpoint: (args) => {
      const address = branchOf(args);
      const options = args.note === undefined ? {} : { note: args.note };
      return locked([address], async () => {
        const session = sessions.live(address);
        if (session !== undefined) return await session.checkpoint(args.name, options);
        return await engine.store("checkpoint", [address, args.name, options]);
      });
    },

    checkout: (args) => {
      const address = branchOf(args);
      return locked([address], async () => {
        if (args.force === true) sessions.refuseLive(address, "check out anew");
        const session = sessions.live(address);
        if (session === undefined) return await engine.store("checkout", [address, flag("force", args.force)]);
        const { durable_txid } = await session.status();
        const { checkout } = session.opened;
        return { ...address, path: checkout, txid: durable_txid, read_only: false, source: "kept" as const };
      });
    },

    "checkout-at": (args) => engine.store("checkout", [{ ...branchOf(args), checkpoint: args.checkpoint }]),

    fork: (args) => {
      const source = branchOf(args);
      const from = args.at === undefined ? source : { ...source, checkpoint: args.at };
      const ttl = args.ttl_ms === undefined ? {} : { ttl_ms: args.ttl_ms };
      const options = { ...ttl, ...flag("materialize", args.materialize) };
      return locked([source, { db: source.db, branch: args.new_branch }], async () => {
        if (args.at === undefined) await flushLive(source);
        return await engine.store("fork", [from, args.new_branch, options]);
      });
    },

    rollback: (args) => {
      const address = branchOf(args);
      const to = { ...address, checkpoint: args.to };
      return locked(
        [address],
        () => repoint(address, args, "roll back", () => engine.store("rollback", [to, repointOptions(args)])),
      );
    },

    promote: (args) => {
      const from = branchOf(args);
      const onto = { db: from.db, branch: args.onto };
      if (onto.branch === from.branch) {
        throw new TaskdError("invalid_request", 'Cannot run promote: field "onto" is the branch itself');
      }
      return locked([from, onto], async () => {
        await flushLive(from);
        return await repoint(
          onto,
          args,
          "promote onto",
          () => engine.store("promote", [from, onto, repointOptions(args)]),
        );
      });
    },

    compact: (args) => {
      const address = branchOf(args);
      return locked([address], () => {
        sessions.refuseLive(address, "compact");
        return engine.store("compact", [address]);
      });
    },

    destroy: (args) => {
      const address = branchOf(args);
      return locked([address], () => {
        sessions.refuseLive(address, "destroy");
        return engine.store("destroy", [address, flag("force", args.force)]);
      });
    },

    touch: (args) => {
      const address = branchOf(args);
      const options = args.ttl_ms === undefined ? {} : { ttl_ms: args.ttl_ms };
      return locked([address], () => engine.store("touch", [address, options]));
    },

    protect: (args) => {
      const address = branchOf(args);
      return locked([address], () => engine.store("protect", [address, args.on]));
    },

    export: async (args) => {
      const address = pointOf(args);
      refuseInside(context.workspace, args.path);
      if (address.checkpoint === undefined) await flushLocked([address]);
      const outside = { write: EXPORT_SUFFIXES.map((suffix) => args.path + suffix) };
      return await engine.store("export", [address, args.path, flag("force", args.force)], outside);
    },

    diff: async (args) => {
      const [a, b] = [parseAddress(args.a), parseAddress(args.b)];
      await flushLocked([a, b].filter((address) => address.checkpoint === undefined));
      const options = {
        ...(args.tables === undefined ? {} : { tables: args.tables }),
        ...(args.rows === undefined ? {} : { rows: args.rows }),
      };
      return await engine.store("diff", [a, b, options]);
    },

    verify: async (args) => {
      const address = pointOf(args);
      if (address.checkpoint === undefined) await flushLocked([address]);
      const { ok, ...found } = await engine.store("verify", [address]);
      return { ...found, intact: ok };
    },

    lease: (args) => engine.store("lease", [branchOf(args)]),

    gc: ({ grace_ms = context.gc_grace_ms, dry_run }) =>
      engine.store("collectGarbage", [{ grace_ms, ...flag("dry_run", dry_run) }]),

    shutdown: () => {
      context.onShutdown();
      return Promise.resolve({ sessions: sessions.size });
    },
  };
}

function branchOf({ db, branch }: BranchArgs): Address {
  return { db, branch: branch ?? DEFAULT_BRANCH };
}

function pointOf(args: BranchArgs & { checkpoint?: string }): Address {
  return args.checkpoint === undefined ? branchOf(args) : { ...branchOf(args), checkpoint: args.checkpoint };
}

function repointOptions(args: RepointArgs) {
  return {
    ...flag("materialize", args.materialize),
    ...flag("safety", args.safety),
    ...(args.safety_ttl_ms === undefined ? {} : { safety_ttl_ms: args.safety_ttl_ms }),
  };
}

function flag<K extends string>(name: K, value: boolean | undefined): { [N in K]?: boolean } {
  return value === undefined ? {} : { [name]: value } as { [N in K]?: boolean };
}

/** With `force` an export replaces files, and those of the store may be open in a session. */
function refuseInside(store: string, path: string): void {
  if (!`${resolve(path)}/`.startsWith(`${resolve(store)}/`)) return;
  throw new TaskdError("denied", `Cannot export to ${path}: it is inside the store`, {
    hint: "Name a file outside the store's directory",
  });
}

/** A branch's state with its session in mind: error, pending and active take precedence over what is seen at rest. */
function merged<B extends BranchInfo>(info: B, session: SessionInfo | undefined): B {
  if (session === undefined) return info;
  const error = session.error === undefined ? {} : { error: session.error.message };
  return { ...info, state: session.state, ...error };
}
