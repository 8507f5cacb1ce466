/**
 * create: a database's first branch, empty or from a live SQLite file.
 */

import { backup, DatabaseSync } from "node:sqlite";
import { join } from "node:path/posix";
import { hasCode, TaskdError } from "../../errors.ts";
import { createEmptyFile, discard } from "../../fs.ts";
import { copyStill, hasWal, ImageFile, readHeader, requirePlainDatabase } from "../../sqlite/checkout_file.ts";
import { stampFile } from "../../sqlite/checkout_file.ts";
import { MIN_DATABASE_BYTES } from "../../sqlite/checkout_file.ts";
import { integrityCheck } from "../../sqlite/integrity.ts";
import { shellWord } from "../../text/shell_word.ts";
import { Connection, sqliteError } from "../../sqlite/connection.ts";
import { openName } from "../../sqlite/open_name.ts";
import { isoNow, newLineage, type StoreContext } from "../context.ts";
import { DEFAULT_BRANCH, parseName } from "../names.ts";
import { writeSnapshot } from "../objects.ts";
import type { CreateResult, LongOptions } from "../results.ts";
import { listVersion } from "../tombstones.ts";
import { companions } from "../workspace.ts";
import { createBranch } from "./lineage.ts";

/** A history begins at this txid: a chain's first object is a snapshot, and 0 is before everything. */
const FIRST_TXID = 1;
/** How long a copy waits for a writer of a source that is not in WAL mode. */
const SOURCE_BUSY_TIMEOUT_MS = 5_000;
/** The most pages that one step takes, 8 TB at 4 KiB: in one step a busy writer cannot make the copy start over. */
const ALL_PAGES = 2 ** 31 - 1;
/** SQLITE_READONLY_ROLLBACK: a killed writer's journal has to be played back first, which needs writing. */
const HOT_JOURNAL = 776;

/**
 * Makes `db@main`. With `from`, from a consistent copy of an SQLite file that others may be using: they are
 * not blocked for longer than any reader would, and the file is not changed.
 *
 * @throws {TaskdError} `already_exists`; of `from` `not_found`, `not_a_database`, `corrupt` or `busy`.
 */
export async function create(
  context: StoreContext,
  db: string,
  options: { from?: string; force?: boolean } & LongOptions = {},
): Promise<CreateResult> {
  parseName(db, "database");
  if (await context.refs.find(db, DEFAULT_BRANCH)) {
    throw new TaskdError("already_exists", `Cannot create the database ${db}: it exists already`, {
      hint: "Choose another name, or destroy its branches first",
    });
  }
  const since = await listVersion(context.backend);
  const path = context.workspace.beside(join(context.workspace.root, "tmp", "create"));
  createEmptyFile(path);
  try {
    if (options.from !== undefined) await copyLive(options.from, path);
    if (options.from !== undefined && !options.force) refuseDamaged(options.from, path);
    const had_wal = options.from === undefined || (readHeader(path)?.write_version ?? 2) !== 1;
    makeWal(path);
    using image = ImageFile.open(path);
    const lineage = newLineage(context);
    const snapshot = { txid: FIRST_TXID, image, clone_path: path, ...options };
    const { head, stored_bytes } = await writeSnapshot(context.backend, { lineage, epoch: 1 }, snapshot);
    const { txid, digest } = head;
    const address = { db, branch: DEFAULT_BRANCH };
    const journal = had_wal ? {} : { journal: "rollback" as const };
    const ref = { lineage, epoch: 1, txid, digest, checkpoints: [], touched_at: isoNow(context), ...journal };
    await createBranch(context, address, ref, { since });
    return { ...address, txid, size_bytes: image.page_size * image.page_count, stored_bytes };
  } finally {
    for (const file of [path, ...companions(path)]) discard(file);
  }
}

/** What a history begins with is what every later branch stands on, and damage that is found later looks like rot. */
function refuseDamaged(from: string, path: string): void {
  const [problem] = integrityCheck(path);
  if (problem === undefined) return;
  throw new TaskdError("corrupt", `Cannot take ${from}: it is damaged: ${problem}`, {
    hint: `Recover it first, sqlite3 ${
      shellWord(from)
    } .recover | sqlite3 recovered.db, or add --force to take it as it is`,
  });
}

/** Copies a database through SQLite, which sees what is committed and nothing else. */
async function copyLive(from: string, to: string): Promise<void> {
  const attempted = `Cannot copy ${from}`;
  const info = plainSource(from);
  // SQLite takes any file of a few bytes for an empty database.
  if (info.size < MIN_DATABASE_BYTES) {
    throw new TaskdError("not_a_database", `${attempted}: it has ${info.size} bytes, too few for a database`, {
      hint: "Leave --from out to begin with an empty database",
    });
  }
  const still = `${to}.still`;
  try {
    using source = await openSource(from, still, attempted);
    await backup(source, to, { rate: ALL_PAGES });
  } catch (error) {
    throw sqliteError(error, attempted, { opened: true });
  } finally {
    for (const file of [still, ...companions(still)]) discard(file);
  }
}

function plainSource(from: string): Deno.FileInfo {
  try {
    return requirePlainDatabase(from);
  } catch (error) {
    if (!hasCode(error, "denied")) throw error;
    throw new TaskdError("denied", error.message, { cause: error, hint: "Name a plain file" });
  }
}

/** Opens the source; `still` is the name for a copy of one that cannot be opened where it lies. */
async function openSource(from: string, still: string, attempted: string): Promise<DatabaseSync> {
  const open = (path: string) => {
    const source = new DatabaseSync(path, { readOnly: true, timeout: SOURCE_BUSY_TIMEOUT_MS });
    try {
      source.prepare("SELECT rootpage FROM sqlite_schema LIMIT 1").get();
      return source;
    } catch (error) {
      source.close();
      throw error;
    }
  };
  try {
    return open(openName(from, { mode: "ro" }));
  } catch (error) {
    if ((error as { errcode?: number }).errcode === HOT_JOURNAL) {
      throw new TaskdError("denied", `${attempted}: a transaction in it was interrupted and is not rolled back yet`, {
        cause: error,
        hint: "Open it once with any SQLite client, which rolls it back, then try again",
      });
    }
    const wrapped = sqliteError(error, attempted);
    if (wrapped.code !== "not_found") throw wrapped;
    // SQLite reads a database in WAL mode only where it can make a -shm beside it.
    if (hasWal(from)) {
      throw new TaskdError("denied", `${attempted}: ${from}-wal can be read only where its directory can be written`, {
        cause: error,
        hint: "Copy both files, while no program writes to them, to a directory that you can write, and name the copy",
      });
    }
    await copyStill(from, still);
    return open(openName(still, { mode: "ro" }));
  }
}

/** Every stored image is in WAL mode, so that opening a session on its checkout changes no byte. */
function makeWal(path: string): void {
  const connection = new Connection(path, { busy_timeout_ms: 0 });
  try {
    connection.run("PRAGMA journal_mode=WAL");
  } finally {
    connection.close();
  }
  // On a full disk the pragma still returns "wal".
  if ((stampFile(path)?.size ?? 0) < MIN_DATABASE_BYTES) {
    throw new TaskdError("no_space", `Cannot write ${path}: its first page did not fit`, {
      hint: "Free space on the disk, then try again",
    });
  }
}
