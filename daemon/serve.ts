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
import { connectionLimits } from "../lib/descriptors.ts";
import type { HttpTimeouts } from "../lib/http/connection_stream.ts";
import { MAX_HTTP_CONNECTIONS } from "../lib/http/server.ts";
import { type Address, formatAddress } from "../lib/store/names.ts";
import { acquireDaemonLock } from "../lib/store/daemon_lock.ts";
import { DEFAULT_GC_GRACE_MS } from "../lib/store/gc.ts";
import { DEFAULT_LEVELS } from "../lib/store/retention.ts";
import { type S3StoreOptions, storeDirectory } from "../lib/store/open.ts";
import { isS3Location } from "../lib/store/s3_location.ts";
import { bindSocket, type BoundSocket } from "../lib/unix_socket.ts";
import { VERSION } from "../lib/version.ts";
import { Connections, MAX_CONNECTIONS } from "./connections.ts";
import { Dispatcher } from "./dispatch.ts";
import { counted } from "./counted_handlers.ts";
import { createHandlers } from "./handlers.ts";
import { BearerToken } from "./http/auth.ts";
import type { HttpOptions, HttpServer } from "./http/server.ts";
import { KeyedMutex } from "../lib/keyed_mutex.ts";
import { DEFAULT_REAP_EVERY_MS, DEFAULT_SCRUB_EVERY_MS, Janitor, type JanitorSchedule } from "./janitor.ts";
import { type DaemonLog, oneLineLog } from "./log.ts";
import { Metrics } from "./metrics.ts";
import { MoreMetrics } from "./more_metrics.ts";
import { WorkerPool, type WorkerPoolOptions } from "./worker_pool.ts";
import { Publisher } from "./publisher.ts";
import { Sessions } from "./sessions.ts";
import { drainDaemon, type UnclosedSession } from "./shutdown.ts";

/** Default of --flush-every, the contract's number. */
export const DEFAULT_FLUSH_EVERY_MS = 30_000;
/** Default of --snapshot-every, the contract's number. */
export const DEFAULT_SNAPSHOT_EVERY = 16;

/** A quarter stays the socket's, whatever comes over HTTP. */
const CONNECTION_USES = {
  socket: { most: MAX_CONNECTIONS, descriptors: 1, share: 0.25 },
  http: { most: MAX_HTTP_CONNECTIONS, descriptors: 1, share: 0.75 },
};

/** What is left out of the janitor's has its default, {@linkcode DEFAULT_GC_GRACE_MS} among them. */
export interface ServeOptions extends Partial<JanitorSchedule> {
  /** Location of the store: a directory, a file:// URL or s3://bucket/prefix. */
  store: string;
  /** Directory of checkouts, caches and locks; a store in a directory is its own. */
  workspace?: string;
  /** How the bucket of a store in S3 is reached, and what may be touched for that. */
  s3?: { options: S3StoreOptions; access: S3Access };
  /** Absolute path of the unix socket. */
  socket: string;
  /** Name of this host, named where a lease is refused. */
  host?: string | undefined;
  /** Descriptors that the process may have open: they bound its connections. */
  open_files?: number | undefined;
  /** Milliseconds between timer flushes; 0 turns them off. {@linkcode DEFAULT_FLUSH_EVERY_MS} when absent. */
  flush_every_ms?: number;
  /** Segments past the last snapshot before a flush writes a snapshot, >= 1. {@linkcode DEFAULT_SNAPSHOT_EVERY} when absent. */
  snapshot_every?: number;
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
  const { gc_grace_ms = DEFAULT_GC_GRACE_MS, keep = DEFAULT_LEVELS, write_deadline_ms } = options;
  const { clock = systemClock, random = systemRandom } = options;
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
  const reports = makeReports(options, { clock, log });
  const { publisher, metrics } = reports;
  const engine = await startEngine(options, { clock, log, onEvent: reports.onEvent });
  cleanup.defer(() => engine.close());

