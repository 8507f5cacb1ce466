/**
 * A worker of the daemon: it opens the store, runs operations on it and hosts sessions. All access to SQLite and to
 * checkouts happens in such workers, in one process, so that SQLite's own locks hold between them.
 */

import { mergeUnder, revertUnder } from "../lib/capture/merge.ts";
import { CaptureSession } from "../lib/capture/session.ts";
import { TaskdError } from "../lib/errors.ts";
import { sqliteVersion } from "../lib/sqlite/connection.ts";
import { runStoreMethod } from "../lib/protocol/store_operations.ts";
import { formatAddress } from "../lib/store/names.ts";
import { openStore } from "../lib/store/open.ts";
import type { Store } from "../lib/store/store.ts";
import { packError, type Work, type WorkerCall, type WorkerReply, type WorkerSetup } from "./worker_messages.ts";

interface WorkerScope {
  onmessage: (event: MessageEvent<WorkerCall>) => void;
  postMessage(reply: WorkerReply): void;
}
const scope = globalThis as unknown as WorkerScope;

/** What the worker works on, once that is open. */
let host: Promise<{ store: Store; setup: WorkerSetup }> | undefined;
const sessions = new Map<number, CaptureSession>();
/** Ends the profile that is being taken. */
let sampled: (() => Promise<unknown>) | undefined;

/** Ends calls early, by their number. */
const aborts = new Map<number, AbortController>();

async function run(work: Work, call: number): Promise<unknown> {
  if (work.kind === "sample") {
    // Its caller has left without ending it.
    await sampled?.();
    sampled = await (await import("./sampling.ts")).sampleThread(work.profile);
    return undefined;
  }
  if (work.kind === "sampled") {
    const end = sampled;
    sampled = undefined;
    return await end?.();
  }
  if (work.kind === "setup") {
    host = setUp(work.setup);
    await host;
    return sqliteVersion();
  }
  const { store, setup } = await host!;
  if (work.kind === "end") return store.close();
  if (work.kind === "store") return await runStoreMethod(store, work.method, withCallbacks(work, call));
  if (work.kind === "session") return await callSession(store, work, call);
  const session = await CaptureSession.open(store, work.address, {
    flush_every_ms: setup.flush_every_ms,
    snapshot_every: setup.snapshot_every,
    watch_log: true,
    onEvent: (event) => scope.postMessage({ kind: "event", session: work.session, event }),
    log: (line) => sendLog(`${formatAddress(work.address)}: ${line}`),
  });
  sessions.set(work.session, session);
  const { checkout, epoch, holder, txid, recovery } = session;
  const { db, branch } = work.address;
  return { db, branch, checkout, epoch, holder, txid, ...(recovery === undefined ? {} : { recovery }) };
}

async function setUp(setup: WorkerSetup): Promise<{ store: Store; setup: WorkerSetup }> {
  const { store: location, workspace, s3, host, snapshot_every: depth_floor } = setup;
  const bucket = s3 === undefined ? {} : { workspace, s3 };
  const store = await openStore(location, { holder: "daemon", host, depth_floor, log: sendLog, ...bucket });
  return { store, setup };
}

async function callSession(store: Store, work: Work & { kind: "session" }, call: number): Promise<unknown> {
  const { session: id, method, args } = work;
  const session = sessions.get(id);
  if (session === undefined) throw new TaskdError("no_session", "The session is closed");
  if (method === "merge" || method === "revert") {
    const [from, named, options] = withCallbacks(work, call) as [never, never, object];
    if (method === "merge") return await mergeUnder(store, session, from, options);
    return await revertUnder(store, session, named, options);
  }
  if (method !== "close") return await (session[method] as (...args: unknown[]) => unknown).apply(session, args);
  sessions.delete(id);
  await session.close();
  return session.txid;
}

/** The arguments of a call; with `long` the last one has the callback and the signal, which cannot cross by themselves. */
function withCallbacks({ args, long }: Work & { kind: "store" | "session" }, call: number): unknown[] {
  if (!long) return args;
  const { signal } = aborts.get(call)!;
  const onProgress = (done_bytes: number, total_bytes: number | undefined) =>
    scope.postMessage({ kind: "progress", call, done_bytes, total_bytes });
  return [...args.slice(0, -1), { ...(args.at(-1) as object), signal, onProgress }];
}

function sendLog(entry: string): void {
  scope.postMessage({ kind: "log", entry });
}

scope.onmessage = async ({ data }) => {
  if (data.kind === "abort") return aborts.get(data.call)?.abort();
  if ((data.kind === "store" || data.kind === "session") && data.long) aborts.set(data.call, new AbortController());
  try {
    scope.postMessage({ kind: "done", call: data.call, result: await run(data, data.call) });
  } catch (error) {
    scope.postMessage({ kind: "failed", call: data.call, error: packError(error) });
  } finally {
    aborts.delete(data.call);
  }
};
