/** A disk that cannot read one file of a store, however often it is asked (EIO). */

import { assert, assertEquals } from "@std/assert";
import { commit, copyTree, QUERY } from "../../tests/support/rot.ts";
import { makeDatabase, openAt, stored, withDirectory } from "../../tests/support/stores.ts";
import { type Backend, BackendError } from "../backend/backend.ts";
import { LocalBackend } from "../backend/local.ts";
import { copyStore } from "./copy_store.ts";
import { refKey } from "./keys.ts";
import type { Store } from "./store.ts";

/** What an operation reads fails for `bad.key`, until something else is put there. */
function onBadDisk(inner: Backend, bad: { key?: string }): Backend {
  const check = (key: string) => {
    if (key !== bad.key) return;
    const cause = Object.assign(new Error("Input/output error (os error 5)"), { code: "EIO" });
    throw new BackendError("unavailable", key, `Cannot read ${key}: ${cause.message}`, cause);
  };
  const reads = new Set<PropertyKey>(["get", "getRange", "getStream", "copy"]);
  return new Proxy(inner, {
    get: (target, name) => {
      const value = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      if (!reads.has(name) && name !== "put") return value.bind(target);
      return async (...args: [string]) => {
        if (name !== "put") check(args[0]);
        const result = await value.apply(target, args);
        if (name === "put" && args[0] === bad.key) delete bad.key;
        return result;
      };
    },
  });
}

/** A store of the branches `main`, with one segment for each of four commits, and `side`; and a copy of it. */
async function withBadDisk(
  work: (
    store: Store,
    bad: { key?: string },
    place: { keys: string[]; backup: string; backend: Backend },
  ) => Promise<void>,
): Promise<void> {
  await withDirectory(async (directory) => {
    const bad: { key?: string } = {};
    makeDatabase(`${directory}/source.db`, "begin");
    const backend = onBadDisk(await LocalBackend.open(`${directory}/store`), bad);
    using store = await openAt(`${directory}/store`, { backend });
    await store.create("app", { from: `${directory}/source.db` });
    await store.create("other", { from: `${directory}/source.db` });
    for (const value of ["one", "two", "three", "four"]) await commit(store, "main", value);
    Deno.removeSync(`${directory}/store/checkouts`, { recursive: true });
    await copyTree(`${directory}/store`, `${directory}/backup`);
    const { ref } = await store.context.refs.read("app", "main");
    const { objects } = await store.context.chains.resolve(ref.lineage, ref.txid);
    await work(store, bad, { keys: objects.map(({ key }) => key), backup: `${directory}/backup`, backend });
  });
}

for (const fast of [false, true]) {
  Deno.test(`an object that cannot be read is damaged, and all else is proved${fast ? ", fast" : ""}`, () =>
    withBadDisk(async (store, bad, { keys }) => {
      const { objects } = await store.verifyAll({ fast });
      bad.key = keys[2]!;
      const result = await store.verifyAll({ fast });
      assertEquals(result.objects, objects);
      const [found, ...others] = result.findings;
      assertEquals([found?.what, found?.where, others], ["object", bad.key, []]);
      assert(found!.why.includes("Input/output error") && found!.hint.startsWith("Run: taskd repair app@main"));
      assertEquals(result.branches.map(({ db, ok }) => `${db} ${ok}`), ["app false", "other true"]);
    }));
}

Deno.test("an object that cannot be read is brought back from a copy of the store", () =>
  withBadDisk(async (store, bad, { keys, backup }) => {
    const key = bad.key = keys[2]!;
    const { restored, moved, left } = await store.repair({ from: backup });
    assertEquals([restored.map(({ where }) => where), moved, left], [[key], [], []]);
    assertEquals(await stored(store, "app", QUERY), "begin,one,two,three,four");
  }));

Deno.test("a branch goes back to before an object that cannot be read where there is no copy", () =>
  withBadDisk(async (store, bad, { keys }) => {
    bad.key = keys[2]!;
    const { moved, left } = await store.repair();
    assertEquals([moved.map(({ branch, txid }) => `${branch} ${txid}`), left], [["main 2"], []]);
    assertEquals(await stored(store, "app", QUERY), "begin,one");
  }));

Deno.test("a store is copied without what cannot be read, which is in the answer", () =>
  withBadDisk(async (_store, bad, { keys, backup, backend }) => {
    bad.key = keys[2]!;
    const target = await LocalBackend.open(`${backup}-2`);
    const { findings, objects, skipped } = await copyStore(backend, target, { allow_damaged: true });
    assertEquals([findings[0]?.where, objects, skipped], [bad.key, 5, 0]);
    using copy = await openAt(`${backup}-2`);
    assertEquals(await stored(copy, "other", QUERY), "begin");
    assertEquals(await stored(copy, "app@main@one", QUERY), "begin,one");
  }));

Deno.test("scrubbing goes on past an object that cannot be read", () =>
  withBadDisk(async (store, bad, { keys }) => {
    bad.key = keys[0]!;
    const { found, finished } = await store.scrub({ scrub_every_ms: 1 });
    assertEquals([found.map(({ where }) => where), finished], [[bad.key], true]);
  }));

Deno.test("a ref that cannot be read is a finding beside the other branches", () =>
  withBadDisk(async (store, bad) => {
    bad.key = refKey("app", "main");
    const { findings, branches } = await store.verifyAll();
    assertEquals(findings.map(({ what, where }) => `${what} ${where}`), [`ref ${bad.key}`]);
    assertEquals(branches.map(({ db, ok }) => `${db} ${ok}`), ["app false", "other true"]);
    const { left } = await store.repair();
    assertEquals(left.map(({ where }) => where), [bad.key]);
  }));
