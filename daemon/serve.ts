/**
 * The branch-store daemon: one process that serves the branches of one store.
 *
 * It starts in an order that cannot hurt another daemon: the store's lock, the socket, then the workers. It stops in an
 * order that loses nothing (shutdown.ts).
 */

import type { S3Access } from "../lib/backend/s3_permissions.ts";
import type { SessionEvent } from "../lib/capture/session.ts";
import { type Clock, type RandomBytes, systemClock, systemRandom } from "../lib/clock.ts";
import { TaskdError } from "../lib/errors.ts";
import { fileError } from "../lib/fs.ts";
import { type HttpAddress, parseHttpAddress } from "../lib/http/address.ts";
import type { HttpTimeouts } from "../lib/http/guard.ts";
import { type Address, formatAddress } from "../lib/store/names.ts";
import { acquireDaemonLock } from "../lib/store/daemon_lock.ts";
import { DEFAULT_GC_GRACE_MS } from "../lib/store/gc.ts";
import { type S3StoreOptions, storeDirectory } from "../lib/store/open.ts";
import { isS3Location } from "../lib/store/s3_location.ts";
import { bindSocket } from "../lib/unix_socket.ts";
import { VERSION } from "../lib/version.ts";
import { Connections } from "./connections.ts";
import { Dispatcher } from "./dispatch.ts";
import { counted } from "./counted_handlers.ts";
import { createHandlers } from "./handlers.ts";
import { BearerToken } from "./http/auth.ts";
import type { HttpOptions, HttpServer } from "./http/server.ts";
import { KeyedMutex } from "./keyed_mutex.ts";
import { DEFAULT_REAP_EVERY_MS, Janitor } from "./janitor.ts";
import { type DaemonLog, oneLineLog } from "./log.ts";
import { Metrics } from "./metrics.ts";
import { WorkerPool, type WorkerPoolOptions } from "./worker_pool.ts";
import { Publisher } from "./publisher.ts";
import { Sessions } from "./sessions.ts";
import { drainDaemon, type UnclosedSession } from "./shutdown.ts";

/** Default of -flush-every, the contract's number. */
export const DEFAULT_FLUSH_EVERY_MS = 30_000;
/** Default of -snapshot-every, the contract's number. */
export const DEFAULT_SNAPSHOT_EVERY = 16;

export interface ServeOptions {
  /** Location of the store: a directory, a file:// URL or s3://bucket/prefix. */
  store: string;
  /** Directory of checkouts, caches and locks; a store in a directory is its own. */
  workspace?: string;
  /** How the bucket of a store in S3 is reached, and what may be touched for that. */
  s3?: { options: S3StoreOptions; access: S3Access };
  /** Absolute path of the unix socket. */
  socket: string;
  /** Milliseconds between timer flushes; 0 turns them off. {@linkcode DEFAULT_FLUSH_EVERY_MS} when absent. */
  flush_every_ms?: number;
  /** Segments past the last snapshot before a flush writes a snapshot, >= 1. {@linkcode DEFAULT_SNAPSHOT_EVERY} when absent. */
  snapshot_every?: number;
  /** Milliseconds between ticks of the janitor; 0 turns it off. {@linkcode DEFAULT_REAP_EVERY_MS} when absent. */
  reap_every_ms?: number;
  /** Milliseconds an unreachable object is kept. {@linkcode DEFAULT_GC_GRACE_MS} when absent. */
  gc_grace_ms?: number;
  /** Bytes that the read-only cache may have; 0, and absent, for no limit. */
  ro_cache_budget_bytes?: number;
  /** The HTTP listener; none when absent. */
  http?: HttpListenOptions;
  /** Worker threads, >= 2. */
  workers?: number;
  log?: DaemonLog;
  /** Begins a shutdown. */
  signal?: AbortSignal | undefined;
  clock?: Clock;
  random?: RandomBytes;
  /** Deadline of a write to a client; for tests. */
  write_deadline_ms?: number;
}

export interface HttpListenOptions {
  /** `host:port`; port 0 takes a free one. */
  address: string;
  /** The bearer token; without one it is generated, and logged once. */
  token?: string;
  /** Whether the address may be one that other hosts reach. */
  allow_non_loopback?: boolean;
  /** Shorter deadlines; for tests. */
  timeouts?: Partial<HttpTimeouts>;
}

