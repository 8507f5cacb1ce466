/**
 * The application of the demo: it places orders, one transaction each, and counts the
 * ones whose commit was acknowledged to it.
 */

import type { Shop } from "./shop.ts";
import { SqlClient, type SqlProgram } from "./sql_client.ts";
import { systemClock } from "../../lib/clock.ts";

// Between one order and the next: a shop's customers are quick, but not a loop.
const PAUSE_MS = 1;

/** Where and what to order. */
export interface OrderOptions {
  /** The SQLite file. */
  path: string;
  /** For the numbers of customers and products. */
  shop: Shop;
  /** Value of the column `status`, by which the orders are found again. */
  status: string;
}

/**
 * Places orders until `enough` says so.
 *
 * @param program The client that does it
 * @param options Where and what
 * @param enough Asked after each acknowledgement, with their number
 * @returns How many were acknowledged: all that were placed
 */
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

/** How many orders of `status` there are, as a query. */
export function countOrders(status: string): string {
  return `SELECT count(*) FROM orders WHERE status = '${status}'`;
}

/** One order of one product; its number comes back once it is committed. */
function order({ shop, status }: OrderOptions, number: number): string[] {
  const customer = 1 + (number * 7_919) % shop.rows.customers!;
  const product = 1 + (number * 104_729) % shop.rows.products!;
  return [
    "BEGIN IMMEDIATE",
    `INSERT INTO orders (customer_id, placed_at, status) VALUES (${customer}, '2025-01-01 12:00:00', '${status}')`,
    `INSERT INTO order_items SELECT last_insert_rowid(), id, 1, price FROM products WHERE id = ${product}`,
    "COMMIT",
    `SELECT ${number}`,
  ];
}
