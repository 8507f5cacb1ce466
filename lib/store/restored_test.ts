import { assertEquals } from "@std/assert";
import { MIN_XFS_MB, whyNotMountable, withMount } from "../../tests/support/mounts.ts";
import { at, rows, sql, stored, type TestStore, withApp } from "../../tests/support/stores.ts";
import type { Backend } from "../backend/backend.ts";
import { CaptureSession } from "../capture/session.ts";
import { DATA_PREFIX, REFS_PREFIX } from "./keys.ts";
import { Store } from "./store.ts";

const NO_XFS = await whyNotMountable("xfs");

/** What a backup holds: refs and objects by their keys. */
async function backupOf(backend: Backend, prefixes = [REFS_PREFIX, DATA_PREFIX]): Promise<Map<string, Uint8Array>> {
  const kept = new Map<string, Uint8Array>();
  for (const prefix of prefixes) {
    for await (const { key } of backend.list(prefix)) kept.set(key, (await backend.get(key)).bytes);
  }
  return kept;
}

/** Puts a backup in the place of what is there; `over` leaves the objects that it does not have. */
async function restore(backend: Backend, kept: Map<string, Uint8Array>, options: { over?: boolean } = {}) {
  for (const prefix of options.over ? [REFS_PREFIX] : [REFS_PREFIX, DATA_PREFIX]) {
    for (const { key } of await Array.fromAsync(backend.list(prefix))) await backend.delete(key);
  }
  for (const [key, bytes] of kept) await backend.put(key, bytes);
}

/** Another program on the same objects. */
function reopen({ store, clock, directory }: TestStore, workspace = directory): Promise<Store> {
  return Store.open({ backend: store.context.backend, workspace, clock });
}

/** A future of the branch: its second checkpoint, a fork of it, and checkouts of both. */
async function live(store: Store, word: string): Promise<string> {
  const { path } = await store.checkout(at("app"), { force: true });
  sql(path, `INSERT INTO t VALUES('${word}')`);
  await store.checkpoint(at("app"), "c2");
  await store.fork(at("app"), "f");
  const seen = [(await store.checkout(at("app@main@c2"))).path, (await store.checkout(at("app@f"))).path].map((file) =>
    rows(file)
  );
  const session = await open(store, "app@f");
  sql(session.checkout, "INSERT INTO t VALUES('fork')");
  await session.close();
  assertEquals(seen, [`1,${word}`, `1,${word}`]);
  assertEquals([await stored(store, "app"), await stored(store, "app@f")], [`1,${word}`, `1,${word},fork`]);
  return (await store.context.chains.resolve(...await headOf(store))).id;
}

async function headOf(store: Store): Promise<[string, number]> {
  const { ref } = await store.context.refs.read("app", "main");
  return [ref.lineage, ref.txid];
}

function open(store: Store, address: string): Promise<CaptureSession> {
  return CaptureSession.open(store, at(address), { flush_every_ms: 0, snapshot_every: 16 });
}

/** Both futures have the same keys, and the caches of the lost one are still there. */
async function putBack(test: TestStore): Promise<void> {
  const { store, directory } = test;
  const kept = await backupOf(store.context.backend);
  const lost = await live(store, "lost");
  await restore(store.context.backend, kept);
  using again = await reopen(test);
  assertEquals(await live(again, "new"), lost);

  // The same where the new future was lived elsewhere, and only the lost one's files are here.
  await restore(store.context.backend, kept);
  using elsewhere = await reopen(test, `${directory}/elsewhere`);
  assertEquals(await live(elsewhere, "third"), lost);
  using here = await reopen(test);
  assertEquals(rows((await here.checkout(at("app"))).path), "1,third");
  const session = await open(here, "app");
  sql(session.checkout, "INSERT INTO t VALUES('on')");
  await session.close();
  assertEquals(await stored(here, "app"), "1,third,on");
  assertEquals((await here.verify(at("app"))).problems, []);
}

Deno.test("a store restored to an earlier state takes nothing of its lost future for its own", () =>
  withApp([1], putBack));

Deno.test({
  name: `and neither where checkouts share blocks with cached copies of whole chains${NO_XFS}`,
  ignore: NO_XFS !== "",
  fn: () => withMount("xfs", MIN_XFS_MB, (parent) => withApp([1], putBack, { parent })),
});

Deno.test("edits in a checkout of a lost future are not taken for edits of this one", () =>
  withApp([1], async (test) => {
    const { store, directory } = test;
    const kept = await backupOf(store.context.backend);
    await live(store, "lost");
    const path = await test.edit("main", "unsaved");
    await restore(store.context.backend, kept);
    using elsewhere = await reopen(test, `${directory}/elsewhere`);
    await live(elsewhere, "new");
    using here = await reopen(test);
    assertEquals((await here.status(at("app"))).state, "detached");
    const error = await here.checkpoint(at("app"), "c3").catch((error) => error);
    assertEquals([error.code, rows(path)], ["dirty", "1,lost,unsaved"]);
    assertEquals(await stored(here, "app"), "1,new");
  }));

Deno.test("after an older ref was restored, new objects never collide with newer ones", async (t) => {
  const commit = async (store: Store, word: string, count: number) => {
    const session = await open(store, "app");
    for (let i = 1; i <= count; i++) sql(session.checkout, `INSERT INTO t VALUES('${word}${i}')`);
    await session.close();
  };
  const cases: [string, (store: Store) => Promise<string>][] = [
    ["by a session", async (store) => {
      await commit(store, "s", 2);
      await commit(store, "u", 1);
      return "1,s1,s2,u1";
    }],
    ["by checkpoints at rest", async (store) => {
      for (const name of ["d1", "d2", "d3"]) {
        sql((await store.checkout(at("app"))).path, `INSERT INTO t VALUES('${name}')`);
        await store.checkpoint(at("app"), name);
      }
      return "1,d1,d2,d3";
    }],
  ];
  for (const [name, work] of cases) {
    await t.step(name, () =>
      withApp([1], async (test) => {
        const { backend } = test.store.context;
        // As a backup has it that copied refs first, then objects, while the branch went on.
        const refs = await backupOf(backend, [REFS_PREFIX]);
        // Each session has an epoch of its own, also one that stores nothing.
        for (let i = 0; i < 6; i++) {
          await commit(test.store, "", 0);
          await commit(test.store, `lost${i}-`, 1);
        }
        await restore(backend, refs, { over: true });
        using again = await reopen(test, `${test.directory}/elsewhere`);
        const expected = await work(again);
        assertEquals(await stored(again, "app"), expected);
        assertEquals((await again.verify(at("app"))).problems, []);
        assertEquals(await stored(again, "app@main@c1"), "1");
      }));
  }
});
