/** The demo's application: it places orders, one transaction each, and counts those whose commit was acknowledged. */

import type { Shop } from "./shop.ts";
import { SqlClient, type SqlProgram } from "./sql_client.ts";
import { systemClock } from "../../lib/clock.ts";

// Between one order and the next: a shop's customers are quick, but not a loop.
const PAUSE_MS = 1;

export interface OrderOptions {
  path: string;
  /** For the numbers of customers and products. */
  shop: Shop;
  /** Value of the column `status`, by which the orders are found again. */
  status: string;
}

/** Places orders until `enough`, called with their number after each acknowledgement, is true; returns that number. */
export async function placeOrders(
  program: SqlProgram,
  options: OrderOptions,
  enough: (acknowledged: number) => boolean,
): Promise<number> {
  await using client = SqlClient.start(program, options.path);
  client.send(["PRAGMA busy_timeout = 20000"]);
  await client.row();
  let acknowledged = 0;
  do {
    await systemClock.sleep(PAUSE_MS);
    client.send(order(options, acknowledged + 1));
    if (await client.row() !== String(acknowledged + 1)) throw new Error("The client skipped an order");
    acknowledged++;
  } while (!enough(acknowledged));
  for await (const row of client.end()) throw new Error(`The client said ${row} without being asked`);
  return acknowledged;
}

export function countOrders(status: string): string {
  return `SELECT count(*) FROM orders WHERE status = '${status}'`;
}

/** One order of one product; its number comes back once it is committed. */
function order({ shop, status }: OrderOptions, number: number): string[] {
  const customer = 1 + (number * 7_919) % shop.rows.customers;
  const product = 1 + (number * 104_729) % shop.rows.products;
  return [
    "BEGIN IMMEDIATE",
    `INSERT INTO orders (customer_id, placed_at, status) VALUES (${customer}, '2025-01-01 12:00:00', '${status}')`,
    `INSERT INTO order_items SELECT last_insert_rowid(), id, 1, price FROM products WHERE id = ${product}`,
    "COMMIT",
    `SELECT ${number}`,
  ];
}
