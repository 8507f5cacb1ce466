import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path/join";
import { countOrders, placeOrders } from "./orders.ts";
import { buildShop } from "./shop.ts";
import { findSqlProgram, runSql } from "./sql_client.ts";

Deno.test("placeOrders() counts exactly the orders that are in the database", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const path = join(dir, "shop.db");
    const shop = buildShop(path, 3);
    const program = await findSqlProgram();
    const placed = await placeOrders(program, { path, shop, status: "test" }, (acknowledged) => acknowledged >= 50);
    assert(placed >= 50);
    assertEquals(await runSql(program, path, [countOrders("test")]), [String(placed)]);
    assertEquals(
      await runSql(program, path, [
        "SELECT count(*) FROM orders o JOIN order_items i ON i.order_id = o.id " +
        "WHERE status = 'test'",
      ]),
      [String(placed)],
    );
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
