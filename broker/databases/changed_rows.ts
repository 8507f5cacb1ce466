/**
 * Rows that a task changed, page by page, read between the two points that its gate is bound to: checkpoints of the task's
 * branch. When that is gone, after the promotion, what was promoted and the branch that keeps what was before stand in for
 * them, as long as both stand where they did.
 */

import type { Client } from "../../lib/client/client.ts";
import { hasCode, TaskdError } from "../../lib/errors.ts";
import { formatAddress } from "../../lib/store/names.ts";
import type { DatabaseDiffQuery, DatabaseRows } from "../task/row_pages.ts";
import type { DatabaseChange, DatabaseResult } from "./evidence.ts";
import { statusOf, type StoreAccess, withStore } from "./store_calls.ts";

/** Checkpoint of a task's branch: where it began. */
export const BASE_POINT = "base";

/** What the trace has of the database. */
export interface ChangedDatabase {
  change: DatabaseChange;
  /** Where it began. */
  base_txid: number | undefined;
  result: DatabaseResult | undefined;
}

/** @throws {TaskdError} `altered` when the branch is not what is bound; `not_found` for a table that neither has, and once the points are gone; the store's errors. */
export async function changedRows(
  access: StoreAccess,
  database: ChangedDatabase,
  query: DatabaseDiffQuery,
  signal: AbortSignal,
): Promise<DatabaseRows> {
  const { change: { db, branch, head } } = database;
  const attempted = `Cannot show the rows of ${db}`;
  return await withStore(access, { attempted, signal }, async (client) => {
    const at = (checkpoint: string) => formatAddress({ db, branch, checkpoint });
    const { branches } = await client.call("branches", { db });
    if (!branches.some((one) => one.branch === branch)) return await promotedPage(client, database, query);
    const rows = await page(client, at(BASE_POINT), at(branch), query);
    // Looked at afterwards, and by lineage: another branch may have taken the name, and its checkpoints too.
    const now = await statusOf(client, db, branch);
    if (now.lineage === head?.lineage && now.txid === head.txid) return rows;
    throw new TaskdError("altered", `${attempted}: ${db}@${branch} was changed after it came to the gate`, {
      hint: "It cannot be promoted as it is: deny the task, and run it again with taskd retry",
    });
  });
}

async function promotedPage(
  client: Client,
  { change: { db, base, branch }, base_txid, result }: ChangedDatabase,
  query: DatabaseDiffQuery,
): Promise<DatabaseRows> {
  const gone = (why: string) =>
    new TaskdError("not_found", `${db}@${branch} is gone, and ${why}`, {
      hint: "The brief has the first rows of each table",
    });
  if (result?.result !== "promoted") throw gone("was not promoted");
  const { txid, safety_branch: before } = result;
  if (before === undefined || txid === undefined) throw gone("no branch keeps what was before");
  try {
    const rows = await page(client, formatAddress({ db, branch: before }), formatAddress({ db, branch: base }), query);
    // Looked at afterwards: transactions only go on.
    const [old, now] = [await statusOf(client, db, before), await statusOf(client, db, base)];
    if (now.txid === txid && old.txid === base_txid) return rows;
  } catch (error) {
    if (!hasCode(error, "not_found")) throw error;
  }
  throw gone(`${db}@${base} or ${db}@${before} was written since`);
}

async function page(client: Client, a: string, b: string, query: DatabaseDiffQuery): Promise<DatabaseRows> {
  const { table, kind, search, cursor, limit = 100, value_bytes } = query;
  return await client.call("diff-rows", {
    a,
    b,
    table,
    rows: limit,
    same: true,
    ...(kind === undefined ? {} : { change: kind }),
    ...(search === undefined ? {} : { search }),
    ...(cursor === undefined ? {} : { after: cursor }),
    ...(value_bytes === undefined ? {} : { value_bytes }),
  });
}
