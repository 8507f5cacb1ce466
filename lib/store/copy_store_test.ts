import { assert, assertEquals, assertRejects } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import type { Backend } from "../backend/backend.ts";
import { OUTRIGHT } from "../../tests/support/stores.ts";
import { FaultyBackend } from "../../tests/support/faulty_backend.ts";
import { LocalBackend } from "../backend/local.ts";
import { MemoryBackend } from "../../tests/support/memory_backend.ts";
import { MIN_XFS_MB, mount } from "../../tests/support/mounts.ts";
import { TaskdError } from "../errors.ts";
import { copyStore, type CopyStoreResult } from "./copy_store.ts";
import { COPYING_KEY, DATA_PREFIX, MANIFEST_KEY, refKey } from "./keys.ts";
import { Lease } from "./lease.ts";
import { parseAddress } from "./names.ts";
import { decodeRef, encodeRef } from "./ref.ts";
import { Store } from "./store.ts";

const at = parseAddress;

interface World extends AsyncDisposable {
  directory: string;
  /** A backend with a store of two databases, forks, segments and checkpoints. */
  source: MemoryBackend;
  /** Opens a store on a backend, with a workspace of its own. */
  open(backend: Backend): Promise<Store>;
}

async function world(): Promise<World> {
  const directory = await Deno.makeTempDir({ prefix: "copy-" });
  const stores: Store[] = [];
  const open = async (backend: Backend) => {
    const store = await Store.open({ backend, workspace: `${directory}/workspace-${stores.length}` });
    stores.push(store);
    return store;
  };
  const source = new MemoryBackend();
  const store = await open(source);
  for (const db of ["shop", "other"]) {
    await store.create(db);
    edit((await store.checkout(at(db))).path, `CREATE TABLE item (name TEXT); INSERT INTO item VALUES ('${db}')`);
    await store.checkpoint(at(db), "v1");
  }
  await store.fork(at("shop"), "try", { ttl_ms: 3_600_000 });
  edit((await store.checkout(at("shop@try"))).path, "INSERT INTO item VALUES ('tea')");
  await store.checkpoint(at("shop@try"), "v2", { note: "with tea" });
  await store.fork(at("shop@try"), "full", { materialize: true });
  await store.protect(at("other"), true);
  return {
    directory,
    source,
    open,
    [Symbol.asyncDispose]: async () => {
      for (const store of stores) store.close();
      await Deno.remove(directory, { recursive: true });
    },
  };
}

function edit(path: string, sql: string): void {
  const db = new DatabaseSync(path);
  db.exec(sql);
  db.close();
}

async function keys(backend: Backend, prefix = ""): Promise<string[]> {
  const found: string[] = [];
  for await (const { key } of backend.list(prefix)) found.push(key);
  return found.sort();
}

/** Names in every branch, by address. */
async function contents(store: Store): Promise<Record<string, unknown[]>> {
  const found: Record<string, unknown[]> = {};
  for (const { db, branch } of await store.branches()) {
    const address = { db, branch };
    assert((await store.verify(address)).ok);
    const { path } = await store.checkout(address);
    const database = new DatabaseSync(path, { readOnly: true });
    found[`${db}@${branch}`] = database.prepare("SELECT name FROM item ORDER BY name").all().map(({ name }) => name);
    database.close();
  }
  return found;
}

const EXPECTED = {
  "other@main": ["other"],
  "shop@full": ["shop", "tea"],
  "shop@main": ["shop"],
  "shop@try": ["shop", "tea"],
};

Deno.test("copyStore() copies branches, checkpoints, notes, lifetimes and protection", async () => {
  await using here = await world();
  const target = await LocalBackend.open(`${here.directory}/target`);
  const { store_id, ...counts } = await copyStore(here.source, target);
  const objects = await keys(here.source, DATA_PREFIX);
  assertEquals([counts.branches, counts.objects, counts.skipped], [4, objects.length, 0]);
  assertEquals(JSON.parse(new TextDecoder().decode((await target.get(MANIFEST_KEY)).bytes)).store_id, store_id);
  assertEquals(await keys(target, "copying"), []);
  const [original, copy] = [await here.open(here.source), await here.open(target)];
  for (const address of ["shop", "shop@try", "shop@full", "other"]) {
    const [{ checkout: _, ...a }, b] = await Promise.all([original.status(at(address)), copy.status(at(address))]);
    assertEquals<Record<string, unknown>>({ ...b }, { ...a });
  }
  assertEquals(await contents(copy), EXPECTED);
});

