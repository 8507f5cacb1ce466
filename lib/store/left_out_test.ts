import { assertEquals } from "@std/assert";
import { at, sql, withApp } from "../../tests/support/stores.ts";
import { CaptureSession } from "../capture/session.ts";

Deno.test("fork, export, diff and promote name a checkout whose edits they leave out", () =>
  withApp([1, 2], async ({ store, directory }) => {
    const { path } = await store.checkout(at("app"));
    await store.fork(at("app"), "other");
    const answers = async (name: string) => {
      const { left_out: forked } = await store.fork(at("app"), name);
      const { left_out: exported } = await store.export(at("app"), `${directory}/${name}.db`);
      const { left_out: compared } = await store.diff(at("app"), at("app@other"));
      const { left_out: promoted } = await store.promote(at("app"), at("app@other"));
      return [forked, exported, compared, promoted];
    };
    assertEquals(await answers("clean"), [undefined, undefined, undefined, undefined]);
    sql(path, "INSERT INTO t VALUES ('edited')");
    assertEquals(await answers("dirty"), [["app@main"], ["app@main"], ["app@main"], ["app@main"]]);
    // A checkpoint is what it was, and one that is made has the edits.
    assertEquals((await store.fork(at("app@main@c1"), "old")).left_out, undefined);
    await store.checkpoint(at("app"), "kept");
    assertEquals(await answers("kept"), [undefined, undefined, undefined, undefined]);
    // Touched, and as it was.
    sql(path, "CREATE TABLE gone(x)", "DROP TABLE gone", "VACUUM");
    await store.checkpoint(at("app"), "vacuumed");
    Deno.utimeSync(path, 1, 1);
    assertEquals((await store.fork(at("app"), "touched")).left_out, undefined);
    Deno.writeTextFileSync(path, "no database");
    assertEquals((await store.fork(at("app"), "torn")).left_out, ["app@main"]);
  }));

Deno.test("a checkout that a session captures is left to the session, which can be flushed", () =>
  withApp([1], async ({ store }) => {
    const session = await CaptureSession.open(store, at("app"), { flush_every_ms: 0, snapshot_every: 16 });
    sql(session.checkout, "INSERT INTO t VALUES ('pending')");
    assertEquals((await store.fork(at("app"), "live")).left_out, undefined);
    await session.close();
  }));
