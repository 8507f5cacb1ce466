/**
 * The facts that the first 100 bytes of an SQLite database state about it, the
 * page that SQLite never uses, and paths as SQLite's `file:` URIs. Pure: nothing
 * here opens a file. The numbers are those of https://sqlite.org/fileformat2.html.
 */

/** Bytes of the header at the start of page 1. */
export const DATABASE_HEADER_BYTES = 100;

const LOCK_BYTE_OFFSET = 2 ** 30;
const MAGIC = "SQLite format 3\0";

/** The header's fields that matter to a reader of the bytes. */
export interface DatabaseHeader {
  page_size: number;
  /** File format version for writing: 1 is a rollback journal, 2 is WAL. */
  write_version: number;
  /** Counts changes made outside WAL mode. */
  change_counter: number;
  /** Pages of the database; believable only if `version_valid_for` equals `change_counter`. */
  page_count: number;
  /** The change counter at the time `page_count` was written. */
  version_valid_for: number;
}

/** Whether `n` is a page size that SQLite can have: a power of two, 512 to 65536. */
export function isPageSize(n: number): boolean {
  return Number.isInteger(n) && n >= 512 && n <= 65536 && (n & (n - 1)) === 0;
}

/** Number of the page that covers the lock bytes at 2^30: SQLite neither reads nor writes it. */
export function lockPage(page_size: number): number {
  return Math.floor(LOCK_BYTE_OFFSET / page_size) + 1;
}

/**
 * Reads the header of a database.
 *
 * @param bytes The beginning of the file; what follows the first 100 bytes is ignored.
 * @returns Undefined when SQLite would not take the file for a database.
 */
export function parseDatabaseHeader(bytes: Uint8Array): DatabaseHeader | undefined {
  if (bytes.length < DATABASE_HEADER_BYTES) return undefined;
  for (let i = 0; i < MAGIC.length; i++) {
    if (bytes[i] !== MAGIC.charCodeAt(i)) return undefined;
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, DATABASE_HEADER_BYTES);
  const stored = view.getUint16(16);
  // 65536 does not fit in the two bytes and is written as 1.
  const page_size = stored === 1 ? 65536 : stored;
  if (!isPageSize(page_size)) return undefined;
  // SQLite refuses any other payload fractions.
  if (view.getUint8(21) !== 64 || view.getUint8(22) !== 32 || view.getUint8(23) !== 32) return undefined;
  // No text encoding has another number.
  if (view.getUint32(56) > 3) return undefined;
  return {
    page_size,
    write_version: view.getUint8(18),
    change_counter: view.getUint32(24),
    page_count: view.getUint32(28),
    version_valid_for: view.getUint32(92),
  };
}

/** How a database is to be opened; see https://sqlite.org/uri.html. */
export interface UriOptions {
  /** `rw` never creates a missing file, which an ordinary open does. */
  mode?: "ro" | "rw";
  /** Asserts that no process changes the file: SQLite takes no locks and ignores a -wal. */
  immutable?: boolean;
}

/**
 * Writes a path as an SQLite URI, with the characters quoted that would end or change it.
 *
 * Only a process with every permission can open it: see `open_name.ts`.
 *
 * @param path An absolute or relative path, never a URI.
 */
export function uriPath(path: string, options: UriOptions = {}): string {
  const quoted = path.replace(/[%?#]/g, (char) => `%${char.charCodeAt(0).toString(16)}`);
  const parameters: string[] = [];
  if (options.mode !== undefined) parameters.push(`mode=${options.mode}`);
  if (options.immutable) parameters.push("immutable=1");
  const query = parameters.length === 0 ? "" : `?${parameters.join("&")}`;
  // The empty authority keeps a path that begins with // from being read as one.
  return `file:${quoted.startsWith("/") ? "//" : ""}${quoted}${query}`;
}