export interface RunningDaemon {
  /** The store's directory, or s3://bucket/prefix. */
  readonly store: string;
  readonly socket: string;
  /** `host:port` of the HTTP listener, when there is one. */
  readonly http?: string;
  /** Resolves once it has stopped, with the sessions that could not be flushed and closed: empty when all were. */
  readonly finished: Promise<UnclosedSession[]>;
  /** Begins a shutdown and resolves with {@linkcode RunningDaemon.finished}. */
  shutdown(): Promise<UnclosedSession[]>;
}

/**
 * Serves a store until it is stopped.
 *
 * Requires read and write on the workspace, the socket and the directory of `socketStagingOf` it, `--allow-net=unix:<socket>`
 * of the socket and of the one in that directory, `--allow-run` of cp and `--allow-sys=statfs`; for a store in S3 also what
 * `s3.access` lists.
 *
 * @throws {TaskdError} `daemon_running` when the store or the socket is another daemon's; else what is wrong with them.
 */
export async function serve(options: ServeOptions): Promise<RunningDaemon> {
  const { store, workspace } = placeOf(options);
  checkNumbers(options);
  const { gc_grace_ms = DEFAULT_GC_GRACE_MS, clock = systemClock, random = systemRandom, write_deadline_ms } = options;
  // An invalid listener is refused before anything is changed.
  const listener = options.http && checkListener(options.http, random);
  const log = oneLineLog(options.log ?? (() => {}));
  await using cleanup = new AsyncDisposableStack();

  await makeDirectory(workspace);
  const lock = await acquireDaemonLock(workspace);
  cleanup.defer(() => lock.release());
  const socket = await bindSocket(options.socket);
  cleanup.defer(() => void socket.close());
  lock.update({ socket: options.socket });
  const publisher = new Publisher({ clock, write_deadline_ms });
  const metrics = new Metrics(VERSION);
  const engine = await startEngine(options, {
    clock,
    log,
    onEvent: (address, event) => {
      metrics.sessionEvent(event);
      publish(publisher, log, address, event);
    },
  });
  cleanup.defer(() => engine.close());

  const sessions = new Sessions(engine);
  const locks = new KeyedMutex();
  const stopped = Promise.withResolvers<void>();
  const onShutdown = () => stopped.resolve();
  const about = { location: store, workspace, pid: Deno.pid };
  const handlers = createHandlers({ engine, sessions, locks, ...about, gc_grace_ms, onShutdown });
  const isLive = (address: Address) => sessions.live(address) !== undefined;
  const dispatcher = new Dispatcher(counted(handlers, { metrics, clock, isLive }), log);
  const http = listener && await startHttp(listener, {
    dispatcher,
    publisher,
    metrics,
    sessions: () => sessions.infos(() => true),
    sessionCount: () => sessions.openCount,
    threads: engine,
    clock,
    random,
    log,
    timeouts: options.http?.timeouts,
  });
  if (http) cleanup.defer(() => http.close());
  const connections = new Connections({ dispatcher, publisher, clock, log, write_deadline_ms });
  const janitor = Janitor.start({
    engine,
    publisher,
    metrics,
    clock,
    log,
    reap_every_ms: options.reap_every_ms ?? DEFAULT_REAP_EVERY_MS,
    gc_grace_ms,
    ro_cache_budget_bytes: options.ro_cache_budget_bytes ?? 0,
  });
  options.signal?.addEventListener("abort", onShutdown, { once: true });
  if (options.signal?.aborted) onShutdown();
  const accepting = connections.accept(socket.listener);
  log(`serving ${store} on ${options.socket}`);

  const resources = cleanup.move();
  const finished = stopped.promise.then(async () => {
    await using _resources = resources;
    const unclosed = await drainDaemon({ sessions, locks, dispatcher, publisher, janitor, http, clock, log });
    connections.close();
    if (socket.close()) await accepting;
    log(`stopped: unclosed=${unclosed.length}`);
    return unclosed;
  });
  return {
    store,
    socket: options.socket,
    ...(http === undefined ? {} : { http: http.address }),
    finished,
    shutdown: () => {
      onShutdown();
      return finished;
    },
  };
}

