/**
 * export and diff: what reads a branch's stored content and changes nothing.
 */

import { dirname } from "node:path/posix";
import { TaskdError } from "../../errors.ts";
import { discard, fileError, fsyncDirectory, removeIfPresent } from "../../fs.ts";
import { placeInside, resolve } from "../../real_path.ts";
import { leaveWalMode, stampFile } from "../../sqlite/checkout_file.ts";
import type { RowPage } from "../../sqlite/diff_result.ts";
import { compareDatabases, differingRows } from "../../sqlite/row_diff.ts";
import { pointAt, type StoreContext } from "../context.ts";
import { takeFile } from "../file_in_use.ts";
import { leftOut } from "../left_out.ts";
import { materialize } from "../materialize.ts";
import { type Address, formatAddress, type Txid } from "../names.ts";
import type { DiffOptions, DiffResult, DiffRowsOptions, LeftOut, LongOptions, WaitOptions } from "../results.ts";

/** The store's own files and folders in its directory. */
const OWN_PARTS: ReadonlySet<string> = new Set(
  "bstore.json copying.json workspace.json scrub.json clock.json refs data gc checkouts checkouts-ro damaged holders tmp daemon.lock .taskd"
    .split(" "),
);

/** Answer of export. */
export interface ExportResult extends LeftOut {
  /** Absolute path of the file. */
  path: string;
  /** Transaction it holds. */
  txid: Txid;
  /** Bytes of the file. */
  size_bytes: number;
}

/** Writes the stored content of an address to a new file (0600), atomically and durably. */
export async function exportTo(
  context: StoreContext,
  address: Address,
  target: string,
  options: { force?: boolean } & WaitOptions & LongOptions = {},
): Promise<ExportResult> {
  const file = resolve(target);
  const point = await pointAt(context, address);
  const attempted = `Cannot export to ${file}`;
  const force = options.force === true;
  refuseOwn(context.workspace.root, file, attempted);
  refuseTarget(file, attempted, { force, hint: "Add --force to replace it" });
  // Its name is known beforehand, so that a process can be granted these paths and no folder.
  const temporary = `${file}.partial`;
  refuseTarget(temporary, `${attempted} by way of ${temporary}`, {
    force,
    hint: "If an export that was cut off has left it, remove it or add --force",
  });
  if (options.force) removeIfPresent(temporary);
  else for (const suffix of ["-wal", "-journal"]) refuseLeftLog(file + suffix, attempted);
  const built = await materialize(context.backend, point.chain, point.head.digest, temporary, options);
  try {
    if (point.ref.journal === "rollback") leaveWalMode(temporary);
    using old = await takeFile(file, attempted, { ...options, clock: context.clock });
    if (options.force) old.replace(temporary, ["-wal", "-shm", "-journal"].map((suffix) => file + suffix));
    else {
      // link, unlike rename, refuses a file that has come up meanwhile.
      Deno.linkSync(temporary, file);
      Deno.removeSync(temporary);
    }
    await syncFolder(dirname(file));
  } catch (error) {
    discard(temporary);
    throw fileError(error, attempted);
  }
  const size_bytes = built.page_size * built.page_count;
  return { path: file, txid: point.head.txid, size_bytes, ...await leftOut(context, point) };
}

/** An export with `force` replaces files, but never the store's objects or checkouts, whose edits are nowhere else. */
function refuseOwn(root: string, file: string, attempted: string): void {
  const place = placeInside(root, file);
  if (place === undefined || !OWN_PARTS.has(place.split("/")[0]!)) return;
  throw new TaskdError("denied", `${attempted}: it is one of the store's own files`, {
    hint: "Name a file outside the store's directory",
  });
}

/** Where permissions cover the file alone, its folder cannot be opened: the content is durable, the name soon. */
async function syncFolder(path: string): Promise<void> {
  try {
    await fsyncDirectory(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotCapable)) throw error;
  }
}

function refuseTarget(file: string, attempted: string, { force, hint }: { force: boolean; hint: string }): void {
  let found: Deno.FileInfo;
  try {
    found = Deno.lstatSync(file);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw fileError(error, attempted);
  }
  if (!found.isFile) throw new TaskdError("denied", `${attempted}: it is not a plain file`);
  if (!force) throw new TaskdError("already_exists", `${attempted}: it exists already`, { hint });
}

/** Refuses the log of a file that is gone: SQLite would take it for the new one's, and bring back what it holds. */
function refuseLeftLog(log: string, attempted: string): void {
  if ((stampFile(log)?.size ?? 0) === 0) return;
  throw new TaskdError("already_exists", `${attempted}: ${log} was left there by another database of that name`, {
    hint: "Move it away, or add --force to remove it",
  });
}

export async function diff(
  context: StoreContext,
  a: Address,
  b: Address,
  options: DiffOptions & LongOptions = {},
): Promise<DiffResult> {
  const [left, right] = [await pointAt(context, a), await pointAt(context, b)];
  const answer = {
    a: formatAddress(left.address),
    b: formatAddress(right.address),
    ...await leftOut(context, left, right),
  };
  // Names of tables are looked for also where nothing differs: a wrong one is no comparison.
  if (left.chain.id === right.chain.id && options.tables === undefined) {
    const same = { settings: [], definitions: [], tables: [], other_pages: [], problems: [] };
    return { ...answer, identical: true, pages_changed: 0, ...same };
  }
  using left_image = await context.cache.image(a.db, left.chain, left.head.digest, options);
  using right_image = await context.cache.image(b.db, right.chain, right.head.digest, options);
  const found = await compareDatabases(left_image.path, right_image.path, options);
  return { ...answer, identical: found.pages_changed === 0, ...found };
}

export async function diffRows(
  context: StoreContext,
  a: Address,
  b: Address,
  table: string,
  options: DiffRowsOptions & LongOptions = {},
): Promise<RowPage> {
  const [left, right] = [await pointAt(context, a), await pointAt(context, b)];
  using left_image = await context.held_images.take(a.db, left.chain, left.head.digest, options);
  using right_image = await context.held_images.take(b.db, right.chain, right.head.digest, options);
  return await differingRows(left_image.path, right_image.path, table, options);
}
