/**
 * A daemon that is stopped for longer than its leases last, as by SIGSTOP or the lid of a laptop, and goes on.
 */

import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { systemClock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { Lease, LEASE_TTL_MS } from "../../lib/store/lease.ts";
import { openStore } from "../../lib/store/open.ts";
import { longTest } from "../support/long.ts";
import { rows } from "../support/stores.ts";
import { type DaemonProcess, Place } from "./daemon_process.ts";
import { HttpDaemon } from "./_http.ts";

const PAUSE_MS = LEASE_TTL_MS + 5_000;

function insert(path: string, sql: string): void {
  const db = new DatabaseSync(path, { timeout: 5_000 });
  db.exec(sql);
  db.close();
}

/**
 * Stops the daemon at a moment at which an application can write: inside a takeover or a look it holds the write lock, and
 * keeps it for as long as it is stopped.
 */
async function stop({ pid }: DaemonProcess, checkout: string): Promise<void> {
  const is_stopped = () =>
    [...Deno.readDirSync(`/proc/${pid}/task`)].every(({ name }) =>
      / [Tt] /.test(Deno.readTextFileSync(`/proc/${pid}/task/${name}/stat`))
    );
  for (;;) {
    Deno.kill(pid, "SIGSTOP");
    while (!is_stopped()) await systemClock.sleep(1);
    const db = new DatabaseSync(checkout);
    try {
      db.exec("BEGIN IMMEDIATE; ROLLBACK");
      return;
    } catch (error) {
      assertMatch((error as Error).message, /database is locked/);
    } finally {
      db.close();
    }
    Deno.kill(pid, "SIGCONT");
    await systemClock.sleep(5);
  }
}

/** Stops the daemon for longer than its leases last; what is `during` happens at the end of that. */
async function pause(daemon: DaemonProcess, checkout: string, during: () => Promise<void> | void): Promise<void> {
  await stop(daemon, checkout);
  try {
    await systemClock.sleep(PAUSE_MS);
    await during();
  } finally {
    Deno.kill(daemon.pid, "SIGCONT");
  }
}

longTest("a session paused beyond its lease goes on, and flushes what was committed meanwhile", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place, { flush_every_ms: 1_000 });
  const { daemon } = http;
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  const { checkout, epoch, holder } = await client.call("open", { db: "app" });
  insert(checkout, "CREATE TABLE t(v); INSERT INTO t VALUES(1)");
  const events = await daemon.events({ more: true });
  const plain = await daemon.events();
  await pause(daemon, checkout, () => insert(checkout, "INSERT INTO t VALUES(2)"));
  const retaken = await events.of("lease_retaken");
  assertEquals([retaken.db, retaken.branch], ["app", "main"]);
  assert("late_seconds" in retaken.detail && retaken.detail.late_seconds > 0 && retaken.detail.late_seconds < PAUSE_MS);
  await client.call("flush", { db: "app" });
  const { sessions: [session] } = await client.call("status", {});
  assertEquals([session?.state, session?.epoch, session?.holder, session?.rebases], ["active", epoch, holder, 0]);
  const path = `${place.directory}/out.db`;
  await client.call("export", { db: "app", path });
  assertEquals(rows(path), "1,2");
  const more = await (await http.fetch("/metrics/more")).text();
  assert(more.includes("\nbstore_lease_retaken_total 1\n"));
  assertEquals(plain.seen.filter(({ type }) => type !== "flushed"), []);
  insert(checkout, "INSERT INTO t VALUES(3)");
  assertEquals((await client.call("close", { db: "app" })).error, undefined);
});

longTest("a session whose lease was taken in a pause says by whom, and its figures are true", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place, { flush_every_ms: 1_000 });
  const { daemon } = http;
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  const { checkout } = await client.call("open", { db: "app" });
  insert(checkout, "CREATE TABLE t(v); INSERT INTO t VALUES(1)");
  const events = await daemon.events();
  await events.of("flushed");
  using other = await openStore(place.store, { holder: "other" });
  let taken!: Lease;
  await pause(daemon, checkout, async () => {
    insert(checkout, "INSERT INTO t VALUES(2)");
    taken = await Lease.acquire(other.context, { db: "app", branch: "main" });
  });
  const { detail } = await events.of("fenced");
  const by = new RegExp(`lost to ${taken.holder} on ${Deno.hostname()} since 20\\d\\d-`);
  assertMatch((detail as { cause: string }).cause, by);
  const { sessions: [session] } = await client.call("status", {});
  assertEquals([session?.state, session?.error?.code], ["error", "fenced"]);
  assertMatch(session?.error?.message ?? "", by);
  assertEquals((await assertRejects(() => client.call("flush", { db: "app" }), TaskdError)).code, "session_failed");
  const metrics = await http.metrics();
  assert(metrics.value("capture_lag_bytes", { db: "app", branch: "main" })! > 4096);
  assert(metrics.value("flush_total", { kind: "manual", result: "error" })! >= 1);
  // The timer goes on to fail for as long as there is something to flush.
  const auto = metrics.value("flush_total", { kind: "auto", result: "error" }) ?? 0;
  await http.metricsOnce((now) => now.value("flush_total", { kind: "auto", result: "error" })! > auto);
  assertEquals(rows(checkout), "1,2");
});