function checkListener(options: HttpListenOptions, random: RandomBytes): { address: HttpAddress; token: BearerToken } {
  const address = parseHttpAddress(options.address);
  const token = BearerToken.forListener(address, {
    ...(options.token === undefined ? {} : { token: options.token }),
    allow_non_loopback: options.allow_non_loopback === true,
    random,
  });
  return { address, token };
}

/** Loaded only when it is used: a daemon without it starts faster. */
async function startHttp(
  { address, token }: { address: HttpAddress; token: BearerToken },
  options: Omit<HttpOptions, "address" | "token">,
): Promise<HttpServer> {
  const { HttpServer } = await import("./http/server.ts");
  const server = new HttpServer({ ...options, address, token });
  options.log(`http listening on ${server.address} (bearer auth, token fingerprint ${token.fingerprint})`);
  // The only line that shows it.
  if (token.generated !== undefined) options.log(`http token: ${token.generated}`);
  return server;
}

function startEngine(
  options: ServeOptions,
  parts: Pick<WorkerPoolOptions, "clock" | "log" | "onEvent">,
): Promise<WorkerPool> {
  const { s3, workers, flush_every_ms = DEFAULT_FLUSH_EVERY_MS, snapshot_every = DEFAULT_SNAPSHOT_EVERY } = options;
  const place = placeOf(options);
  return WorkerPool.start({
    ...parts,
    setup: { ...place, flush_every_ms, snapshot_every, ...(s3 === undefined ? {} : { s3: s3.options }) },
    directories: directoriesOf(place.workspace),
    s3_access: s3?.access,
    workers,
    profiled: options.http !== undefined,
  });
}

const NUMBERS = [
  { field: "flush_every_ms", shown: (value: number) => `-flush-every ${value} ms`, least: 0 },
  { field: "snapshot_every", shown: (value: number) => `-snapshot-every ${value}`, least: 1, whole: true },
  { field: "reap_every_ms", shown: (value: number) => `-reap-every ${value} ms`, least: 0 },
  { field: "gc_grace_ms", shown: (value: number) => `-gc-grace ${value} ms`, least: 0 },
  { field: "ro_cache_budget_bytes", shown: (value: number) => `-ro-cache-budget ${value}`, least: 0, whole: true },
  { field: "workers", shown: (value: number) => `${value} workers`, least: 2, whole: true },
] as const satisfies { field: keyof ServeOptions; shown: (value: number) => string; least: number; whole?: boolean }[];

function checkNumbers(options: ServeOptions): void {
  for (const { field, shown, least, ...rest } of NUMBERS) {
    const value = options[field] ?? least;
    const whole = "whole" in rest;
    if (value >= least && (whole ? Number.isSafeInteger(value) : Number.isFinite(value))) continue;
    const rule = whole ? `an integer of at least ${least}` : `${least} or more`;
    throw new TaskdError("usage", `Cannot serve with ${shown(value)}: it must be ${rule}`);
  }
}

/** Where the store is and where its files on this host are. */
function placeOf({ store, workspace }: ServeOptions): { store: string; workspace: string } {
  if (!isS3Location(store)) {
    const directory = storeDirectory(store);
    return { store: directory, workspace: directory };
  }
  if (workspace !== undefined) return { store, workspace };
  throw new TaskdError("usage", `Cannot serve ${store}: no workspace is named`, {
    hint: "Name a directory for its checkouts",
  });
}

/** The lock is in the workspace, which therefore has to exist first. */
async function makeDirectory(workspace: string): Promise<void> {
  try {
    await Deno.mkdir(workspace, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw fileError(error, `Cannot make the directory ${workspace}`);
  }
}

/** The workspace as it is spelled and as it really is: a permission must cover both. */
function directoriesOf(workspace: string): string[] {
  return [...new Set([workspace, Deno.realPathSync(workspace)])];
}

function publish(publisher: Publisher, log: DaemonLog, address: Address, event: SessionEvent): void {
  publisher.publish(event.type, address, event.detail);
  // Timer flushes are routine: on a busy daemon they would bury everything else.
  if (event.type !== "flushed") log(`${event.type}: ${formatAddress(address)} ${JSON.stringify(event.detail)}`);
}