Deno.test("a copy is a store of its own: what is done in it stays there", async () => {
  await using here = await world();
  const target = new MemoryBackend();
  await copyStore(here.source, target);
  const copy = await here.open(target);
  const before = await keys(here.source);
  edit((await copy.checkout(at("shop"))).path, "INSERT INTO item VALUES ('coffee')");
  await copy.checkpoint(at("shop"), "v2");
  await copy.destroy(at("shop@try"), OUTRIGHT);
  assertEquals(await keys(here.source), before);
  assertEquals((await contents(await here.open(here.source)))["shop@main"], ["shop"]);
});

Deno.test("a copied branch has no lease and no claim", async () => {
  await using here = await world();
  const store = await here.open(here.source);
  const lease = await Lease.acquire(store.context, at("shop"));
  await store.context.refs.update("other", "main", (ref) => ({
    ...ref,
    claim: { kind: "destroy", since: new Date().toISOString(), nonce: "00" },
  }));
  const target = new MemoryBackend();
  await copyStore(here.source, target);
  for (const [db, branch] of [["shop", "main"], ["other", "main"]] as const) {
    const ref = decodeRef((await target.get(refKey(db, branch))).bytes, db);
    assertEquals([ref.lease, ref.claim, ref.pending], [undefined, undefined, undefined]);
  }
  const copy = await here.open(target);
  await (await Lease.acquire(copy.context, at("shop"))).release();
  await lease.release();
});

Deno.test("an unfinished copy cannot be opened, and a second run completes it", async () => {
  await using here = await world();
  const whole = new FaultyBackend(new MemoryBackend(), () => undefined);
  await copyStore(here.source, whole, { concurrency: 1 });
  const writes = whole.calls.filter(({ method }) => ["create", "put", "delete"].includes(method));
  assertEquals(writes[0]!.key, COPYING_KEY);
  assertEquals(writes.slice(-2).map(({ key }) => key), [MANIFEST_KEY, COPYING_KEY]);
  const first_ref = writes.findIndex(({ key }) => key.startsWith("refs/"));
  assert(writes.slice(first_ref, -2).every(({ key }) => key.startsWith("refs/")), "an object came after a ref");
  for (const { count, key, method } of writes) {
    for (const kind of ["before", "after"] as const) {
      const target = new MemoryBackend();
      const failing = new FaultyBackend(target, (call) => {
        return call.count === count ? { kind, code: kind === "after" ? "ambiguous" : "unavailable" } : undefined;
      });
      await copyStore(here.source, failing, { concurrency: 1 }).catch(() => {});
      const there = await keys(target);
      if (there.includes(MANIFEST_KEY)) {
        assertEquals(there.filter((key) => key !== COPYING_KEY), await keys(here.source), `${kind} ${method} ${key}`);
      } else if (there.includes(COPYING_KEY)) {
        await assertRejects(() => here.open(target), TaskdError, "has not finished");
      } else {
        assertEquals(there, []);
      }
      await copyStore(here.source, target, { concurrency: 1 });
      assertEquals(await keys(target), await keys(here.source), `${kind} ${method} ${key}`);
    }
  }
});

Deno.test("a second run compares what is there and copies only what is missing or wrong", async () => {
  await using here = await world();
  const target = new MemoryBackend();
  let started = 0;
  const stopping = new AbortController();
  const interrupted = copyStore(here.source, target, {
    concurrency: 1,
    signal: stopping.signal,
    onProgress: () => ++started === 6 && stopping.abort(),
  });
  assertEquals((await assertRejects(() => interrupted, TaskdError)).code, "interrupted");
  const there = await keys(target, DATA_PREFIX);
  assert(there.length > 1);
  // One of them is damaged meanwhile, at its very size.
  const bytes = (await target.get(there[0]!)).bytes;
  bytes[bytes.length - 1]! ^= 1;
  await target.put(there[0]!, bytes);
  const result = await copyStore(here.source, target);
  assertEquals(result.skipped, there.length - 1);
  assertEquals(await contents(await here.open(target)), EXPECTED);
});

Deno.test("progress ends at its total", async () => {
  await using here = await world();
  let last: [number, number | undefined] = [0, undefined];
  await copyStore(here.source, new MemoryBackend(), { onProgress: (done, total) => last = [done, total] });
  assert(last[0] > 0);
  assertEquals(last[0], last[1]);
});

