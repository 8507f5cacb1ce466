import { assert, assertEquals } from "@std/assert";
import { inSession, onStore, unavailable } from "../../tests/support/session.ts";
import { at, sql, stored } from "../../tests/support/stores.ts";
import type { CaptureSession } from "./session.ts";

/** Rows that do not compress, four to a page. */
function fill(session: CaptureSession): void {
  sql(
    session.checkout,
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) " +
      "INSERT INTO t SELECT 'aa' || hex(randomblob(450)) FROM n",
  );
}

/** A change of two bytes in one row. */
function touch(session: CaptureSession, row: number, text: string): void {
  sql(session.checkout, `UPDATE t SET v = '${text}' || substr(v, 3) WHERE rowid = ${row}`);
}

Deno.test("a small change to a page is stored as a difference each time, also after folding", () =>
  inSession(async (scene, session) => {
    fill(session);
    await session.flush();
    for (const [i, text] of ["bb", "cc", "dd", "ee"].entries()) {
      touch(session, 100, text);
      if (i === 2) await scene.pass(10_000);
      const { kind, bytes } = await session.flush();
      assertEquals(kind, "segment");
      assert(bytes < 200, `${bytes} bytes for a change of two`);
      assertEquals(
        await stored(scene.store, "app", "SELECT substr(v, 1, 2) FROM t WHERE rowid IN (99, 100)"),
        `aa,${text}`,
      );
    }
    assertEquals((await scene.store.verify(at("app"))).ok, true);
  }));

Deno.test("a session knows what a former one stored, whether it was closed or not", () =>
  onStore(async (scene) => {
    const first = await scene.open();
    sql(first.checkout, "CREATE TABLE t(v)");
    fill(first);
    await first.flush();
    await first.close();
    const second = await scene.open();
    touch(second, 5, "bb");
    const { bytes } = await second.flush();
    assert(bytes < 200, `${bytes} bytes for a change of two`);
    assertEquals(await stored(scene.store, "app", "SELECT substr(v, 1, 2) FROM t WHERE rowid = 5"), "bb");
    await second.close();
  }));

Deno.test("where it cannot be known what the store has, whole pages are stored", () =>
  onStore(async (scene) => {
    const first = await scene.open();
    sql(first.checkout, "CREATE TABLE t(v)");
    fill(first);
    await first.flush();
    await first.close();
    const second = await scene.open();
    scene.plan = unavailable("getRange");
    touch(second, 5, "bb");
    const { bytes } = await second.flush();
    scene.plan = () => undefined;
    assert(bytes > 2000, `${bytes} bytes for a page of noise`);
    assertEquals(await stored(scene.store, "app", "SELECT substr(v, 1, 2) FROM t WHERE rowid = 5"), "bb");
    await second.close();
  }));

Deno.test("after a flush that failed at any point the next one is read back whole", async (t) => {
  for (const method of ["put", "replace"] as const) {
    await t.step(method, () =>
      inSession(async (scene, session) => {
        fill(session);
        await session.flush();
        for (const text of ["bb", "cc", "dd"]) {
          touch(session, 100, text);
          scene.plan = unavailable(method);
          await session.flush().then(() => assert(false, "it did not fail"), () => {});
          touch(session, 101, text);
          scene.plan = () => undefined;
          const { bytes } = await session.flush();
          assert(bytes < 300, `${bytes} bytes for changes of two`);
          assertEquals(
            await stored(scene.store, "app", "SELECT substr(v, 1, 2) FROM t WHERE rowid IN (100, 101)"),
            `${text},${text}`,
          );
        }
      }));
  }
});

Deno.test("a full copy begins the differences anew", () =>
  inSession(async ({ store }, session) => {
    fill(session);
    const kinds: string[] = [];
    for (let i = 0; i < 8; i++) {
      touch(session, 100, `b${i}`);
      const { kind, bytes } = await session.flush();
      kinds.push(kind);
      if (i > 0 && kind === "segment") assert(bytes < 200, `${bytes} bytes for a change of two`);
    }
    assert(kinds.filter((kind) => kind === "snapshot").length >= 2, kinds.join());
    assertEquals(await stored(store, "app", "SELECT substr(v, 1, 2) FROM t WHERE rowid = 100"), "b7");
  }, { snapshot_every: 3 }));
