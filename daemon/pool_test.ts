import { assert, assertEquals, assertRejects } from "@std/assert";
import { systemClock } from "../lib/clock.ts";
import { TaskdError } from "../lib/errors.ts";
import { WorkerPool } from "./pool.ts";
import { Sessions } from "./sessions.ts";

const ADDRESS = { db: "app", branch: "main" };

async function faultyPool(log: string[] = [], events: string[] = []): Promise<WorkerPool> {
  const directory = await Deno.makeTempDir();
  await Deno.remove(directory);
  return await WorkerPool.start({
    setup: { store: directory, workspace: directory, flush_every_ms: 0, snapshot_every: 1 },
    directories: [directory],
    workers: 2,
    clock: systemClock,
    log: (entry) => log.push(entry),
    onEvent: ({ db, branch }, { type }) => events.push(`${type} ${db}@${branch}`),
    module: import.meta.resolve("../tests/daemon/faulty_worker.ts"),
  });
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

  await sessions.open(ADDRESS);
  assertEquals(await sessions.require(ADDRESS).flush() as unknown, undefined);
  await pool.close();
});

Deno.test("close() leaves no call waiting", async () => {
  const pool = await faultyPool();
  const unanswered = pool.store("databases", []);
  unanswered.catch(() => {});
  await pool.close();
  assertEquals((await assertRejects(() => unanswered, TaskdError)).code, "stopping");
  assertEquals((await assertRejects(() => pool.store("databases", []), TaskdError)).code, "stopping");
});
