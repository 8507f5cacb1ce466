/**
 * The engine on a bucket, from creating a database to destroying it: the same promises
 * for every server.
 */

import { foldFlushes } from "../support/folding.ts";
import { OUTRIGHT } from "../support/stores.ts";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { BackendError } from "../../lib/backend/backend.ts";
import { LocalBackend } from "../../lib/backend/local.ts";
import type { S3Backend } from "../../lib/backend/s3.ts";
import { createHash } from "node:crypto";
import { mergeBranches, mergeUnder, revertMerge } from "../../lib/capture/merge.ts";
import { CaptureSession } from "../../lib/capture/session.ts";
import { TaskdError } from "../../lib/errors.ts";
import { copyStore } from "../../lib/store/copy_store.ts";
import { collectGarbage } from "../../lib/store/gc.ts";
import { openStore } from "../../lib/store/open.ts";
import { parseAddress } from "../../lib/store/names.ts";
import type { Store } from "../../lib/store/store.ts";
import { emptyS3, type S3Place } from "../support/s3_server.ts";
import { dumpDigest, sqlite3, sqlite3Write } from "../support/writers/oracle.ts";

const at = parseAddress;
const MIB = 1024 * 1024;

/** A bucket prefix of its own, and stores opened on it from hosts of their own. */
interface Bucket extends AsyncDisposable {
  /** What is on it. */
  backend: S3Backend;
  /** Opens the store with a workspace that no other store here has. */
  host(): Promise<Store>;
  /** A directory for the test's own files. */
  scratch: string;
  /** Keys that begin with `prefix`. */
  keys(prefix: string): Promise<string[]>;
}

async function emptyBucket(place: S3Place): Promise<Bucket> {
  const { backend, prefix, [Symbol.asyncDispose]: empty } = await emptyS3(place);
  const scratch = await Deno.makeTempDir({ prefix: "s3-engine-" });
  const { bucket, ...s3 } = place;
  const stores: Store[] = [];
  return {
    backend,
    scratch,
    host: async () => {
      const workspace = `${scratch}/host-${stores.length + 1}`;
      const store = await openStore(`s3://${bucket}/${prefix}`, { workspace, s3 });
      stores.push(store);
      return store;
    },
    keys: async (prefix) => {
      const found: string[] = [];
      for await (const { key } of backend.list(prefix)) found.push(key);
      return found;
    },
    [Symbol.asyncDispose]: async () => {
      for (const store of stores) store.close();
      await empty();
      await Deno.remove(scratch, { recursive: true });
    },
  };
}

async function seed(path: string): Promise<string> {
  await sqlite3Write(
    path,
    "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, body BLOB);" +
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)" +
      "INSERT INTO item SELECT i, 'item ' || i, randomblob(200) FROM n;",
  );
  return await dumpDigest(path);
}

async function insert(path: string, name: string): Promise<string> {
  await sqlite3Write(path, `INSERT INTO item (name) VALUES ('${name}')`);
  return await dumpDigest(path);
}

