/**
 * The engine, as the daemon uses it: operations on the store, and sessions. worker_pool.ts implements it with workers,
 * because SQLite is synchronous and must never block the thread that answers clients.
 */

import type { CaptureSession, SessionEvent } from "../lib/capture/session.ts";
import type { TaskdError } from "../lib/errors.ts";
import type { OpenAnswer } from "../lib/protocol/messages.ts";
import type { MergeMethods, StoreAnswer, StoreArgs, StoreMethod } from "../lib/protocol/store_operations.ts";
import type { Address, Txid } from "../lib/store/names.ts";

/** The methods of a store that never take long; any other may. */
export const SHORT_METHODS: ReadonlySet<StoreMethod> = new Set<StoreMethod>([
  "fork",
  "undoable",
  "merges",
  "parent",
  "touch",
  "protect",
  "condition",
  "databases",
  "lease",
  "reapExpired",
  "enforceRoCacheBudget",
  "roCacheBytes",
]);

/** Files outside the store that one call may use. */
export interface OutsidePaths {
  read?: string[];
  write?: string[];
}

/** The methods of a session that cross to its worker. */
export type SessionMethod = "flush" | "flushPending" | "checkpoint" | "merge" | "revert" | "status" | "close";
type Methods = CaptureSession & MergeMethods;
export type SessionArgs<M extends SessionMethod> = Parameters<Methods[M]>;
/** Closing resolves with the durable transaction. The session is closed whether it resolves or rejects. */
export type SessionAnswer<M extends SessionMethod> = M extends "close" ? Txid : Awaited<ReturnType<Methods[M]>>;
type SessionMethods = { readonly [M in SessionMethod]: (...args: SessionArgs<M>) => Promise<SessionAnswer<M>> };

/** An open session. Every method rejects with `session_failed` once {@linkcode EngineSession.lost} is set. */
export interface EngineSession extends SessionMethods {
  readonly opened: OpenAnswer;
  /** Set when the worker that ran the session is gone. */
  readonly lost: TaskdError | undefined;
}

export type OnSessionEvent = (address: Address, event: SessionEvent) => void;

export interface StoreEngine {
  readonly sqlite_version: string;
  /** Runs a method of the store; the callback and the signal of {@linkcode LongOptions} are its last argument's. */
  store<M extends StoreMethod>(method: M, args: StoreArgs<M>, outside?: OutsidePaths): Promise<StoreAnswer<M>>;
  openSession(address: Address): Promise<EngineSession>;
  /** Ends all workers. Sessions that are open are left as a crash would leave them. */
  close(): Promise<void>;
}
