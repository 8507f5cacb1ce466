import { assert, assertEquals } from "@std/assert";
import { Application } from "../support/application.ts";
import { fails, rows, sql } from "../support/stores.ts";
import { DaemonProcess, Place } from "./daemon_process.ts";

Deno.test("a fork at a point before a bad statement has the rows, while an application goes on", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place, { flush_every_ms: 0 });
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  const { checkout } = await client.call("open", { db: "app" });
  const application = new Application(checkout);
  try {
    await application.run("CREATE TABLE price(item, cents)");
    await application.run("INSERT INTO price VALUES ('tea', 250), ('cake', 400)");
    await client.call("flush", { db: "app" });
    const [good] = (await client.call("log", { db: "app" })).points;
    assert(good?.at !== undefined);
    await application.run("UPDATE price SET cents = 0");
    const { txid } = await client.call("flush", { db: "app" });

    const at = `txid:${good.txid}`;
    assertEquals((await client.call("fork", { db: "app", new_branch: "oops", at })).txid, good.txid);
    await application.run("INSERT INTO price VALUES ('milk', 90)");
    const { path } = await client.call("checkout", { db: "app", branch: "oops" });
    const PRICES = "SELECT item || cents FROM price ORDER BY rowid";
    assertEquals(rows(path, PRICES), "tea250,cake400");
    assertEquals(rows(checkout, PRICES), "tea0,cake0,milk90");

    const seen = await client.call("checkout-at", { db: "app", checkpoint: `time:${good.at}` });
    assertEquals([rows(seen.path, PRICES), seen.checkpoint], ["tea250,cake400", at]);
    const { tables } = await client.call("diff", { a: `app@main@${at}`, b: `app@main@txid:${txid}` });
    assertEquals(tables.map(({ table, rows_changed }) => [table, rows_changed]), [["price", 2]]);
    await fails("not_found", client.call("fork", { db: "app", new_branch: "x", at: "age:1h" }));
    await fails("invalid_name", client.call("fork", { db: "app", new_branch: "x", at: "age:soon" }));

    // Mended there, merged back under the application; the rest of what it wrote stays.
    sql(path, "UPDATE price SET cents = 260 WHERE item = 'tea'");
    await client.call("checkpoint", { db: "app", branch: "oops", name: "mended" });
    const request = { db: "app", branch: "oops", into: "main", prefer: "theirs" } as const;
    assertEquals((await client.call("merge", request)).merged, true);
    assertEquals(rows(checkout, PRICES), "tea260,cake0,milk90");
    const back = await client.call("rollback", { db: "app", to: at, reopen: true }).catch(({ code }) => code);
    assertEquals(back, "busy");
  } finally {
    await application.end();
  }
  const { points } = await client.call("log", { db: "app", limit: 2 });
  assertEquals(points.map(({ op }) => op), ["merge", "flush"]);
});
