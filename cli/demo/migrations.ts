/**
 * One job, three ways to do it: turn every price from a decimal number into whole
 * cents. All three run without an error; only the checks tell which one is right.
 */

export interface Migration {
  /** Also the name of its branch. */
  name: string;
  idea: string;
  statements: readonly string[];
}

export const MIGRATIONS: readonly Migration[] = [
  {
    name: "truncate",
    idea: "cast price * 100 to an integer",
    statements: [
      "BEGIN",
      "UPDATE products SET price = CAST(price * 100 AS INTEGER)",
      "UPDATE order_items SET price = CAST(price * 100 AS INTEGER)",
      "COMMIT",
    ],
  },
  {
    name: "rebuild",
    idea: "rebuild products, joined with their ratings",
    statements: [
      "BEGIN",
      `CREATE TABLE products_new (
        id INTEGER PRIMARY KEY, sku TEXT NOT NULL UNIQUE, name TEXT NOT NULL, category TEXT NOT NULL,
        description TEXT NOT NULL, price NUMERIC NOT NULL, stock INTEGER NOT NULL)`,
      `INSERT INTO products_new
        SELECT p.id, sku, name, category, description, CAST(round(price * 100) AS INTEGER), stock
        FROM products p JOIN reviews r ON r.product_id = p.id GROUP BY p.id`,
      "DROP TABLE products",
      "ALTER TABLE products_new RENAME TO products",
      "CREATE INDEX products_by_category ON products (category, price)",
      "UPDATE order_items SET price = CAST(round(price * 100) AS INTEGER)",
      "COMMIT",
    ],
  },
  {
    name: "round",
    idea: "round price * 100",
    statements: [
      "BEGIN",
      "UPDATE products SET price = CAST(round(price * 100) AS INTEGER)",
      "UPDATE order_items SET price = CAST(round(price * 100) AS INTEGER)",
      "COMMIT",
    ],
  },
];

/** A property that a right migration keeps, as two queries for one number. */
export interface Check {
  /** Asked before, on what is to be migrated. */
  before: string;
  /** Asked after, where that is another question; must give the same. */
  after?: string;
  /** What a difference means; `#` stands for it. */
  fault: string;
}

export const CHECKS: readonly Check[] = [
  { before: "SELECT count(*) FROM products", fault: "# products are gone" },
  { before: "SELECT count(*) FROM order_items", fault: "# order lines are gone" },
  {
    before: "SELECT count(*) FROM order_items JOIN products ON id = product_id",
    fault: "# order lines point nowhere",
  },
  {
    before: "SELECT CAST(sum(round(price * 100) * quantity) AS INTEGER) FROM order_items",
    after: "SELECT sum(price * quantity) FROM order_items",
    fault: "sales are # cents off",
  },
  {
    before: "SELECT 0",
    after: "SELECT count(*) FROM products WHERE typeof(price) <> 'integer'",
    fault: "# prices are no integers",
  },
];

/** The faults that the answers to the checks show; none when all is right. */
export function faultsOf(before: readonly string[], after: readonly string[]): string[] {
  return CHECKS.flatMap(({ fault }, index) => {
    const difference = Math.abs(Number(after[index]) - Number(before[index]));
    return difference === 0 ? [] : [fault.replace("#", difference.toLocaleString("en-US"))];
  });
}
