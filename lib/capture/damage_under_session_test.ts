/**
 * What is damaged while a session has the branch open: its application loses nothing, and what was stored is right or named.
 */

import { assert, assertEquals } from "@std/assert";
import { at, fails, makeDatabase, openAt, rows, sql, stored, withDirectory } from "../../tests/support/stores.ts";
import { rewrite } from "../../tests/support/rot.ts";
import { CaptureSession } from "./session.ts";

const SESSION = { flush_every_ms: 0, snapshot_every: 16 };
const MAIN = at("app");

interface Damage {
  /** Below the store; `objects` are the head's, oldest first. */
  path: (objects: string[]) => string;
  bytes: (before: Uint8Array<ArrayBuffer>) => Uint8Array;
  /** Whether the next flush is stored all the same. */
  stores: boolean;
  /** Nothing here proves what was there: a copy has to be put back. */
  needs_copy?: boolean;
}

const zeroed = (before: Uint8Array) => new Uint8Array(before.length);
const CHECKOUT = "checkouts/app/main.db";
const DAMAGE: Record<string, Damage> = {
  "the newest object": { path: (objects) => objects.at(-1)!, bytes: zeroed, stores: true },
  "the snapshot": { path: (objects) => objects[0]!, bytes: zeroed, stores: true },
  "a bit of the ref": {
    path: () => "refs/app/main.json",
    bytes: (before) => before.with(before.length >> 1, before[before.length >> 1]! ^ 1),
    stores: false,
  },
  "the whole ref": { path: () => "refs/app/main.json", bytes: zeroed, stores: false, needs_copy: true },
  "the record of the checkout": { path: () => `${CHECKOUT}.sum`, bytes: zeroed, stores: true },
  "the record of the session": { path: () => `${CHECKOUT}.session`, bytes: zeroed, stores: true },
};

for (const [name, { path, bytes, stores, needs_copy = false }] of Object.entries(DAMAGE)) {
  Deno.test(`a session under which ${name} is damaged loses nothing that was committed`, () =>
    withDirectory(async (directory) => {
      const place = `${directory}/store`;
      using store = await openAt(place);
      makeDatabase(`${directory}/source.db`, "0");
      await store.create("app", { from: `${directory}/source.db` });
      const session = await CaptureSession.open(store, MAIN, SESSION);
      sql(session.checkout, "INSERT INTO t VALUES('1')");
      await session.flush();
      const { ref } = await store.context.refs.read("app", "main");
      const { objects } = await store.context.chains.resolve(ref.lineage, ref.txid);
      const damaged = `${place}/${path(objects.map(({ key }) => key))}`;
      const before = Deno.readFileSync(damaged);
      rewrite(damaged, bytes(before));
      sql(session.checkout, "INSERT INTO t VALUES('2')");
      if (stores) await session.flush();
      else await fails("corrupt", session.flush());
      const { left, moved } = await store.repair();
      assertEquals(moved, [], "nothing is taken from a branch that a session has");
      if (stores) assert(left.length > 0, "what waits for the session to end is named");
      if (needs_copy) {
        assertEquals(left.map(({ where }) => where), ["refs/app/main.json"]);
        rewrite(damaged, before);
      }
      sql(session.checkout, "INSERT INTO t VALUES('3')");
      await session.flush();
      await session.close();
      assertEquals(rows(session.checkout), "0,1,2,3");
      await store.repair();
      assertEquals((await store.verifyAll()).findings, []);
      assertEquals(await stored(store, "app"), "0,1,2,3");
      for (const { txid } of (await store.log(MAIN)).points) await stored(store, `app@main@txid:${txid}`);
    }));
}

Deno.test("a session whose ref stays damaged ends with an error, and its checkout holds everything", () =>
  withDirectory(async (directory) => {
    const place = `${directory}/store`;
    using store = await openAt(place);
    makeDatabase(`${directory}/source.db`, "0");
    await store.create("app", { from: `${directory}/source.db` });
    const session = await CaptureSession.open(store, MAIN, SESSION);
    sql(session.checkout, "INSERT INTO t VALUES('1')");
    await session.flush();
    const ref = `${place}/refs/app/main.json`;
    const before = Deno.readFileSync(ref);
    rewrite(ref, zeroed(before));
    sql(session.checkout, "INSERT INTO t VALUES('2')");
    await fails("corrupt", session.close());
    assertEquals(rows(session.checkout), "0,1,2");
    // Once a copy of the ref is back, the next session takes up what was not stored.
    rewrite(ref, before);
    // As after the time of its lease.
    await store.context.refs.update("app", "main", ({ lease: _, ...rest }) => rest);
    const next = await CaptureSession.open(store, MAIN, SESSION);
    await next.close();
    assertEquals([await stored(store, "app"), rows(next.checkout)], ["0,1,2", "0,1,2"]);
  }));
