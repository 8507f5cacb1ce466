/**
 * export, diff and verify: what reads a branch's stored content and changes nothing.
 */

import { Buffer } from "node:buffer";
import { dirname, join } from "node:path/posix";
import { nextTurn } from "../../clock.ts";
import { hasCode, TaskdError } from "../../errors.ts";
import { discard, fileError, fsyncDirectory, removeIfPresent } from "../../fs.ts";
import { placeInside, resolve } from "../../real_path.ts";
import { ImageFile, stampFile } from "../../sqlite/checkout_file.ts";
import { integrityCheck } from "../../sqlite/integrity.ts";
import { diffRows } from "../../sqlite/row_diff.ts";
import { pointAt, pointIn, type StoreContext } from "../context.ts";
import { materialize } from "../materialize.ts";
import { type Address, formatAddress, type Txid } from "../names.ts";
import type { DiffResult, LongOptions, VerifyResult } from "../results.ts";

/** Bytes compared at once. */
const COMPARE_BYTES = 1 << 20;

/** The store's own files and folders in its directory. */
const OWN_PARTS: ReadonlySet<string> = new Set(
  "bstore.json copying.json workspace.json refs data gc checkouts checkouts-ro holders tmp daemon.lock .taskd".split(
    " ",
  ),
);

/** Answer of export. */
export interface ExportResult {
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
  options: { force?: boolean } & LongOptions = {},
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
    if (options.force) {
      // A -wal that was left beside the old file must never meet the new one.
      for (const suffix of ["-wal", "-shm", "-journal"]) {
        removeIfPresent(file + suffix);
      }
      Deno.renameSync(temporary, file);
    } else {
      // link, unlike rename, refuses a file that has come up meanwhile.
      Deno.linkSync(temporary, file);
      Deno.removeSync(temporary);
    }
    await syncFolder(dirname(file));
  } catch (error) {
    discard(temporary);
    throw fileError(error, attempted);
  }
  return { path: file, txid: point.head.txid, size_bytes: built.size_bytes };
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
  if (!found.isFile) {
    throw new TaskdError("denied", `${attempted}: it is not a plain file`);
  }
  if (!force) {
    throw new TaskdError("already_exists", `${attempted}: it exists already`, { hint });
  }
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
  options: { tables?: string[]; rows?: number } & LongOptions = {},
): Promise<DiffResult> {
  const answer = { a: formatAddress(a), b: formatAddress(b) };
  const [left, right] = [await pointAt(context, a), await pointAt(context, b)];
  if (left.chain.id === right.chain.id) {
    return { ...answer, identical: true, pages_changed: 0, tables: [] };
  }
  using left_image = await context.cache.image(a.db, left.chain, left.head.digest, options);
  using right_image = await context.cache.image(b.db, right.chain, right.head.digest, options);
  const pages_changed = await countChangedPages(left_image.path, right_image.path);
  if (pages_changed === 0) {
    return { ...answer, identical: true, pages_changed, tables: [] };
  }
  const tables = await diffRows(left_image.path, right_image.path, {
    ...(options.tables === undefined ? {} : { tables: options.tables }),
    ...(options.rows === undefined ? {} : { rows: options.rows }),
    signal: options.signal,
  });
  return { ...answer, identical: false, pages_changed, tables };
}

async function countChangedPages(left: string, right: string): Promise<number> {
  const [a, b] = [ImageFile.open(left), ImageFile.open(right)];
  try {
    if (a.page_size !== b.page_size) {
      return Math.max(a.page_count, b.page_count);
    }
    const shared = Math.min(a.page_count, b.page_count);
    const most = Math.max(1, Math.floor(COMPARE_BYTES / a.page_size));
    const [a_bytes, b_bytes] = [new Uint8Array(most * a.page_size), new Uint8Array(most * a.page_size)];
    let changed = Math.abs(a.page_count - b.page_count);
    for (let first = 1; first <= shared; first += most) {
      const count = Math.min(most, shared - first + 1);
      a.readPages(first, count, a_bytes);
      b.readPages(first, count, b_bytes);
      for (let at = 0; at < count * a.page_size; at += a.page_size) {
        const end = at + a.page_size;
        if (Buffer.compare(a_bytes.subarray(at, end), b_bytes.subarray(at, end)) !== 0) changed++;
      }
      await nextTurn();
    }
    return changed;
  } finally {
    a.close();
    b.close();
  }
}

/** Rebuilds an address from its objects, checks every checksum and runs SQLite's integrity_check on the result. */
export async function verify(
  context: StoreContext,
  address: Address,
  options: LongOptions = {},
): Promise<VerifyResult> {
  const { db, branch } = address;
  const answer: VerifyResult = { db, branch, txid: 0, ok: false, objects: 0, pages: 0, problems: [] };
  const path = context.workspace.beside(join(context.workspace.root, "tmp", "verify"));
  try {
    // What was remembered of the chain is not evidence.
    context.chains.forget();
    const { ref } = await context.refs.read(db, branch);
    answer.txid = ref.txid;
    const point = await pointIn(context, address, ref);
    answer.txid = point.head.txid;
    answer.objects = point.chain.objects.length;
    const built = await materialize(context.backend, point.chain, point.head.digest, path, options);
    answer.pages = built.page_count;
    answer.problems = integrityCheck(path);
  } catch (error) {
    if (!hasCode(error, "corrupt", "chain_gap", "unsupported_format") && !isMissingObject(error)) {
      throw error;
    }
    answer.problems = [(error as Error).message];
  } finally {
    discard(path);
  }
  answer.ok = answer.problems.length === 0;
  return answer;
}

/** An object that is listed and then gone, or a lost companion, is a finding about the store. */
function isMissingObject(error: unknown): boolean {
  return hasCode(error, "not_found") && /data\/[0-9a-f]{32}\//.test(error.message);
}
