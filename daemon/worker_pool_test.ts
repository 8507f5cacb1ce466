import { assert, assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { join } from "@std/path/join";
import { DatabaseSync } from "node:sqlite";
import { systemClock } from "../lib/clock.ts";
import { TaskdError } from "../lib/errors.ts";
import { openStore } from "../lib/store/open.ts";
import type { OutsidePaths } from "./store_engine.ts";
import { WorkerPool } from "./worker_pool.ts";
import { createHandlers } from "./handlers.ts";
import { KeyedMutex } from "../lib/keyed_mutex.ts";
import type { OpName } from "../lib/protocol/messages.ts";
import { OPS } from "../lib/protocol/operations.ts";
import { Sessions } from "./sessions.ts";

const ADDRESS = { db: "app", branch: "main" };

interface Seen {
  log?: string[];
  events?: string[];
}

/** A pool of two workers of a test's own, which never touch the directory unless they try to. */
async function poolOf(worker: string, directory: string, { log = [], events = [] }: Seen = {}): Promise<WorkerPool> {
  return await WorkerPool.start({
    setup: { store: directory, workspace: directory, flush_every_ms: 0, snapshot_every: 1 },
    directories: [directory],
    workers: 2,
    clock: systemClock,
    log: (entry) => log.push(entry),
    onEvent: ({ db, branch }, { type }) => events.push(`${type} ${db}@${branch}`),
    module: import.meta.resolve(`../tests/daemon/${worker}`),
  });
}

async function faultyPool(log: string[] = [], events: string[] = []): Promise<WorkerPool> {
  const directory = await Deno.makeTempDir();
  await Deno.remove(directory);
  return await poolOf("faulty_worker.ts", directory, { log, events });
}

/** A pool whose workers say their names and try what they may not, with a secret beside its workspace. */
async function pryingPool(seen: Seen = {}): Promise<AsyncDisposable & { pool: WorkerPool; secret: string }> {
  const directory = await Deno.makeTempDir({ prefix: "pool-" });
  const secret = join(directory, "secret");
  await Deno.mkdir(join(directory, "workspace"));
  await Deno.writeTextFile(secret, "hidden");
  const pool = await poolOf("prying_worker.ts", join(directory, "workspace"), seen);
  return {
    pool,
    secret,
    [Symbol.asyncDispose]: async () => {
      await pool.close();
      await Deno.remove(directory, { recursive: true });
    },
  };
}

Deno.test("a worker that dies fails its calls, loses its sessions, and is replaced", async () => {
  const log: string[] = [];
  const events: string[] = [];
  const pool = await faultyPool(log, events);
  const sessions = new Sessions(pool);
  await sessions.open(ADDRESS);
  const unanswered = pool.store("databases", []);
  unanswered.catch(() => {});
  // Short operations go where least is running: each worker gets one of these two.
  const crashes = await Promise.allSettled([pool.store("lease", [ADDRESS]), pool.store("lease", [ADDRESS])]);
  for (const crash of crashes) assert(crash.status === "rejected" && crash.reason instanceof TaskdError);
  assertEquals((await assertRejects(() => unanswered, TaskdError)).code, "internal");
  assert(log.some((entry) => entry.includes("staged crash")));
  assertEquals(events, ["session_closed app@main"]);

  const [info] = await sessions.infos(() => true);
  assertEquals([info?.state, info?.error?.code], ["error", "session_failed"]);
  assertEquals((await assertRejects(() => sessions.require(ADDRESS).flush(), TaskdError)).code, "session_failed");
  assertEquals((await assertRejects(() => sessions.open(ADDRESS), TaskdError)).code, "session_failed");
  assertEquals((await sessions.close(ADDRESS)).error?.code, "session_failed");
  assertEquals(events, ["session_closed app@main", "flush_failed app@main"]);

  await sessions.open(ADDRESS);
  assertEquals(await sessions.require(ADDRESS).flush() as unknown, undefined);
  await pool.close();
});

Deno.test("over a lost session every operation fails only with what its table lists", async () => {
  const pool = await faultyPool();
  const sessions = new Sessions(pool);
  const about = { location: "/s", workspace: "/s", pid: 1, gc_grace_ms: 0, keep: [], onShutdown: () => {} };
  const handlers = createHandlers({ engine: pool, sessions, locks: new KeyedMutex(), ...about });
  await sessions.open(ADDRESS);
  await Promise.allSettled([pool.store("lease", [ADDRESS]), pool.store("lease", [ADDRESS])]);
  const fields = {
    checkpoint: "c",
    name: "c",
    to: "c",
    onto: "main",
    new_branch: "new",
    path: "/x",
    a: "app",
    b: "app",
  };
  const failed: OpName[] = [];
  for (const op of Object.keys(handlers) as (keyof typeof handlers)[]) {
    if (op === "databases" || op === "lease" || op === "close") continue;
    const branch = op === "promote" ? "dev" : "main";
    const args = { ...fields, db: "app", branch, force: true };
    const work = Promise.try(handlers[op] as (args: object) => Promise<unknown>, args);
    const { code } = await work.then(() => ({ code: undefined }), (error) => error);
    if (code !== "session_failed") continue;
    failed.push(op);
    assert(OPS[op].errors.includes(code), op);
  }
  for (const op of ["open", "flush", "checkout", "compact", "destroy", "rollback", "promote"] as const) {
    assert(failed.includes(op), op);
  }
  await pool.close();
});

Deno.test("a session's loss is reported once, and of one that never opened nothing", async () => {
  const events: string[] = [];
  const pool = await faultyPool([], events);
  await assertRejects(() => pool.openSession({ db: "refused", branch: "main" }), TaskdError);
  await pool.openSession(ADDRESS);
  for (let round = 0; round < 2; round++) {
    const crashes = await Promise.allSettled([pool.store("lease", [ADDRESS]), pool.store("lease", [ADDRESS])]);
    assertEquals(crashes.map(({ status }) => status), ["rejected", "rejected"]);
  }
  assertEquals(events, ["session_closed app@main"]);
  await pool.close();
});

Deno.test("a call with files of its own fails when its worker dies", async () => {
  const pool = await faultyPool();
  const outside = { read: ["/nonexistent"] };
  const error = await assertRejects(() => pool.store("lease", [ADDRESS], outside), TaskdError);
  assertEquals(error.code, "internal");
  assertEquals(await pool.store("touch", [ADDRESS, {}], outside) as unknown, undefined);
  await pool.close();
});

const REFUSED = {
  "read outside": "refused",
  "write outside": "refused",
  "see the environment": "refused",
  "reach the network": "refused",
  "load a program from the network": "refused",
  "run a shell": "refused",
  "load a library": "refused",
  "ask about the system": "refused",
  "write inside": "done",
  "read inside": "done",
};

Deno.test("a worker can use the workspace and nothing else; for one call, the files of that call", async () => {
  await using stage = await pryingPool();
  const { pool, secret } = stage;
  const tries = async (outside?: OutsidePaths) => await pool.store("databases", [], outside) as unknown;
  assertEquals(await tries(), REFUSED);
  assertEquals(await tries({ read: [secret] }), { ...REFUSED, "read outside": "done" });
  assertEquals(await Deno.readTextFile(secret), "hidden");
  assertEquals(await tries({ write: [secret] }), { ...REFUSED, "read outside": "done", "write outside": "done" });
  assertEquals(await tries(), REFUSED);
});

Deno.test("a worker that was started for one call ends with it", async () => {
  const log: string[] = [];
  await using stage = await pryingPool({ log });
  const name = await stage.pool.store("export", [ADDRESS, stage.secret], { write: [stage.secret] }) as unknown;
  assertEquals(log, [`ended ${name}`]);
});

Deno.test("long operations never run beside sessions", async () => {
  await using stage = await pryingPool();
  const session = await stage.pool.openSession(ADDRESS);
  const beside = await session.flush() as unknown;
  const long = await Promise.all(Array.from({ length: 4 }, () => stage.pool.store("verify", [ADDRESS]))) as unknown[];
  for (const worker of long) assertNotEquals(worker, beside);
  const short = await Promise.all(Array.from({ length: 4 }, () => stage.pool.store("touch", [ADDRESS, {}])));
  assert((short as unknown[]).includes(beside));
});

Deno.test("close() ends a worker that is stuck in a call", async () => {
  await using stage = await pryingPool();
  const stuck = assertRejects(() => stage.pool.store("compact", [ADDRESS]), TaskdError);
  await stage.pool.close();
  assertEquals((await stuck).code, "stopping");
});

Deno.test("close() leaves no call waiting", async () => {
  const pool = await faultyPool();
  const unanswered = pool.store("databases", []);
  unanswered.catch(() => {});
  await pool.close();
  assertEquals((await assertRejects(() => unanswered, TaskdError)).code, "stopping");
  assertEquals((await assertRejects(() => pool.store("databases", []), TaskdError)).code, "stopping");
});

Deno.test("a store's long work in a worker reports progress, and ends early on a signal", async () => {
  const directory = await Deno.makeTempDir({ prefix: "pool-" });
  const source = join(directory, "large.db");
  const db = new DatabaseSync(source);
  db.exec("CREATE TABLE t(a); INSERT INTO t VALUES (randomblob(67108864))");
  db.close();
  const store = join(directory, "store");
  (await openStore(store, { holder: "test", create: true })).close();
  const pool = await WorkerPool.start({
    setup: { store, workspace: store, flush_every_ms: 0, snapshot_every: 16 },
    directories: [store],
    clock: systemClock,
    log: () => {},
    onEvent: () => {},
  });
  try {
    const seen: (number | undefined)[] = [];
    const onProgress = (done_bytes: number, total_bytes?: number) => void seen.push(done_bytes, total_bytes);
    await pool.store("create", ["app", { from: source, onProgress }], {
      read: ["", "-wal", "-shm", "-journal"].map((suffix) => source + suffix),
      write: [source],
    });
    assert(seen.length > 2 && seen.every((bytes) => bytes === undefined || bytes >= 0));
    const abort = new AbortController();
    const progress = () => abort.abort();
    const options = { signal: abort.signal, onProgress: progress };
    assertEquals((await assertRejects(() => pool.store("verify", [ADDRESS, options]), TaskdError)).code, "interrupted");
    // Also when it is aborted before it begins.
    assertEquals((await assertRejects(() => pool.store("verify", [ADDRESS, options]), TaskdError)).code, "interrupted");
    assertEquals((await pool.store("verify", [ADDRESS, { onProgress }])).ok, true);
  } finally {
    await pool.close();
    await Deno.remove(directory, { recursive: true });
  }
});
