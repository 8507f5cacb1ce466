import { assert, assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { compareDatabases } from "./row_diff.ts";
import { type ColumnSpread, MAX_BINS, RowSpread } from "./row_spread.ts";

/** The spreads of the tables that `change` leaves different after `schema`. */
async function spreadsOf(schema: string, change: string): Promise<Record<string, ColumnSpread[] | undefined>> {
  const directory = Deno.makeTempDirSync();
  try {
    const paths = [`${directory}/a.db`, `${directory}/b.db`] as const;
    for (const [i, path] of paths.entries()) {
      using db = new DatabaseSync(path);
      db.exec(`BEGIN; ${schema}; ${i === 0 ? "" : change}; COMMIT`);
    }
    const spreads = new Map<string, RowSpread>();
    await compareDatabases(...paths, {
      onPair: (table, plan, pair) => {
        const spread = spreads.get(table) ?? new RowSpread();
        spreads.set(table, spread);
        spread.add(plan, pair);
      },
    });
    return Object.fromEntries([...spreads].map(([table, spread]) => [table, spread.finish()]));
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

const ORDERS = `
  CREATE TABLE orders (id INTEGER PRIMARY KEY, day TEXT, status TEXT, name TEXT, note);
  WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
  INSERT INTO orders SELECT i, date('2023-01-01', (i % 900) || ' days'), 'open', 'name ' || i, x'00' FROM n`;

Deno.test("a spread shows the month, the state and the keys on which changed rows fall", async () => {
  const { orders = [] } = await spreadsOf(
    ORDERS,
    "UPDATE orders SET status = CASE id % 5 WHEN 0 THEN NULL ELSE 'cancelled' END WHERE day LIKE '2024-0%' AND id < 2000",
  );
  const found = Object.fromEntries(orders.map((spread) => [spread.column, spread]));
  assertEquals(orders.map(({ column }) => column), ["id", "day", "status"]);
  const total = found.status!.bins.reduce((sum, { rows }) => sum + rows, 0);
  assertEquals(found.status!.bins.map(({ from }) => from), ["cancelled", null]);
  assertEquals(found.day!.bins.map(({ from, to }) => `${from}`.slice(0, 7) === `${to}`.slice(0, 7) && `${from}`), [
    ...["01", "02", "03", "04", "05", "06", "07", "08", "09"].map((month) => `2024-${month}-01`),
  ]);
  for (const { bins, other } of orders) {
    assertEquals(other + bins.reduce((sum, { rows }) => sum + rows, 0), total);
    assert(bins.length <= MAX_BINS);
  }
  assertEquals([found.id!.bins[0]!.from, found.id!.other], [365, 0]);
});

Deno.test("a spread counts removed rows with what they held, and rows of a table that came or went", async () => {
  const found = await spreadsOf(
    `${ORDERS}; CREATE TABLE gone AS SELECT * FROM orders`,
    `DELETE FROM orders WHERE id <= 1000; ALTER TABLE orders ADD COLUMN more TEXT; DROP TABLE gone;
     CREATE TABLE few AS SELECT * FROM orders LIMIT 199; CREATE TABLE many AS SELECT status FROM orders LIMIT 200`,
  );
  assertEquals(found.orders!.find(({ column }) => column === "status")!.bins, [{ from: "open", rows: 1000 }]);
  assertEquals(found.orders!.at(-1)!.column, "status");
  assertEquals(found.gone!.find(({ column }) => column === "status")!.bins, [{ from: "open", rows: 3000 }]);
  assertEquals(found.few, undefined);
  assertEquals(found.many!.map(({ column }) => column), ["rowid", "status"]);
});

Deno.test("a spread of values of all kinds is exact, bounded, and the same whatever their order", async () => {
  const values = `SELECT column1 AS v FROM (VALUES (1e308), (-1e308), (9e999), (-9e999), (9223372036854775807), (-0.0),
    (0.1), (0), ('${"x".repeat(65)}'), (x'ff'), ('2024-03-01'), ('2024-03-02 10:00'), ('9999-99-99'), ('0000-00'))`;
  const rows = `WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 50)
    INSERT INTO t SELECT v FROM (${values}), n`;
  const [up, down] = await Promise.all(
    ["ASC", "DESC"].map((order) => spreadsOf("CREATE TABLE t (v)", `${rows} ORDER BY typeof(v), v ${order}`)),
  );
  const { bins, other } = up!.t!.find(({ column }) => column === "v")!;
  assertEquals(up!.t!.at(-1), down!.t!.at(-1));
  assertEquals([other, bins.reduce((sum, { rows }) => sum + rows, 0)], [100, 600]);
  assertEquals(bins.at(-3), { from: "2024-03-01", rows: 50 });
});

Deno.test("a frequent text that comes after many others is found, with at least its rows", async () => {
  const { t = [] } = await spreadsOf(
    "CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)",
    `WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
     INSERT INTO t SELECT i, CASE WHEN i > 15000 THEN 'late' ELSE 'text ' || i END FROM n`,
  );
  const { bins, at_least } = t.find(({ column }) => column === "v")!;
  assertEquals([bins.length, bins[0]!.from, at_least], [1, "late", true]);
  assert(bins[0]!.rows <= 5000 && bins[0]!.rows >= 5000 - 20000 / 257);
});
