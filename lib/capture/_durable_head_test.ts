import { assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { MIN_XFS_MB, whyNotMountable, withMount } from "../../tests/support/mounts.ts";
import { Scene } from "../../tests/support/session.ts";
import { at, rows, sql, stored, withDirectory } from "../../tests/support/stores.ts";
import { LocalBackend } from "../backend/local.ts";
import { WalTail } from "../sqlite/wal_tail.ts";

const why = await whyNotMountable("xfs");

/** Runs `work` while `after` is called behind each takeover, before anything else can happen. */
async function afterTakeovers<T>(after: () => void, work: () => Promise<T>): Promise<T> {
  const { takeover } = WalTail.prototype;
  WalTail.prototype.takeover = function (this: WalTail) {
    const done = takeover.call(this);
    after();
    return done;
  };
  try {
    return await work();
  } finally {
    WalTail.prototype.takeover = takeover;
  }
}

Deno.test({
  name: `a commit between the folding of the log and the clone is in the snapshot${why}`,
  ignore: why !== "",
  fn: () =>
    withMount("xfs", MIN_XFS_MB, (root) =>
      withDirectory(async (directory) => {
        const scene = await Scene.make(directory, await LocalBackend.open(directory));
        const session = await scene.open({ snapshot_every: 1 });
        sql(session.checkout, "CREATE TABLE t(v)");
        await session.flush();
        const application = new DatabaseSync(session.checkout);
        application.exec("INSERT INTO t VALUES('before')");
        const { kind } = await afterTakeovers(
          () => application.exec("INSERT INTO t VALUES('between')"),
          () => session.flush(),
        );
        assertEquals(kind, "snapshot");
        assertEquals(await stored(scene.store, "app"), rows(session.checkout));
        assertEquals((await scene.store.verify(at("app"))).problems, []);
        // With nothing in between the clone is taken.
        application.exec("INSERT INTO t VALUES('after')");
        await session.flush();
        application.exec("INSERT INTO t VALUES('last')");
        assertEquals((await session.flush()).kind, "snapshot");
        assertEquals(scene.uploads.at(-1)?.endsWith(".raw"), true);
        assertEquals(await stored(scene.store, "app"), rows(session.checkout));
        application.close();
        await session.close();
        scene.store.close();
      }, root)),
});
