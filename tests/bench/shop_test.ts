import { assert, assertAlmostEquals, assertEquals, assertNotEquals } from "@std/assert";
import { join } from "@std/path/join";
import { createHash } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import { buildShop } from "./shop.ts";

const digest = (path: string) => createHash("sha256").update(Deno.readFileSync(path)).digest("hex");

Deno.test("buildShop() makes the same bytes from the same seed, and others from another", () => {
  const dir = Deno.makeTempDirSync();
  try {
    const [a, b, c] = ["a.db", "b.db", "c.db"].map((name) => join(dir, name));
    const shop = buildShop(a!, { size_mb: 12, seed: 7 });
    buildShop(b!, { size_mb: 12, seed: 7 });
    buildShop(c!, { size_mb: 12, seed: 8 });
    assertEquals(digest(a!), digest(b!));
    assertNotEquals(digest(a!), digest(c!));
    assertEquals(Deno.statSync(a!).size, shop.size_bytes);
    assertAlmostEquals(shop.size_bytes, 12 * 2 ** 20, 12 * 2 ** 20 * 0.02);
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
});

Deno.test("buildShop() makes one sound file in WAL mode with valid references and searchable text", () => {
  const dir = Deno.makeTempDirSync();
  try {
    const path = join(dir, "shop.db");
    const shop = buildShop(path, { size_mb: 12 });
    assertEquals([...Deno.readDirSync(dir)].map((entry) => entry.name), ["shop.db"]);
    const db = new DatabaseSync(path);
    const value = (sql: string) => Object.values(db.prepare(sql).get()!)[0];
    assertEquals(value("PRAGMA journal_mode"), "wal");
    assertEquals(value("PRAGMA integrity_check"), "ok");
    assertEquals(db.prepare("PRAGMA foreign_key_check").all(), []);
    for (const [table, rows] of Object.entries(shop.rows)) assertEquals(value(`SELECT count(*) FROM ${table}`), rows);
    assert(
      Number(value("SELECT count(*) FROM reviews_search WHERE reviews_search MATCH 'ba AND (ce OR di)'")) >
        0,
    );
    // What makes truncating a conversion to cents wrong: 19.99 * 100 is 1998.99...
    assert(Number(value("SELECT count(*) FROM products WHERE CAST(price * 100 AS INTEGER) <> round(price * 100)")) > 0);
    db.close();
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
});
