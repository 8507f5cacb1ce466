/** Builds the demo's database, a shop of any size, in WAL mode and folded into one file. */

import { DatabaseSync } from "node:sqlite";

export interface Shop {
  size_bytes: number;
  rows: { customers: number; products: number; orders: number };
}

const ROWS = { customers: 2_000, products: 1_000, orders: 20_000 };
/** Of the tables proper; the click trails fill the rest, a page each. */
const TABLES_MIB = 2;
const PAGES_PER_MIB = 256;

/** @param size_mib Size of the file, within a tenth. */
export function buildShop(path: string, size_mib: number): Shop {
  const db = new DatabaseSync(path);
  const fill = (table: string, count: number, columns: string) =>
    db.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ${count})
      INSERT INTO ${table} SELECT ${columns} FROM n`);
  try {
    // Nothing to recover: a build that dies is thrown away.
    db.exec(`PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
      CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL);
      CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price NUMERIC NOT NULL);
      CREATE TABLE orders (
        id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers, placed_at TEXT NOT NULL,
        status TEXT NOT NULL);
      CREATE TABLE order_items (
        order_id INTEGER NOT NULL REFERENCES orders, product_id INTEGER NOT NULL REFERENCES products,
        quantity INTEGER NOT NULL, price NUMERIC NOT NULL, PRIMARY KEY (order_id, product_id)) WITHOUT ROWID;
      CREATE TABLE visits (id INTEGER PRIMARY KEY, trail TEXT NOT NULL)`);
    const { customers, products, orders } = ROWS;
    fill("customers", customers, "i, 'Customer ' || i, 'c' || i || '@example.com'");
    fill("products", products, "i, 'Product ' || i, (199 + i * 7919 % 70000) / 100.0");
    fill("orders", orders, `i, 1 + i * 7919 % ${customers}, date('2021-01-01', (i / 20) || ' days'), 'delivered'`);
    db.exec(`INSERT INTO order_items
      SELECT o.id, p.id, 1 + o.id % 3, price FROM orders o JOIN products p ON p.id = 1 + o.id * 104729 % ${products}`);
    fill("visits", (size_mib - TABLES_MIB) * PAGES_PER_MIB, "i, hex(randomblob(1960))");
    db.exec(`CREATE INDEX orders_by_customer ON orders (customer_id, placed_at);
      PRAGMA synchronous = FULL; PRAGMA journal_mode = WAL; PRAGMA wal_checkpoint(TRUNCATE)`);
  } finally {
    db.close();
  }
  return { size_bytes: Deno.statSync(path).size, rows: ROWS };
}
