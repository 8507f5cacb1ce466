import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { OUTRIGHT } from "../support/stores.ts";
import { join } from "@std/path/join";
import { DatabaseSync } from "node:sqlite";
import { DEFAULT_REAP_EVERY_MS } from "../../daemon/janitor.ts";
import { DEFAULT_GC_GRACE_MS } from "../../lib/store/gc.ts";
import { TaskdError } from "../../lib/errors.ts";
import { MIN_XFS_MB, whyNotMountable, withMount } from "../support/mounts.ts";
import { Place } from "./daemon_process.ts";
import { VirtualDaemon } from "./_virtual.ts";

/** Long past its end at the next check. */
const MOMENT = { ttl_ms: 1 };

/** Writes a table of some size, committed. */
function write(path: string, table: string, kilobytes = 1): void {
  const db = new DatabaseSync(path);
  try {
    db.exec(`CREATE TABLE ${table}(x); INSERT INTO ${table} VALUES(randomblob(${kilobytes * 1024}))`);
  } finally {
    db.close();
  }
}

/** Objects of a store, by path. */
function objects(place: Place): string[] {
  return [...filesBelow(join(place.store, "data"))].sort();
}

function* filesBelow(directory: string): Generator<string> {
  for (const entry of Deno.readDirSync(directory)) {
    const path = join(directory, entry.name);
    if (entry.isDirectory) yield* filesBelow(path);
    else yield path;
  }
}

async function branches({ client }: VirtualDaemon): Promise<string[]> {
  return (await client.call("branches", { db: "app" })).branches.map(({ branch }) => branch);
}

// conformance: 1.janitor 8.reap_every 8.gc_grace
Deno.test("the janitor ticks every minute by default, and its first tick is a minute after the start", async () => {
  assertEquals([DEFAULT_REAP_EVERY_MS, DEFAULT_GC_GRACE_MS], [60_000, 900_000]);
  await using place = new Place();
  await using daemon = await VirtualDaemon.start(place);
  daemon.clock.advance(59_999);
  assertEquals(await daemon.passes(), 0);
  daemon.clock.advance(1);
  while (await daemon.passes() === 0);
  await daemon.tick();
  assertEquals(await daemon.passes(), 2);
});

// conformance: 1.janitor 6.type.reaped 2.metrics.bstore_reap_total
Deno.test("an expired branch is destroyed and reported; leased, protected and touched ones stay", async () => {
  await using place = new Place();
  await using daemon = await VirtualDaemon.start(place);
  const { client } = daemon;
  await client.call("create", { db: "app" });
  for (const new_branch of ["expired", "leased", "guarded", "touched"]) {
    await client.call("fork", { db: "app", new_branch, ...MOMENT });
  }
  await client.call("fork", { db: "app", new_branch: "young", ttl_ms: 3_600_000 });
  await client.call("checkout", { db: "app", branch: "expired" });
  const { txid } = await client.call("open", { db: "app", branch: "leased" });
  await client.call("protect", { db: "app", branch: "guarded", on: true });
  await client.call("touch", { db: "app", branch: "touched", ttl_ms: 3_600_000 });
  const metrics = await daemon.tick();
  assertEquals(await branches(daemon), ["guarded", "leased", "main", "touched", "young"]);
  assertEquals(metrics.value("reap_total"), 1);
  const event = await daemon.events.of("reaped");
  assertEquals([event.db, event.branch, event.detail as object], ["app", "expired", { txid, ttl_seconds: 0.001 }]);
  assert(daemon.log.includes("taskd: janitor: reap: destroyed app@expired"), daemon.log.join("\n"));
  await assertRejects(() => Deno.lstat(join(place.store, "checkouts/app/expired.db")), Deno.errors.NotFound);
  // A lease keeps it only as long as it is held.
  await client.call("close", { db: "app", branch: "leased" });
  await client.call("protect", { db: "app", branch: "guarded", on: false });
  assertEquals((await daemon.tick()).value("reap_total"), 3);
  assertEquals(await branches(daemon), ["main", "touched", "young"]);
});

