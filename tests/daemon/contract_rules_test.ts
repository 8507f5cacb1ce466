import { assert, assertEquals, assertRejects } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { join } from "@std/path/join";
import { COMMANDS, GLOBAL_FLAGS } from "../../cli/table/commands.ts";
import { DEFAULT_FLUSH_EVERY_MS, DEFAULT_SNAPSHOT_EVERY } from "../../daemon/serve.ts";
import { DEFAULT_DEPTH_FLOOR } from "../../lib/store/store.ts";
import { TaskdError } from "../../lib/errors.ts";
import { openStore } from "../../lib/store/open.ts";
import { EVENT_TYPES } from "../../lib/protocol/events.ts";
import { DaemonProcess, Place } from "./daemon_process.ts";
import { HttpDaemon, ServeCommand, TOKEN } from "./_http.ts";
import { longTest } from "../support/long.ts";

// conformance: 1.serve_flags 8.flush_every 8.snapshot_every 8.reap_every 8.gc_grace 8.ro_cache_budget
Deno.test("serve has the contract's flags with the contract's defaults", () => {
  const serve = COMMANDS.find(({ name }) => name === "serve")!;
  const flags = [...GLOBAL_FLAGS, ...serve.flags];
  const defaults = Object.fromEntries(flags.map(({ name, default: value }) => [name, value]));
  assertEquals(
    ["flush-every", "snapshot-every", "reap-every", "gc-grace", "ro-cache-budget"].map((name) => defaults[name]),
    ["30s", "16", "1m", "15m", "0"],
  );
  for (const name of ["socket", "http", "token", "http-allow-non-loopback"]) assert(name in defaults, name);
  assertEquals([DEFAULT_FLUSH_EVERY_MS, DEFAULT_SNAPSHOT_EVERY, DEFAULT_DEPTH_FLOOR], [30_000, 16, 16]);
  assertEquals(serve.flags.find(({ name }) => name === "token")?.env, "BSTORE_TOKEN");
});

// conformance: 1.not_persisted 5.3
longTest("a daemon's options end with it: the next one has the defaults", async () => {
  await using place = new Place();
  {
    await using serving = new ServeCommand(place, ["-http", "127.0.0.1:0"], { BSTORE_TOKEN: TOKEN });
    await serving.serving();
    assertEquals(await serving.stop(), 0);
  }
  await using serving = new ServeCommand(place, []);
  await serving.serving();
  assertEquals(serving.stderr.filter((line) => line.includes("http")), []);
});

// conformance: 2.depth_floor 8.snapshot_every
Deno.test("the daemon's depth floor is its --snapshot-every, which must be at least 1", async () => {
  await using place = new Place();
  await assertRejects(() => DaemonProcess.start(place, { snapshot_every: 0 }), Error, "-snapshot-every");
  await using daemon = await DaemonProcess.start(place, { snapshot_every: 3, flush_every_ms: 0 });
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  const { checkout } = await client.call("open", { db: "app" });
  const db = new DatabaseSync(checkout);
  db.exec("CREATE TABLE t(x)");
  const seen: string[] = [];
  for (let segments = 1; segments <= 5; segments++) {
    db.exec("INSERT INTO t VALUES(1)");
    const { kind } = await client.call("flush", { db: "app" });
    const { mode } = await client.call("fork", { db: "app", new_branch: `f${segments}` });
    seen.push(`${kind} ${mode}`);
  }
  db.close();
  // A snapshot and three segments are at the floor; the snapshot that the next flush writes begins anew.
  assertEquals(seen, [
    "segment shared",
    "segment shared",
    "segment materialized",
    "snapshot shared",
    "segment shared",
  ]);
});

