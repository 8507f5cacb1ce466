import { assert, assertEquals } from "@std/assert";
import { OUTRIGHT } from "../support/stores.ts";
import { DatabaseSync } from "node:sqlite";
import { join } from "@std/path/join";
import { openStore } from "../../lib/store/open.ts";
import { DaemonProcess, Place } from "./daemon_process.ts";

async function cp(...words: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command("cp", { args: ["-a", ...words] }).output();
  assert(success, new TextDecoder().decode(stderr));
}

Deno.test("a copy of refs and then data, taken under load, is a whole store as of some flush", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place, { flush_every_ms: 0, snapshot_every: 4 });
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  const { checkout } = await client.call("open", { db: "app" });
  const db = new DatabaseSync(checkout);
  db.exec("CREATE TABLE t(n)");
  let committed = 0;
  const work = async () => {
    db.exec(`INSERT INTO t VALUES(${++committed})`);
    await client.call("flush", { db: "app" });
    if (committed % 3 === 0) await client.call("fork", { db: "app", new_branch: `f${committed}` });
    if (committed % 9 === 0) await client.call("destroy", { db: "app", branch: `f${committed}`, ...OUTRIGHT });
  };
  for (let i = 0; i < 10; i++) await work();
  const durable = committed;
  let copying = true;
  const going_on = (async () => {
    while (copying) await work();
  })();
  const backup = join(place.directory, "backup");
  await Deno.mkdir(backup);
  await cp(join(place.store, "bstore.json"), join(place.store, "refs"), backup);
  await cp(join(place.store, "data"), backup);
  copying = false;
  await going_on;
  db.close();

  using store = await openStore(backup, { holder: "test" });
  const branches = await store.branches();
  assert(branches.length >= 3);
  for (const { db, branch, problem } of branches) {
    assertEquals(problem, undefined);
    assertEquals((await store.verify({ db, branch })).problems, []);
  }
  const file = join(place.directory, "restored.db");
  await store.export({ db: "app", branch: "main" }, file);
  const restored = new DatabaseSync(file, { readOnly: true });
  const { rows, last } = restored.prepare("SELECT count(*) AS rows, max(n) AS last FROM t").get()!;
  restored.close();
  // A prefix of what was committed, with all that was durable before the copy began.
  assertEquals(rows, last);
  assert(Number(rows) >= durable && Number(rows) <= committed);
});