// conformance: 7.under_destroy 7.under_reap 3.claims
Deno.test("opening a branch that is being destroyed or reaped is refused in the contract's words", async () => {
  await using place = new Place();
  await using daemon = await VirtualDaemon.start(place);
  const { client, store } = daemon;
  await client.call("create", { db: "app" });
  await client.call("fork", { db: "app", new_branch: "dev" });
  const said = { destroy: "branch is being deleted", reap: "branch is being reaped" } as const;
  for (const kind of ["destroy", "reap"] as const) {
    const claim = { kind, since: new Date().toISOString(), nonce: "another-process" };
    await store.context.refs.update("app", "dev", (ref) => ({ ...ref, claim }));
    const error = await assertRejects(() => client.call("open", { db: "app", branch: "dev" }), TaskdError);
    assertEquals(error.message, said[kind]);
    assertEquals(error.code, kind === "destroy" ? "branch_deleting" : "branch_reaping");
    // The states do not reflect it.
    const listed = (await client.call("branches", { db: "app" })).branches.find(({ branch }) => branch === "dev");
    assertEquals(listed?.state, "idle");
    await store.context.refs.update("app", "dev", ({ claim: _claim, ...ref }) => ref);
    await client.call("open", { db: "app", branch: "dev" });
    await client.call("close", { db: "app", branch: "dev" });
  }
});

// conformance: 6.evicted_line 6.type.evicted 4.evict_cache_only 8.ro_cache_budget 2.last_used 2.metrics.bstore_ro_cache_evictions_total
Deno.test("a cache over budget evicts the least recently used: log, event, metric; checkouts stay", async () => {
  await using place = new Place();
  await using daemon = await VirtualDaemon.start(place, { ro_cache_budget_bytes: 300_000 });
  const { client } = daemon;
  await client.call("create", { db: "app" });
  const { path } = await client.call("checkout", { db: "app" });
  const paths: Record<string, string> = {};
  for (const name of ["one", "two", "three"]) {
    write(path, name, 120);
    await client.call("checkpoint", { db: "app", name });
    paths[name] = (await client.call("checkout-at", { db: "app", checkpoint: name })).path;
  }
  // What was used last is the first checkpoint.
  const hour = (hours: number) => new Date(Date.now() - hours * 3_600_000);
  for (const [name, hours] of [["two", 3], ["three", 2], ["one", 1]] as const) {
    const sidecar = `${paths[name]}.last-used`;
    await Deno.writeTextFile(sidecar, "");
    await Deno.utime(sidecar, hour(hours), hour(hours));
  }
  // Where files share blocks, what they were cloned from counts as well: longest unused of all.
  for (const file of filesBelow(join(place.store, "checkouts-ro"))) {
    if (!file.includes("~by-chain") || !file.endsWith(".db")) continue;
    await Deno.writeTextFile(`${file}.last-used`, "");
    await Deno.utime(`${file}.last-used`, hour(4), hour(4));
  }
  const before = [...filesBelow(join(place.store, "checkouts"))].sort();
  const sizes = new Map<string, number>();
  for (const file of filesBelow(join(place.store, "checkouts-ro"))) sizes.set(file, Deno.lstatSync(file).size);
  const metrics = await daemon.tick();
  const evicted = daemon.events.seen.filter(({ type }) => type === "evicted");
  const lines = daemon.log.filter((line) => line.includes("janitor: ro-cache: evicted"));
  assertEquals(
    lines,
    evicted.map(({ db, branch, detail }) => {
      const { checkpoint, bytes } = detail as { checkpoint: string; bytes: number };
      return `taskd: janitor: ro-cache: evicted ${db}@${branch}@${checkpoint} (${bytes} bytes)`;
    }),
  );
  const ofMain = evicted.filter(({ branch }) => branch === "main").map(({ detail }) => detail);
  assertEquals(ofMain[0], { checkpoint: "two", bytes: sizes.get(paths.two!)! });
  assert(ofMain.every((detail) => (detail as { checkpoint: string }).checkpoint !== "one"));
  assertEquals(metrics.value("ro_cache_evictions_total"), evicted.length);
  assert(metrics.value("ro_cache_bytes")! <= 300_000);
  assertEquals([...filesBelow(join(place.store, "checkouts"))].sort(), before);
  const line = lines.find((line) => line.includes("@main@"));
  assertMatch(line!, /^taskd: janitor: ro-cache: evicted app@main@two \(\d+ bytes\)$/);
});