// conformance: 6.type.fenced 6.type.flush_failed 3.error 3.precedence 7.session_error
Deno.test("a session whose lease was taken is fenced: events, state, gauge and hint", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place, { flush_every_ms: 0 });
  using client = await http.daemon.connect();
  await client.call("create", { db: "app" });
  const { checkout } = await client.call("open", { db: "app" });
  const events = await http.events();
  const db = new DatabaseSync(checkout);
  db.exec("CREATE TABLE t(x)");
  db.close();
  using store = await openStore(place.store, { holder: "test" });
  const lease = { holder: "other:0123456789abcdef:01234567", expires_at: "2099-01-01T00:00:00.000Z" };
  await store.context.refs.update("app", "main", (ref) => ({ ...ref, epoch: ref.epoch + 1, lease }));
  const error = await assertRejects(() => client.call("flush", { db: "app" }), TaskdError);
  assertEquals(error.code, "fenced");
  await events.of("flush_failed");
  const fenced = await events.of("fenced");
  assertEquals([fenced.db, fenced.branch, Object.keys(fenced.detail)], ["app", "main", ["cause"]]);
  // Leased, edited, and failed: the first of the three that applies is reported.
  const { sessions, branch } = await client.call("status", { db: "app", branch: "main" });
  assertEquals([sessions[0]?.state, sessions[0]?.error?.code, branch?.state], ["error", "fenced", "error"]);
  assert(branch?.error !== undefined);
  assertEquals((await client.call("branches", {})).branches.map(({ state }) => state), ["error"]);
  assertEquals((await http.metrics()).value("sessions_open"), 1);
  assertEquals((await client.call("close", { db: "app" })).error?.code, "fenced");
  await events.of("session_closed");
  assertEquals((await client.call("branches", {})).branches.map(({ state }) => state), ["active"]);
  await events.cancel();
});

// conformance: 2.files.checkout 2.files.sum
Deno.test("a checkout's path and the fields of its sidecar are the contract's", async () => {
  await using place = new Place();
  using store = await openStore(place.store, { holder: "test" });
  await store.create("app");
  await store.fork({ db: "app", branch: "main" }, "dev");
  const { path } = await store.checkout({ db: "app", branch: "dev" });
  assertEquals(path, join(place.store, "checkouts/app/dev.db"));
  const sidecar = JSON.parse(await Deno.readTextFile(`${path}.sum`));
  for (const field of ["chain_id", "size", "mtime_ns", "change_counter", "stamped_ns", "shadow"]) {
    assert(field in sidecar, `${field} of ${Object.keys(sidecar)}`);
  }
});

// conformance: 3.dirty_by_content 3.dirty 8.stat_clean
Deno.test("a change that size, time and counter hide is dirty to status and clean to checkout", async () => {
  await using place = new Place();
  using store = await openStore(place.store, { holder: "test" });
  const address = { db: "app", branch: "main" };
  await store.create("app");
  const { path } = await store.checkout(address);
  const db = new DatabaseSync(path);
  db.exec("CREATE TABLE t(x); INSERT INTO t VALUES('before the change')");
  db.close();
  await store.checkpoint(address, "one");
  await store.checkout(address);
  const bytes = await Deno.readFile(path);
  const at = new TextDecoder("latin1").decode(bytes).indexOf("before the change");
  bytes.set(new TextEncoder().encode("after_"), at);
  await Deno.writeFile(path, bytes);
  // Whole seconds: what a file system keeps of a time, and no more.
  const time_s = Math.floor(Date.now() / 1000) - 100;
  await Deno.utime(path, time_s, time_s);
  const { sum: _, ...sidecar } = JSON.parse(await Deno.readTextFile(`${path}.sum`));
  const stamped = { ...sidecar, mtime_ns: `${time_s}000000000`, stamped_ns: `${time_s + 2}000000000` };
  await Deno.writeTextFile(`${path}.sum`, JSON.stringify(stamped));
  assertEquals((await store.checkout(address)).source, "kept");
  assertEquals((await store.status(address)).state, "dirty");
  assertEquals((await store.branches()).map(({ state }) => state), ["dirty"]);
});

// conformance: 6.envelope.type
Deno.test("there are exactly the contract's eight types of events", () => {
  assertEquals([...EVENT_TYPES].sort(), [
    "dropped_slow_consumer",
    "evicted",
    "fenced",
    "flush_failed",
    "flushed",
    "reaped",
    "session_closed",
    "session_opened",
  ]);
});

// conformance: 8.multipart_cleanup 9.pre_1_0 9.releases
Deno.test("the documentation names the operator's duties and what may still change", async () => {
  const page = async (name: string) => await Deno.readTextFile(new URL(`../../docs/${name}`, import.meta.url));
  assert(/aborts incomplete multipart uploads/.test(await page("how-to/s3.md")));
  assert((await page("limitations.md")).includes("## Before 1.0"));
});
