/**
 * A session under a test's control: its time, its store's faults, and its events.
 */

import { VirtualClock } from "./clock.ts";
import { at, openAt, sql, withDirectory } from "./stores.ts";
export { fails } from "./stores.ts";
import type { Backend } from "../../lib/backend/backend.ts";
import { type FaultPlan, FaultyBackend } from "./faulty_backend.ts";
import { LocalBackend } from "../../lib/backend/local.ts";
import { MemoryBackend } from "./memory_backend.ts";
import { nextTurn } from "../../lib/clock.ts";
import { CheckoutFile } from "../../lib/sqlite/checkout_file.ts";
import type { Store } from "../../lib/store/store.ts";
import { CaptureSession, type SessionEvent, type SessionOptions } from "../../lib/capture/session.ts";

/** Logs that are being forced to disk, which takes real time. */
const syncs = new Set<Promise<void>>();
const { syncWal } = CheckoutFile.prototype;
CheckoutFile.prototype.syncWal = function () {
  const syncing = syncWal.call(this).finally(() => syncs.delete(syncing));
  syncs.add(syncing);
  return syncing;
};

/** A store with the empty database `app`, whose time and faults are the test's. */
export class Scene {
  readonly directory: string;
  readonly clock = new VirtualClock();
  readonly events: SessionEvent[] = [];
  /** What a session only has counted. */
  readonly counted: string[] = [];
  readonly log: string[] = [];
  /** Every object put, in order. */
  readonly uploads: string[] = [];
  plan: FaultPlan = () => undefined;

  #store: Store | undefined;

  private constructor(directory: string) {
    this.directory = directory;
  }

  /** Objects are kept in memory, unless another process is to see them. */
  static async make(directory: string, backend: Backend): Promise<Scene> {
    const scene = new Scene(directory);
    scene.#store = await openAt(directory, {
      backend,
      clock: scene.clock,
      wrap: (inner) =>
        new FaultyBackend(inner, (call) => {
          if (call.method === "put" || call.method === "cloneIn") scene.uploads.push(call.key);
          return scene.plan(call);
        }, { clock: scene.clock }),
    });
    await scene.store.create("app");
    scene.uploads.length = 0;
    return scene;
  }

  open(options: Partial<SessionOptions> = {}): Promise<CaptureSession> {
    return CaptureSession.open(this.store, at("app"), {
      flush_every_ms: 0,
      snapshot_every: 16,
      onEvent: (event) => event.detail === null ? this.counted.push(event.type) : this.events.push(event),
      log: (line) => this.log.push(line),
      ...options,
    });
  }

  get store(): Store {
    return this.#store!;
  }

  get types(): string {
    return this.events.map(({ type }) => type).join(" ");
  }

  /** Lets `ms` pass in small steps, so that the session's own loop takes its turns. */
  async pass(ms: number, step_ms = 250): Promise<void> {
    for (let left = ms; left > 0; left -= step_ms) {
      this.clock.advance(Math.min(step_ms, left));
      for (let i = 0; i < 5; i++) await nextTurn();
      if (syncs.size === 0) continue;
      await Promise.allSettled(syncs);
      for (let i = 0; i < 5; i++) await nextTurn();
    }
  }
}

/** Runs `work` on a store of its own. */
export async function onStore(
  work: (scene: Scene) => Promise<void>,
  options: { on_disk?: boolean } = {},
): Promise<void> {
  await withDirectory(async (directory) => {
    const scene = await Scene.make(
      directory,
      options.on_disk ? await LocalBackend.open(directory) : new MemoryBackend(),
    );
    try {
      await work(scene);
    } finally {
      scene.store.close();
    }
  });
}

/** With an open session on a checkout that has the table `t(v)`, already flushed. */
export async function inSession(
  work: (scene: Scene, session: CaptureSession) => Promise<void>,
  options: Partial<SessionOptions> = {},
): Promise<void> {
  await onStore(async (scene) => {
    const session = await scene.open(options);
    try {
      sql(session.checkout, "CREATE TABLE t(v)");
      await session.flush();
      scene.events.length = 0;
      scene.uploads.length = 0;
      await work(scene, session);
    } finally {
      scene.plan = () => undefined;
      await session.close().catch(() => {});
    }
  });
}

/** An application's commits, one for each value. */
export function insert(session: CaptureSession, ...values: (string | number)[]): void {
  sql(session.checkout, ...values.map((value) => `INSERT INTO t VALUES('${value}')`));
}

/** A store that fails every call of these methods until the plan is changed. */
export function unavailable(...methods: string[]): FaultPlan {
  return ({ method }) => methods.includes(method) ? { kind: "before", code: "unavailable" } : undefined;
}

/** Makes the session doubt what it read of the log, as a foreign writer of the -wal would. */
export function raiseDoubt(session: CaptureSession): void {
  const name = `${session.checkout}-wal`;
  const header = Deno.readFileSync(name).subarray(0, 32);
  using wal = Deno.openSync(name, { write: true });
  wal.writeSync(new Uint8Array(32));
  session.status();
  wal.seekSync(0, Deno.SeekMode.Start);
  wal.writeSync(header);
}