const why = await whyNotMountable("xfs");

// conformance: 6.type.evicted 6.evicted_line 2.files.by_chain 2.files.checkout
Deno.test({
  name: `an evicted chain copy is reported as ~by-chain and its id; its cloned checkout stays${why}`,
  ignore: why !== "",
  fn: () =>
    withMount("xfs", MIN_XFS_MB, async (root) => {
      const place = { store: join(root, "store"), socket: join(root, "d.sock") };
      await using daemon = await VirtualDaemon.start(place, { ro_cache_budget_bytes: 1 });
      const { client } = daemon;
      await client.call("create", { db: "app" });
      await client.call("fork", { db: "app", new_branch: "dev" });
      const { path } = await client.call("checkout", { db: "app", branch: "dev" });
      const folder = join(place.store, "checkouts-ro/app/~by-chain");
      const entries = [...filesBelow(folder)].filter((file) => file.endsWith(".db"));
      assert(entries.length > 0);
      const bytes = await Deno.readFile(path);
      const metrics = await daemon.tick();
      const evicted = daemon.events.seen.filter(({ type }) => type === "evicted");
      assertEquals(evicted.map(({ branch }) => branch), entries.map(() => "~by-chain"));
      for (const { detail } of evicted) {
        const { checkpoint, bytes } = detail as { checkpoint: string; bytes: number };
        assertMatch(checkpoint, /^[0-9a-f]{64}$/);
        const line = `taskd: janitor: ro-cache: evicted app@~by-chain@${checkpoint} (${bytes} bytes)`;
        assert(daemon.log.includes(line), daemon.log.join("\n"));
      }
      assertEquals(metrics.value("ro_cache_evictions_total"), entries.length);
      assertEquals([...filesBelow(folder)], []);
      assertEquals(await Deno.readFile(path), bytes);
    }),
});

// conformance: 4.evicted_enoent 7.evicted_enoent 2.ro_path 2.files_rebuilt
Deno.test("an evicted path is ENOENT, an open handle still reads, a new checkout has the same bytes", async () => {
  await using place = new Place();
  await using daemon = await VirtualDaemon.start(place, { ro_cache_budget_bytes: 1 });
  const { client } = daemon;
  await client.call("create", { db: "app" });
  const { path } = await client.call("checkout", { db: "app" });
  write(path, "t", 40);
  await client.call("checkpoint", { db: "app", name: "one" });
  const first = await client.call("checkout-at", { db: "app", checkpoint: "one" });
  assertEquals(first.path, join(place.store, "checkouts-ro/app/main@one.db"));
  const bytes = await Deno.readFile(first.path);
  using handle = await Deno.open(first.path);
  await daemon.tick();
  await assertRejects(() => Deno.open(first.path), Deno.errors.NotFound);
  assertEquals(new Uint8Array(await new Response(handle.readable).arrayBuffer()), bytes);
  const again = await client.call("checkout-at", { db: "app", checkpoint: "one" });
  assertEquals([again.path, again.txid], [first.path, first.txid]);
  assertEquals(await Deno.readFile(again.path), bytes);
});

