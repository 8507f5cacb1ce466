/**
 * What tests of the store share: a store in a directory of its own, SQL on files,
 * and the content of an address.
 *
 * @module
 */

import { DatabaseSync } from "node:sqlite";
import type { Backend } from "../../lib/backend/backend.ts";
import { LocalBackend } from "../../lib/backend/local.ts";
import { type Address, parseAddress } from "../../lib/store/names.ts";
import { Store, type StoreOptions } from "../../lib/store/store.ts";

/** Runs `work` with a directory that is gone afterwards; below `parent`, if one is given. */
export async function withDirectory<T>(work: (directory: string) => Promise<T>, parent?: string): Promise<T> {
  const directory = await Deno.makeTempDir(parent === undefined ? {} : { dir: parent });
  try {
    return await work(directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

/** An address from its text. */
export const at = (text: string): Address => parseAddress(text);

/** Opens a store in `directory`; `wrap` puts something around its backend. */
export async function openAt(
  directory: string,
  options: Partial<StoreOptions> & { wrap?: (inner: Backend) => Backend } = {},
): Promise<Store> {
  const { wrap, ...rest } = options;
  const inner = rest.backend ?? await LocalBackend.open(directory);
  return await Store.open({ workspace: directory, ...rest, backend: wrap?.(inner) ?? inner });
}

/** Runs statements on the file through a connection of its own. */
export function sql(path: string, ...statements: string[]): void {
  const database = new DatabaseSync(path, { timeout: 5_000 });
  try {
    for (const statement of statements) database.exec(statement);
  } finally {
    database.close();
  }
}

/** The first column of what `query` answers, joined by commas. */
export function rows(path: string, query = "SELECT v FROM t ORDER BY rowid"): string {
  const database = new DatabaseSync(path, { timeout: 5_000 });
  try {
    return database.prepare(query).all().map((row) => String(Object.values(row)[0])).join(",");
  } finally {
    database.close();
  }
}

/** What {@linkcode rows} says of an address's stored content. */
export async function stored(store: Store, address: string, query?: string): Promise<string> {
  return await withDirectory(async (directory) => {
    await store.export(at(address), `${directory}/out.db`);
    return rows(`${directory}/out.db`, query);
  });
}

/** A database with the table `t(v)` and these rows. */
export function makeDatabase(path: string, ...values: string[]): void {
  sql(path, "CREATE TABLE t(v)", ...values.map((value) => `INSERT INTO t VALUES('${value}')`));
}