  const sessions = new Sessions(engine);
  const locks = new KeyedMutex();
  const stopped = Promise.withResolvers<void>();
  const onShutdown = () => stopped.resolve();
  const about = { location: store, workspace, pid: Deno.pid };
  const handlers = createHandlers({ engine, sessions, locks, ...about, gc_grace_ms, keep, onShutdown });
  const isLive = (address: Address) => sessions.live(address) !== undefined;
  const dispatcher = new Dispatcher(counted(handlers, { ...reports, clock, isLive }), log);
  const limits = connectionLimits(options.open_files, CONNECTION_USES);
  const http = listener && await startHttp(listener, {
    ...reports,
    dispatcher,
    sessions: () => sessions.infos(() => true),
    sessionCount: () => sessions.openCount,
    threads: engine,
    max_connections: limits.http,
    clock,
    random,
    log,
    timeouts: options.http?.timeouts,
  });
  if (http) cleanup.defer(() => http.close());
  const connections = new Connections({
    dispatcher,
    publisher,
    clock,
    log,
    write_deadline_ms,
    max_connections: limits.socket,
  });
  const janitor = new Janitor({
    engine,
    publisher,
    metrics,
    clock,
    log,
    reap_every_ms: options.reap_every_ms ?? DEFAULT_REAP_EVERY_MS,
    gc_grace_ms,
    keep,
    ro_cache_budget_bytes: options.ro_cache_budget_bytes ?? 0,
    scrub_every_ms: options.scrub_every_ms ?? DEFAULT_SCRUB_EVERY_MS,
    more_metrics: reports.more_metrics,
  });
  options.signal?.addEventListener("abort", onShutdown, { once: true });
  if (options.signal?.aborted) onShutdown();
  const accepting = connections.accept(socket.listener);
  log(`serving ${store} on ${options.socket}`);

  const resources = cleanup.move();
  const draining = { sessions, locks, dispatcher, publisher, janitor, http, clock, log };
  const finished = stopped.promise.then(() => stop(resources, draining, { connections, socket, accepting }));
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

/** Makes what hears of the sessions: subscribers and metrics; the log is there already. */
function makeReports(
  { write_deadline_ms }: ServeOptions,
  { clock, log }: Pick<WorkerPoolOptions, "clock" | "log">,
): { publisher: Publisher; metrics: Metrics; more_metrics: MoreMetrics; onEvent: WorkerPoolOptions["onEvent"] } {
  const publisher = new Publisher({ clock, write_deadline_ms });
  const metrics = new Metrics(VERSION);
  const more_metrics = new MoreMetrics();
  const onEvent: WorkerPoolOptions["onEvent"] = (address, event) => {
    metrics.sessionEvent(event);
    more_metrics.sessionEvent(event);
    publish(publisher, log, address, event);
  };
  return { publisher, metrics, more_metrics, onEvent };
}

/** Flushes and closes every session, ends the connections, and gives back what the daemon holds. */
async function stop(
  resources: AsyncDisposableStack,
  draining: Parameters<typeof drainDaemon>[0],
  { connections, socket, accepting }: { connections: Connections; socket: BoundSocket; accepting: Promise<void> },
): Promise<UnclosedSession[]> {
  await using _resources = resources;
  const unclosed = await drainDaemon(draining);
  connections.close();
  if (socket.close()) await accepting;
  draining.log(`stopped: unclosed=${unclosed.length}`);
  return unclosed;
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
  const { s3, workers, host, flush_every_ms = DEFAULT_FLUSH_EVERY_MS, snapshot_every = DEFAULT_SNAPSHOT_EVERY } =
    options;
  const place = placeOf(options);
  return WorkerPool.start({
    ...parts,
    setup: { ...place, host, flush_every_ms, snapshot_every, ...(s3 === undefined ? {} : { s3: s3.options }) },
    // As it is spelled and as it really is: a permission must cover both.
    directories: [...new Set([place.workspace, Deno.realPathSync(place.workspace)])],
    s3_access: s3?.access,
    workers,
    profiled: options.http !== undefined,
  });
}

const NUMBERS = [
  { field: "flush_every_ms", shown: (value: number) => `--flush-every ${value} ms`, least: 0 },
  { field: "snapshot_every", shown: (value: number) => `--snapshot-every ${value}`, least: 1, whole: true },
  { field: "reap_every_ms", shown: (value: number) => `--reap-every ${value} ms`, least: 0 },
  { field: "gc_grace_ms", shown: (value: number) => `--gc-grace ${value} ms`, least: 0 },
  { field: "ro_cache_budget_bytes", shown: (value: number) => `--ro-cache-budget ${value}`, least: 0, whole: true },
  { field: "scrub_every_ms", shown: (value: number) => `--scrub-every ${value} ms`, least: 0 },
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

function publish(publisher: Publisher, log: DaemonLog, address: Address, event: SessionEvent): void {
  if (event.detail === null) return;
  publisher.publish(event.type, address, event.detail);
  // Timer flushes are routine: on a busy daemon they would bury everything else.
  if (event.type !== "flushed") log(`${event.type}: ${formatAddress(address)} ${JSON.stringify(event.detail)}`);
}