// conformance: 8.ro_cache_budget 2.metrics.bstore_ro_cache_bytes 2.metrics.bstore_ro_cache_evictions_total
Deno.test("without a budget nothing is evicted, and the cache is still measured", async () => {
  await using place = new Place();
  await using daemon = await VirtualDaemon.start(place);
  const { client } = daemon;
  await client.call("create", { db: "app" });
  await client.call("checkpoint", { db: "app", name: "one" });
  const { path } = await client.call("checkout-at", { db: "app", checkpoint: "one" });
  const entries = [...filesBelow(join(place.store, "checkouts-ro"))].filter((file) => file.endsWith(".db"));
  const bytes = entries.reduce((sum, file) => sum + Deno.lstatSync(file).size, 0);
  const metrics = await daemon.tick();
  assertEquals([metrics.value("ro_cache_bytes"), metrics.value("ro_cache_evictions_total")], [bytes, 0]);
  assert(entries.includes(path));
});

// conformance: 8.gc_grace 2.metrics.bstore_gc_tombstoned_total 2.metrics.bstore_gc_deleted_total 2.metrics.bstore_gc_backlog 8.storage_reclaim
Deno.test("unreachable objects are tombstoned, count as backlog, and are deleted after their grace", async () => {
  await using place = new Place();
  let garbage: number;
  {
    await using daemon = await VirtualDaemon.start(place);
    const { client } = daemon;
    await client.call("create", { db: "app" });
    await client.call("fork", { db: "app", new_branch: "dev" });
    const before = objects(place).length;
    const { path } = await client.call("checkout", { db: "app", branch: "dev" });
    write(path, "t");
    await client.call("checkpoint", { db: "app", branch: "dev", name: "one" });
    await client.call("destroy", { db: "app", branch: "dev", ...OUTRIGHT });
    // Its own lineage: the base pointer of before, and what it wrote.
    garbage = objects(place).length - before + 1;
    assertEquals((await daemon.tick()).value("gc_tombstoned_total"), garbage);
    const metrics = await daemon.tick();
    assertEquals(
      ["gc_tombstoned_total", "gc_deleted_total", "gc_backlog", "gc_errors_total"].map((name) => metrics.value(name)),
      [garbage, 0, garbage, 0],
    );
    assertEquals(objects(place).length, before - 1 + garbage);
  }
  // A grace of 0: the next tick after the tombstone.
  await using daemon = await VirtualDaemon.start(place, { gc_grace_ms: 0 });
  const before = objects(place).length;
  const metrics = await daemon.tick();
  assertEquals([metrics.value("gc_deleted_total"), metrics.value("gc_backlog")], [garbage, 0]);
  assertEquals(objects(place).length, before - garbage);
  assertEquals((await daemon.client.call("verify", { db: "app" })).problems, []);
});

// conformance: 8.gc_grace
Deno.test("with a grace of 0 an object is deleted on the tick after the one that found it", async () => {
  await using place = new Place();
  await using daemon = await VirtualDaemon.start(place, { gc_grace_ms: 0 });
  const { client } = daemon;
  await client.call("create", { db: "app" });
  await client.call("fork", { db: "app", new_branch: "dev", materialize: true });
  const before = objects(place);
  await client.call("destroy", { db: "app", branch: "dev", ...OUTRIGHT });
  assertEquals(objects(place), before);
  const found = await daemon.tick();
  assertEquals([found.value("gc_deleted_total"), objects(place)], [0, before]);
  assert(found.value("gc_tombstoned_total")! > 0);
  const gone = await daemon.tick();
  assertEquals(gone.value("gc_deleted_total"), gone.value("gc_tombstoned_total"));
  assertEquals(gone.value("gc_backlog"), 0);
});