Deno.test("copyStore() refuses a target with another store, other data or another copy", async () => {
  await using here = await world();
  const [another, data, begun] = [new MemoryBackend(), new MemoryBackend(), new MemoryBackend()];
  await (await here.open(another)).create("mine");
  await data.put("data/x", new Uint8Array(1));
  await begun.put(COPYING_KEY, new TextEncoder().encode('{"store_id":"another"}'));
  for (const target of [another, data, begun]) {
    const before = await keys(target);
    const error = await assertRejects(() => copyStore(here.source, target), TaskdError);
    assertEquals(error.code, "not_a_store");
    assertEquals(await keys(target), before);
  }
  const nothing = await assertRejects(() => copyStore(new MemoryBackend(), new MemoryBackend()), TaskdError);
  assertEquals(nothing.code, "not_a_store");
});

Deno.test("a complete copy is never changed: the same again is fine, a difference is a conflict", async () => {
  await using here = await world();
  const target = new MemoryBackend();
  const first = await copyStore(here.source, target);
  const again: CopyStoreResult = await copyStore(here.source, target);
  assertEquals(again, { ...first, skipped: first.objects, copied_bytes: 0 });
  const store = await here.open(here.source);
  edit((await store.checkout(at("shop"))).path, "INSERT INTO item VALUES ('later')");
  await store.checkpoint(at("shop"), "later");
  const before = await keys(target);
  assertEquals((await assertRejects(() => copyStore(here.source, target), TaskdError)).code, "conflict");
  assertEquals(await keys(target), before);
});

Deno.test("a branch that was destroyed between two runs is not in the copy", async () => {
  await using here = await world();
  const target = new MemoryBackend();
  const failing = new FaultyBackend(target, ({ key, method }) => {
    return key === MANIFEST_KEY && method === "create" ? { kind: "before", code: "unavailable" } : undefined;
  });
  await assertRejects(() => copyStore(here.source, failing), TaskdError);
  await (await here.open(here.source)).destroy(at("shop@full"), OUTRIGHT);
  await copyStore(here.source, target);
  const { "shop@full": _, ...rest } = EXPECTED;
  assertEquals(await contents(await here.open(target)), rest);
});

Deno.test("a source that lost an object is not copied as if it were whole", async () => {
  await using here = await world();
  for (const key of await keys(here.source, DATA_PREFIX)) if (key.includes("/snapshot-")) await here.source.delete(key);
  const target = new MemoryBackend();
  const error = await assertRejects(() => copyStore(here.source, target), TaskdError);
  assertEquals(error.code, "chain_gap");
  assertEquals((await keys(target)).includes(MANIFEST_KEY), false);
});

Deno.test("a target that gives back other bytes than were written is found out", async () => {
  await using here = await world();
  const inner = new MemoryBackend();
  const target = new FaultyBackend(inner, ({ method, key }) => {
    return method === "getStream" && key.includes("/snapshot-") ? { kind: "truncate", after_bytes: 10 } : undefined;
  });
  assertEquals((await assertRejects(() => copyStore(here.source, target), TaskdError)).code, "corrupt");
});

Deno.test("plain-image snapshots are copied as they are, and read where blocks cannot be shared", async () => {
  await using here = await world();
  await using xfs = await mount("xfs", MIN_XFS_MB);
  const source = await LocalBackend.open(`${xfs.directory}/store`);
  const store = await Store.open({ backend: source, workspace: `${xfs.directory}/store` });
  await store.create("shop");
  edit((await store.checkout(at("shop"))).path, "CREATE TABLE item (name TEXT); INSERT INTO item VALUES ('plain')");
  await store.checkpoint(at("shop"), "v1");
  await store.compact(at("shop"));
  assert((await keys(source, DATA_PREFIX)).some((key) => key.endsWith(".raw")));
  const target = new MemoryBackend();
  await copyStore(source, target);
  const copy = await here.open(target);
  assertEquals(await contents(copy), { "shop@main": ["plain"] });
  await copy.fork(at("shop"), "full", { materialize: true });
  assertEquals((await contents(copy))["shop@full"], ["plain"]);
  store.close();
});