/** Registers the promises for the server that `place` names. */
export function engineOnS3(name: string, place: () => S3Place): void {
  const promise = (text: string, body: (bucket: Bucket) => Promise<void>) =>
    Deno.test(`${name}: ${text}`, async () => {
      await using bucket = await emptyBucket(place());
      await body(bucket);
    });

  promise("a database can be created, edited, forked, rolled back, promoted and restored elsewhere", async (bucket) => {
    const store = await bucket.host();
    const original = await seed(`${bucket.scratch}/seed.db`);
    await store.create("shop", { from: `${bucket.scratch}/seed.db` });
    const { path } = await store.checkout(at("shop"));
    assertEquals(await dumpDigest(path), original);
    await store.checkpoint(at("shop"), "v1");
    const edited = await insert(path, "tea");
    await store.checkpoint(at("shop"), "v2");

    assertEquals((await store.fork(at("shop@main@v1"), "old")).mode, "shared");
    assertEquals((await store.fork(at("shop"), "full", { materialize: true })).mode, "materialized");
    const elsewhere = await bucket.host();
    for (const [address, digest] of [["shop", edited], ["shop@old", original], ["shop@full", edited]] as const) {
      assertEquals(await dumpDigest((await elsewhere.checkout(at(address))).path), digest, address);
      assertEquals((await elsewhere.verify(at(address))).ok, true);
    }
    const { tables } = await elsewhere.diff(at("shop@old"), at("shop"));
    assertEquals(tables.map(({ table, change }) => [table, change]), [["item", "changed"]]);

    const path_of_old = (await store.checkout(at("shop@old"))).path;
    const promoted = await insert(path_of_old, "coffee");
    await store.checkpoint(at("shop@old"), "ready");
    await store.promote(at("shop@old"), at("shop"));
    assertEquals(await dumpDigest((await elsewhere.checkout(at("shop"))).path), promoted);
    await store.rollback(at("shop@main@v1"));
    assertEquals(await dumpDigest((await elsewhere.checkout(at("shop"), { force: true })).path), original);

    await store.compact(at("shop@old"));
    await store.export(at("shop@old"), `${bucket.scratch}/out.db`);
    assertEquals(await dumpDigest(`${bucket.scratch}/out.db`), promoted);
    await store.destroy(at("shop@old"));
    assertEquals((await elsewhere.branches("shop")).some(({ branch }) => branch === "old"), false);
    await assertRejects(() => elsewhere.checkout(at("shop@old")), TaskdError, "no branch");
  });

  promise("folded points read as they were written", async (bucket) => {
    await foldFlushes(await bucket.host(), bucket.scratch);
  });

  promise("a shared fork writes a base pointer and a ref, and nothing else", async (bucket) => {
    const store = await bucket.host();
    await seed(`${bucket.scratch}/seed.db`);
    await store.create("shop", { from: `${bucket.scratch}/seed.db` });
    await store.fork(at("shop"), "one");
    const before = await bucket.keys("");
    await store.fork(at("shop"), "two");
    const added = (await bucket.keys("")).filter((key) => !before.includes(key));
    assertEquals(added.length, 2);
    assert(added.some((key) => /^data\/[0-9a-f]{32}\/base\.json$/.test(key)));
    assert(added.includes("refs/shop/two.json"));
  });

  promise("what a session flushed is there for another host after the first one is lost", async (bucket) => {
    const store = await bucket.host();
    await seed(`${bucket.scratch}/seed.db`);
    await store.create("shop", { from: `${bucket.scratch}/seed.db` });
    const session = await CaptureSession.open(store, at("shop"), { flush_every_ms: 0, snapshot_every: 3 });
    const kinds: string[] = [];
    let written = "";
    try {
      for (let round = 1; round <= 5; round++) {
        written = await insert(session.checkout, `round ${round}`);
        kinds.push((await session.flush()).kind);
      }
      await session.checkpoint("five");
      const elsewhere = await bucket.host();
      await assertRejects(() => elsewhere.checkpoint(at("shop"), "no"), TaskdError, "holds it until");
      const { path } = await elsewhere.checkout(at("shop@main@five"));
      assertEquals(await dumpDigest(path), written);
    } finally {
      await session.close();
    }
    assertEquals(new Set(kinds), new Set(["segment", "snapshot"]));
    const third = await bucket.host();
    assertEquals(await dumpDigest((await third.checkout(at("shop"))).path), written);
  });

  promise("a branch is merged into a base that moved and is written to, and taken back elsewhere", async (bucket) => {
    const store = await bucket.host();
    await seed(`${bucket.scratch}/seed.db`);
    await store.create("shop", { from: `${bucket.scratch}/seed.db` });
    const [main, fork] = [at("shop"), at("shop@try")];
    await store.fork(main, "try");
    const agent = await bucket.host();
    await sqlite3Write((await agent.checkout(fork)).path, "UPDATE item SET name = 'mended' WHERE id <= 500");
    await agent.checkpoint(fork, "done");
    const session = await CaptureSession.open(store, main, { flush_every_ms: 0, snapshot_every: 16 });
    const names = "SELECT count(*), sum(name = 'mended'), sum(name LIKE 'sold %') FROM item";
    try {
      await sqlite3Write(session.checkout, "UPDATE item SET name = 'sold ' || id WHERE id > 1900");
      const { merged, tables } = await mergeUnder(store, session, fork);
      assertEquals([merged, tables.map(({ rows_changed }) => rows_changed)], [true, [500]]);
      await sqlite3Write(session.checkout, "INSERT INTO item(name) VALUES ('sold later')");
      assertEquals(await sqlite3(session.checkout, [names]), "2001|500|101\n");
    } finally {
      await session.close();
    }
    const elsewhere = await bucket.host();
    assertEquals(await sqlite3((await elsewhere.checkout(main)).path, [names]), "2001|500|101\n");
    const again = await mergeBranches(elsewhere, fork, main);
    assertEquals([again.merged, again.merge], [true, undefined]);
    await revertMerge(elsewhere, main);
    assertEquals(await sqlite3((await store.checkout(main)).path, [names]), "2001|0|101\n");
    assertEquals((await agent.merges(main)).length, 2);
  });

  promise("of two hosts that make one branch exactly one does, and both can go on", async (bucket) => {
    const hosts = await Promise.all([bucket.host(), bucket.host(), bucket.host()]);
    await seed(`${bucket.scratch}/seed.db`);
    await hosts[0]!.create("shop", { from: `${bucket.scratch}/seed.db` });
    const outcomes = await Promise.allSettled(hosts.map((host) => host.fork(at("shop"), "mine")));
    const codes = outcomes.map((outcome) => outcome.status === "fulfilled" ? "made" : outcome.reason.code);
    assertEquals(codes.sort(), ["already_exists", "already_exists", "made"]);
    for (const [i, host] of hosts.entries()) await host.fork(at("shop@mine"), `after-${i}`);
    assertEquals((await hosts[0]!.branches("shop")).length, 5);
  });

  // conformance: 2.fork_paths
  promise("a database of several parts survives the way there and back", async (bucket) => {
    const store = await bucket.host();
    // Random bytes, which no codec makes smaller, beyond two parts of an upload.
    await sqlite3Write(
      `${bucket.scratch}/large.db`,
      "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, body BLOB);" +
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)" +
        "INSERT INTO item (body) SELECT randomblob(1000000) FROM n;",
    );
    await store.create("large", { from: `${bucket.scratch}/large.db` });
    const elsewhere = await bucket.host();
    const { path } = await elsewhere.checkout(at("large"));
    assertEquals(await sqlite3(path, ["PRAGMA integrity_check"]), "ok\n");
    assertEquals(
      await sqlite3(path, ["SELECT sum(length(body)) FROM item"]),
      await sqlite3(`${bucket.scratch}/large.db`, ["SELECT sum(length(body)) FROM item"]),
    );
    assertEquals(await dumpDigest(path), await dumpDigest(`${bucket.scratch}/large.db`));
    assertEquals((await store.fork(at("large"), "copy", { materialize: true })).path, "fast");
    assertEquals((await elsewhere.verify(at("large@copy"))).ok, true);
  });

  promise("a store moves from a directory to the bucket and back, in several runs, unchanged", async (bucket) => {
    const directory = `${bucket.scratch}/local`;
    using local = await openStore(directory);
    const digest = await seed(`${bucket.scratch}/seed.db`);
    await local.create("shop", { from: `${bucket.scratch}/seed.db` });
    await local.fork(at("shop"), "try");
    const edited = await insert((await local.checkout(at("shop@try"))).path, "tea");
    await local.checkpoint(at("shop@try"), "v1");
    const source = await LocalBackend.open(directory);

    const stopping = new AbortController();
    const cut_off = copyStore(source, bucket.backend, { signal: stopping.signal, onProgress: () => stopping.abort() });
    assertEquals((await assertRejects(() => cut_off, TaskdError)).code, "interrupted");
    await assertRejects(() => bucket.host(), TaskdError, "has not finished");
    const there = await copyStore(source, bucket.backend);
    const remote = await bucket.host();
    assertEquals(await dumpDigest((await remote.checkout(at("shop"))).path), digest);
    assertEquals(await dumpDigest((await remote.checkout(at("shop@try"))).path), edited);
    assert((await remote.verify(at("shop@try"))).ok);

    const back = await LocalBackend.open(`${bucket.scratch}/back`);
    assertEquals((await copyStore(bucket.backend, back)).store_id, there.store_id);
    using home = await openStore(`${bucket.scratch}/back`);
    assertEquals(await dumpDigest((await home.checkout(at("shop@try"))).path), edited);
  });

  promise("garbage collection deletes what nothing reaches, and only that", async (bucket) => {
    const store = await bucket.host();
    const digest = await seed(`${bucket.scratch}/seed.db`);
    await store.create("shop", { from: `${bucket.scratch}/seed.db` });
    await store.fork(at("shop"), "kept");
    await store.fork(at("shop"), "full", { materialize: true });
    await store.destroy(at("shop@full"), OUTRIGHT);
    const before = await bucket.keys("data/");
    const first = await collectGarbage(store.context, { grace_ms: 0 });
    assertEquals([first.tombstoned, first.deleted], [1, 0]);
    assertEquals((await collectGarbage(store.context, { grace_ms: 0 })).deleted, 1);
    assertEquals((await bucket.keys("data/")).length, before.length - 1);
    const elsewhere = await bucket.host();
    assertEquals(await dumpDigest((await elsewhere.checkout(at("shop@kept"))).path), digest);
  });

  // conformance: 8.multipart_copy 2.fork_paths
  Deno.test(`${name}: an object above the limit of one copy request is copied in parts, whole`, async () => {
    await using bucket = await emptyS3(place(), { single_copy_bytes: 5 * MIB, part_bytes: 5 * MIB });
    const { backend } = bucket;
    const bytes = new Uint8Array(12 * MIB + 5);
    for (let at = 0; at < bytes.length; at += 65536) crypto.getRandomValues(bytes.subarray(at, at + 65536));
    await backend.put("from", bytes);
    await backend.copy("from", "to");
    assertEquals(await sha256(backend, "to"), await sha256(backend, "from"));
    assertEquals((await backend.head("to")).size, bytes.length);
    await assertRejects(() => backend.copy("none", "to"), BackendError, "no object none");
  });
}

async function sha256(backend: S3Backend, key: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of (await backend.getStream(key)).chunks) hash.update(chunk);
  return hash.digest("hex");
}
