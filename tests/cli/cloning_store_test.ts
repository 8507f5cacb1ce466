import { assertEquals, assertMatch } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { MIN_XFS_MB, whyNotMountable, withMount } from "../support/mounts.ts";
import { startDaemon } from "./support/daemon.ts";
import { makePlace, type Place } from "./support/taskd.ts";
import { longTest } from "../support/long.ts";

const NO_XFS = await whyNotMountable("xfs");

function onDatabase<T>(path: string, work: (db: DatabaseSync) => T): T {
  const db = new DatabaseSync(path);
  try {
    return work(db);
  } finally {
    db.close();
  }
}

const rows = (path: string) => onDatabase(path, (db) => db.prepare("SELECT count(*) AS n FROM item").get()!.n);

function insert(path: string): void {
  onDatabase(path, (db) => db.exec("INSERT INTO item(name) VALUES ('x')"));
}

/** Exports to a file on the store's disk and to one on another: new, and over what is there. */
async function exportAnywhere(place: Place, disk: string, address: string, count: number): Promise<void> {
  for (const directory of [disk, place.base]) {
    const file = `${directory}/out.db`;
    await place.json(["export", address, file]);
    assertEquals(rows(file), count, file);
    await place.json(["export", address, file, "--force"]);
    assertEquals(rows(file), count, file);
    await Deno.remove(file);
    const { code, stderr } = await place.taskd("export", address, `${directory}/missing/out.db`);
    assertEquals(code, 1);
    assertMatch(stderr, /^taskd: Cannot write .*missing.out\.db.partial: No such file or directory/);
  }
}

longTest({
  name: `where files share blocks, each command still has all the permissions that its work needs${NO_XFS}`,
  ignore: NO_XFS !== "",
  fn: () =>
    withMount("xfs", MIN_XFS_MB, async (disk) => {
      await using place = await makePlace({ store: `${disk}/store` });
      const source = `${disk}/shop.db`;
      onDatabase(source, (db) => db.exec("CREATE TABLE item(id INTEGER PRIMARY KEY, name)"));
      insert(source);
      await place.json(["create", "shop", "--from", source]);
      const { path } = await place.json(["checkout", "shop"]);
      await place.json(["checkpoint", "shop", "v1"]);
      insert(String(path));
      await place.json(["checkpoint", "shop", "v2"]);
      await place.json(["fork", "shop", "try", "--at", "v1"]);
      await place.json(["fork", "shop", "whole", "--materialize"]);
      assertEquals(rows(String((await place.json(["checkout", "shop@main@v1"])).path)), 1);
      await exportAnywhere(place, disk, "shop", 2);
      assertEquals((await place.json(["diff", "shop@try", "shop@whole"])).identical, false);
      await place.json(["rollback", "shop", "--to", "v1"]);
      await place.json(["promote", "shop@whole", "--onto", "main", "--materialize"]);
      await place.json(["compact", "shop@try"]);
      await place.json(["gc", "--grace", "0"]);
      assertMatch((await place.taskd("status", "shop")).stdout, /^state +idle$/m);
      assertEquals((await place.json(["verify", "--all"])).intact, true);
      await place.json(["copy-store", `${disk}/store`, `${place.base}/copy`]);

      await using daemon = await startDaemon(place);
      const live = (await place.taskd("session", "open", "shop")).stdout.trim();
      insert(live);
      await exportAnywhere(place, disk, "shop", 3);
      await place.json(["session", "close", "shop"]);
      await exportAnywhere(place, disk, "shop@whole", 2);
      assertEquals((await daemon.stop()).code, 0);
    }),
});