// conformance: 7.gc_incomplete 2.metrics.bstore_gc_errors_total 2.metrics.bstore_janitor_runs_total
Deno.test("with an unreadable ref a pass deletes nothing and counts as an error; the rest is done", async () => {
  await using place = new Place();
  await using daemon = await VirtualDaemon.start(place, { gc_grace_ms: 0 });
  const { client } = daemon;
  await client.call("create", { db: "app" });
  await client.call("fork", { db: "app", new_branch: "dev", materialize: true });
  await client.call("fork", { db: "app", new_branch: "expired", ...MOMENT });
  await client.call("destroy", { db: "app", branch: "dev", ...OUTRIGHT });
  await daemon.tick();
  const before = objects(place);
  const ref = join(place.store, "refs/app/main.json");
  const bytes = await Deno.readFile(ref);
  await Deno.writeFile(ref, bytes.subarray(0, bytes.length / 2));
  const ok = (await daemon.metrics()).value("janitor_runs_total", { result: "ok" });
  const failed = await daemon.tick();
  assertEquals(objects(place), before);
  assertEquals(
    [failed.value("gc_errors_total"), failed.value("gc_deleted_total")],
    [1, 0],
  );
  assertEquals(failed.value("janitor_runs_total", { result: "error" }), 1);
  assertEquals(failed.value("janitor_runs_total", { result: "ok" }), ok);
  assert(daemon.log.some((line) => /^taskd: janitor: gc: .*app\/?@?main/.test(line)), daemon.log.join("\n"));
  await Deno.writeFile(ref, bytes);
  const healed = await daemon.tick();
  assertEquals([healed.value("gc_errors_total"), healed.value("janitor_runs_total", { result: "ok" })], [1, ok! + 1]);
  assert(objects(place).length < before.length);
});

// conformance: 8.reap_every 2.metrics.bstore_janitor_runs_total
Deno.test("with --reap-every 0 there is no janitor at all, and garbage is collected on demand", async () => {
  await using place = new Place();
  await using daemon = await VirtualDaemon.start(place, { reap_every_ms: 0, gc_grace_ms: 0 });
  const { client } = daemon;
  await client.call("create", { db: "app" });
  await client.call("fork", { db: "app", new_branch: "expired", ...MOMENT });
  await client.call("fork", { db: "app", new_branch: "dev", materialize: true });
  await client.call("destroy", { db: "app", branch: "dev", ...OUTRIGHT });
  for (let day = 0; day < 3; day++) {
    daemon.clock.advance(86_400_000);
    await client.call("status", {});
  }
  const metrics = await daemon.metrics();
  for (const result of ["ok", "error"]) assertEquals(metrics.value("janitor_runs_total", { result }), 0);
  assertEquals(await branches(daemon), ["expired", "main"]);
  const { tombstoned } = await client.call("gc", {});
  assert(tombstoned > 0);
  assertEquals((await client.call("gc", {})).deleted, tombstoned);
});

Deno.test("the janitor folds points that no head needs, and the daemon says what history costs", async () => {
  await using place = new Place();
  await using daemon = await VirtualDaemon.start(place, { snapshot_every: 4 });
  const { client } = daemon;
  await client.call("create", { db: "app" });
  const { checkout } = await client.call("open", { db: "app" });
  for (let i = 0; i < 12; i++) {
    write(checkout, `t${i}`);
    await client.call("flush", { db: "app" });
  }
  const before = await client.call("log", { db: "app" });
  await daemon.tick();
  const more = await daemon.metrics("/more");
  const of = { db: "app", branch: "main" };
  assertEquals(more.value("history_points", of), before.points.length - 1);
  assert(more.value("history_bytes", of)! > 0);
  const folded = more.value("history_folded_points_total", {})!;
  assert(folded > 5 && more.value("history_stored_bytes_total", {})! > 0, `${folded} points`);
  const after = await client.call("log", { db: "app" });
  assertEquals(after.points.map(({ txid, at }) => [txid, at]), before.points.map(({ txid, at }) => [txid, at]));
  const { branch } = await client.call("status", { db: "app", branch: "main" });
  assertEquals(branch?.history_points, before.points.length - 1);
  for (const { txid } of before.points.slice(-4, -1)) {
    const { path } = await client.call("checkout-at", { db: "app", checkpoint: `txid:${txid}` });
    const db = new DatabaseSync(path, { readOnly: true });
    const tables = db.prepare("SELECT count(*) AS n FROM sqlite_schema").get();
    db.close();
    assertEquals(tables?.n, before.points.length - 1 - before.points.findIndex((point) => point.txid === txid));
  }
  const { history } = await client.call("gc", { dry_run: true, keep: "none" });
  assertEquals(history, []);
});