Deno.test("of a complete copy no branch is changed or removed, and no object", async (t) => {
  const changes: Record<string, (target: MemoryBackend, here: World) => Promise<void>> = {
    "a branch that has moved since": async (target) => {
      const key = refKey("shop", "main");
      const ref = decodeRef((await target.get(key)).bytes, key);
      await target.put(key, encodeRef({ ...ref, protected: true }));
    },
    "a branch that the source has not": async (target, here) => {
      await (await here.open(target)).fork(at("shop@try"), "mine", { materialize: true });
      for (const key of await keys(target, DATA_PREFIX)) {
        if (!(await keys(here.source, DATA_PREFIX)).includes(key)) await target.delete(key);
      }
    },
    "an object with other bytes": async (target) => {
      const key = (await keys(target, DATA_PREFIX)).find((key) => key.includes("/snapshot-"))!;
      await target.put(key, (await target.get(key)).bytes.map((byte) => byte ^ 1));
    },
  };
  for (const [name, change] of Object.entries(changes)) {
    await t.step(name, async () => {
      await using here = await world();
      const target = new MemoryBackend();
      await copyStore(here.source, target);
      await change(target, here);
      const content = async () => Promise.all((await keys(target)).map(async (key) => [key, await target.get(key)]));
      const before = await content();
      assertEquals((await assertRejects(() => copyStore(here.source, target), TaskdError)).code, "conflict");
      assertEquals(await content(), before);
    });
  }
});

Deno.test("a branch that is not read back as it was written is found out, and the place is no store", async () => {
  await using here = await world();
  const inner = new MemoryBackend();
  const target = new FaultyBackend(inner, ({ method, key }) => {
    return method === "get" && key.startsWith("refs/") ? { kind: "truncate", after_bytes: 10 } : undefined;
  });
  assertEquals((await assertRejects(() => copyStore(here.source, target), TaskdError)).code, "corrupt");
  assertEquals((await keys(inner)).includes(MANIFEST_KEY), false);
});

Deno.test("a store that appears in the target during a copy is left alone", async () => {
  await using here = await world();
  const inner = new MemoryBackend();
  const other = new MemoryBackend();
  await here.open(other);
  const { bytes } = await other.get(MANIFEST_KEY);
  let made: Promise<unknown> | undefined;
  const target = new FaultyBackend(inner, ({ method, key }) => {
    if (method === "create" && key === MANIFEST_KEY) made = inner.create(MANIFEST_KEY, bytes);
    return undefined;
  });
  assertEquals((await assertRejects(() => copyStore(here.source, target), TaskdError)).code, "not_a_store");
  await made;
  assertEquals((await inner.get(MANIFEST_KEY)).bytes, bytes);
});

Deno.test("a copy of damage is refused, unless it is asked for, and then says what is damaged", async () => {
  await using here = await world();
  const { source } = here;
  const store = await here.open(source);
  // A checkpoint alone needs it.
  await store.compact(at("shop"));
  const { ref } = await store.context.refs.read("shop", "main");
  const [first] = (await store.context.chains.resolve(ref.checkpoints[0]!.lineage!, ref.checkpoints[0]!.txid)).objects;
  const { bytes } = await source.get(first!.key);
  await source.put(first!.key, bytes.with(60, bytes[60]! ^ 4));
  await source.put(refKey("other", "torn"), new TextEncoder().encode("{"));
  const target = new MemoryBackend();
  assertEquals((await assertRejects(() => copyStore(source, target), TaskdError)).code, "corrupt");
  await source.delete(refKey("other", "torn"));
  const error = await assertRejects(() => copyStore(source, target), TaskdError);
  assertEquals(error.code, "corrupt");
  assert(error.message.includes(first!.key) && error.hint?.includes("taskd repair"), error.message);
  await assertRejects(() => here.open(target), TaskdError, "has not finished");

  await source.put(refKey("other", "torn"), new TextEncoder().encode("{"));
  const { findings, branches } = await copyStore(source, target, { allow_damaged: true });
  assertEquals(findings.map(({ where }) => where), [refKey("other", "torn"), first!.key]);
  assertEquals(branches, 4);
  const copy = await here.open(target);
  assertEquals((await copy.verify(at("other"))).ok, true);
  assertEquals((await copy.verifyAll()).findings.length, 2);

  // What was repaired meanwhile replaces the damaged bytes of a copy that was not finished.
  await source.delete(refKey("other", "torn"));
  const again = new MemoryBackend();
  await assertRejects(() => copyStore(source, again), TaskdError);
  await source.put(first!.key, bytes);
  assertEquals((await copyStore(source, again)).findings, []);
  assertEquals((await (await here.open(again)).verifyAll()).ok, true);
});
