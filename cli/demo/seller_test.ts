import { assert, assertEquals, assertRejects } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { join } from "@std/path/join";
import { findSqlClient, Seller } from "./seller.ts";
import { buildShop } from "./shop.ts";

Deno.test("the seller counts exactly the orders in the database, and fails as its client does", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const path = join(dir, "shop.db");
    const history = buildShop(path, 3);
    await using seller = new Seller(await findSqlClient(), path, new AbortController().signal);
    await seller.sells(50);
    await seller.stop();
    assert(seller.sold >= 50);
    using db = new DatabaseSync(path);
    assertEquals(db.prepare("SELECT count(*) AS n FROM orders WHERE price > 0").get()!.n, history + seller.sold);
    db.exec("DROP TABLE orders");
    await using failing = new Seller(await findSqlClient(), path, new AbortController().signal);
    await assertRejects(() => failing.sells(1), Error, "orders");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
