/**
 * What tests of the store share: a store in a directory of its own, SQL on files,
 * and the content of an address.
 */

import { assert, assertRejects } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import type { Backend } from "../../lib/backend/backend.ts";
import { type BackendCall, type FaultPlan, FaultyBackend } from "./faulty_backend.ts";
import { LocalBackend } from "../../lib/backend/local.ts";
import { MemoryBackend } from "./memory_backend.ts";
import { type ErrorCode, TaskdError } from "../../lib/errors.ts";
import { type Address, parseAddress } from "../../lib/store/names.ts";
import { Store, type StoreOptions } from "../../lib/store/store.ts";
import { VirtualClock } from "./clock.ts";

/** How a test destroys a branch without keeping anything. */
export const OUTRIGHT = { confirm: true, safety: false } as const;

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

/** A store under a test's control. */
export interface TestStore {
  store: Store;
  directory: string;
  clock: VirtualClock;
  /** What the store asks its backend, and how it fails; replace `plan` to make it. */
  faults: { plan: FaultPlan; calls: BackendCall[] };
  /** Checks a branch out and commits one row for each value; returns the checkout's path. */
  edit(branch: string, ...values: (string | number)[]): Promise<string>;
}

/** Runs `work` on a store with the database `app` of the rows `values`, each a checkpoint `c<value>` of `main`. */
export async function withApp(
  values: number[],
  work: (test: TestStore) => Promise<void>,
  options: Partial<StoreOptions> & { parent?: string; on_disk?: boolean } = {},
): Promise<void> {
  const { parent, on_disk = parent !== undefined, ...rest } = options;
  await withDirectory(async (directory) => {
    const faults: TestStore["faults"] = { plan: () => undefined, calls: [] };
    const clock = new VirtualClock();
    const inner = on_disk ? await LocalBackend.open(directory) : new MemoryBackend();
    const backend = new FaultyBackend(inner, (call) => {
      faults.calls.push(call);
      return faults.plan(call);
    }, { clock });
    const store = await Store.open({ workspace: directory, clock, ...rest, backend });
    const edit = async (branch: string, ...values: (string | number)[]) => {
      const { path } = await store.checkout(at(`app@${branch}`));
      sql(path, ...values.map((value) => `INSERT INTO t VALUES('${value}')`));
      return path;
    };
    try {
      makeDatabase(`${directory}/source.db`);
      await store.create("app", { from: `${directory}/source.db` });
      for (const value of values) {
        await edit("main", value);
        await store.checkpoint(at("app"), `c${value}`);
      }
      await work({ store, directory, clock, faults, edit });
    } finally {
      store.close();
    }
  }, parent);
}

/** The error that `work` ends with, which must have one of these codes. */
export async function fails(code: ErrorCode | ErrorCode[], work: Promise<unknown>): Promise<TaskdError> {
  const error = await assertRejects(() => work, TaskdError);
  assert([code].flat().includes(error.code), `${error.code}: ${error.message}`);
  return error;
}
