/**
 * A worker of the daemon: it opens the store, runs operations on it and hosts
 * sessions. All access to SQLite and to checkouts happens in such workers, in one
 * process, so that SQLite's own locks hold between them.
 */

import { CaptureSession } from "../lib/capture/session.ts";
import { TaskdError } from "../lib/errors.ts";
import type { StoreMethod } from "../lib/protocol/store_operations.ts";
import { sqliteVersion } from "../lib/sqlite/connection.ts";
import { formatAddress } from "../lib/store/names.ts";
import { openStore } from "../lib/store/open.ts";
import type { Store } from "../lib/store/store.ts";
import type { SessionMethod } from "./store_engine.ts";
import { packError, type Work, type WorkerCall, type WorkerReply, type WorkerSetup } from "./worker_messages.ts";

interface WorkerScope {
  onmessage: (event: MessageEvent<WorkerCall>) => void;
  postMessage(reply: WorkerReply): void;
}
const scope = globalThis as unknown as WorkerScope;

class Host {
  readonly #store: Store;
  readonly #setup: WorkerSetup;
  readonly #sessions = new Map<number, CaptureSession>();

  constructor(store: Store, setup: WorkerSetup) {
    this.#store = store;
    this.#setup = setup;
  }

  static async setUp(setup: WorkerSetup): Promise<Host> {
    const { store: location, workspace, s3, snapshot_every: depth_floor } = setup;
    const bucket = s3 === undefined ? {} : { workspace, s3 };
    const store = await openStore(location, { holder: "daemon", depth_floor, log: sendLog, ...bucket });
    return new Host(store, setup);
  }

  async run(work: Exclude<Work, { kind: "setup" | "sample" | "sampled" }>): Promise<unknown> {
    if (work.kind === "end") return this.#store.close();
    if (work.kind === "store") return await this.#callStore(work.method, work.args);
    if (work.kind === "session") return await this.#callSession(work.session, work.method, work.args);
    const session = await CaptureSession.open(this.#store, work.address, {
      flush_every_ms: this.#setup.flush_every_ms,
      snapshot_every: this.#setup.snapshot_every,
      onEvent: (event) => scope.postMessage({ kind: "event", session: work.session, event }),
      log: (line) => sendLog(`${formatAddress(work.address)}: ${line}`),
    });
    this.#sessions.set(work.session, session);
    const { checkout, epoch, holder, txid } = session;
    return { db: work.address.db, branch: work.address.branch, checkout, epoch, holder, txid };
  }

  #callStore(method: StoreMethod, args: unknown[]): Promise<unknown> {
    return (this.#store[method] as (...args: unknown[]) => Promise<unknown>).apply(this.#store, args);
  }

  async #callSession(id: number, method: SessionMethod, args: unknown[]): Promise<unknown> {
    const session = this.#sessions.get(id);
    if (session === undefined) throw new TaskdError("no_session", "The session is closed");
    if (method !== "close") return await (session[method] as (...args: unknown[]) => unknown).apply(session, args);
    this.#sessions.delete(id);
    await session.close();
    return session.txid;
  }
}

let host: Promise<Host> | undefined;
/** Ends the profile that is being taken. */
let sampled: (() => Promise<unknown>) | undefined;

async function run(work: Work): Promise<unknown> {
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
  if (work.kind !== "setup") return await (await host!).run(work);
  host = Host.setUp(work.setup);
  await host;
  return sqliteVersion();
}

function sendLog(entry: string): void {
  scope.postMessage({ kind: "log", entry });
}

scope.onmessage = async ({ data }) => {
  try {
    scope.postMessage({ kind: "done", call: data.call, result: await run(data) });
  } catch (error) {
    scope.postMessage({ kind: "failed", call: data.call, error: packError(error) });
  }
};
