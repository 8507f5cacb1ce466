import { assertEquals } from "@std/assert";
import { join } from "@std/path/join";
import { CHECKS, faultsOf, MIGRATIONS } from "./migrations.ts";
import { buildShop } from "./shop.ts";
import { findSqlProgram, runSql } from "./sql_client.ts";

Deno.test("every migration runs without an error and the checks pass exactly one of them", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const shop = join(dir, "shop.db");
    buildShop(shop, { size_mb: 12 });
    const program = await findSqlProgram();
    const before = await runSql(program, shop, CHECKS.map((check) => check.before));
    const right: string[] = [];
    for (const { name, statements } of MIGRATIONS) {
      const copy = join(dir, `${name}.db`);
      await Deno.copyFile(shop, copy);
      await runSql(program, copy, statements);
      const after = await runSql(program, copy, CHECKS.map(({ before, after = before }) => after));
      const faults = faultsOf(before, after);
      if (faults.length === 0) right.push(name);
    }
    assertEquals(right, ["round"]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
