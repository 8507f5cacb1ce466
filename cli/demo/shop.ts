/** Builds the demo's database, a shop of any size, in WAL mode and folded into one file. */

import { DatabaseSync } from "node:sqlite";

export const SHOP = "shop";
export const PRODUCTS = 1_000;
const ORDERS = 20_000;
/** Of the tables proper; the click trails fill the rest, a page each. */
const TABLES_MIB = 2;
const PAGES_PER_MIB = 256;

/** Prices and quantities of invoices; as binary fractions, most of the prices are a little less than they look. */
const INVOICES = "(19.99, 3), (4.35, 2), (8.2, 5), (12.5, 2), (1.15, 10)";
export const RIGHT_CENTS = "CAST(round(price * 100) AS INTEGER) * quantity";
/** What the agent does about the invoices: they are as wrong as the program that has written them. */
export const CORRECTION = `UPDATE invoices SET cents = ${RIGHT_CENTS} WHERE cents <> ${RIGHT_CENTS}`;

/**
 * @param size_mib Size of the file, within a tenth.
 * @returns How many orders it has.
 */
export function buildShop(path: string, size_mib: number): number {
  using db = new DatabaseSync(path);
  const fill = (table: string, count: number, columns: string) =>
    db.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ${count})
      INSERT INTO ${table} SELECT ${columns} FROM n`);
  // Nothing to recover: a build that dies is thrown away.
  db.exec(`PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
    CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price NUMERIC NOT NULL);
    CREATE TABLE orders (
      id INTEGER PRIMARY KEY, product_id INTEGER NOT NULL REFERENCES products, price NUMERIC NOT NULL);
    CREATE TABLE invoices (id INTEGER PRIMARY KEY, price REAL, quantity INTEGER, cents INTEGER);
    CREATE TABLE visits (id INTEGER PRIMARY KEY, trail TEXT NOT NULL);
    INSERT INTO invoices (price, quantity) VALUES ${INVOICES};
    UPDATE invoices SET cents = CAST(price * 100 AS INTEGER) * quantity`);
  fill("products", PRODUCTS, "i, 'Product ' || i, (199 + i * 7919 % 70000) / 100.0");
  fill(
    "orders",
    ORDERS,
    `i, 1 + i * 104729 % ${PRODUCTS}, (SELECT price FROM products WHERE id = 1 + i * 104729 % ${PRODUCTS})`,
  );
  fill("visits", (size_mib - TABLES_MIB) * PAGES_PER_MIB, "i, hex(randomblob(1960))");
  db.exec("PRAGMA synchronous = FULL; PRAGMA journal_mode = WAL; PRAGMA wal_checkpoint(TRUNCATE)");
  return ORDERS;
}
