/**
 * Databases with a tail on their log, applications that write to them, and what the tail makes of it.
 */

import { crc32 } from "node:zlib";
import { assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { CheckoutFile } from "../../lib/sqlite/checkout_file.ts";
import { type DatabaseImage, WalTail } from "../../lib/sqlite/wal_tail.ts";
import { rows, sql, withDirectory } from "./stores.ts";
import { Writer } from "./writers.ts";

/** What a test of a tail works with. */
export interface Followed {
  /** The database. */
  path: string;
  file: CheckoutFile;
  tail: WalTail;
  /** For files of the test's own. */
  directory: string;
}

interface FollowedOptions {
  page_size?: number;
  before?: string[];
}

/** A database `t(v)` in WAL mode with a tail on it. */
export async function followed(
  work: (followed: Followed) => Promise<void> | void,
  options: FollowedOptions = {},
): Promise<void> {
  await withDirectory((directory) => followIn(directory, work, options));
}

/** The same, with the database in `place`. */
export async function followIn(
  place: string,
  work: (followed: Followed) => Promise<void> | void,
  { page_size = 4096, before = [] }: FollowedOptions = {},
): Promise<void> {
  await withDirectory(async (directory) => {
    const path = `${place}/x.db`;
    sql(path, `PRAGMA page_size=${page_size}`, "PRAGMA journal_mode=WAL", "CREATE TABLE t(v)", ...before);
    const file = CheckoutFile.open(path, { busy_timeout_ms: 500 });
    try {
      const { tail } = WalTail.attach(file);
      await work({ path, file, tail, directory });
    } finally {
      file.close();
    }
  });
}

/** Takes salts and checksums from the frame at `offset`, as libraries like 3.40 leave it after a rollback to a savepoint. */
export function unprove(path: string, offset: number): void {
  using wal = Deno.openSync(`${path}-wal`, { write: true });
  wal.seekSync(offset + 8, Deno.SeekMode.Start);
  wal.writeSync(new Uint8Array(16));
}

/** An application of its own process, so that its locks are not ours. */
export async function withApplication(path: string, work: (run: (...sql: string[]) => Promise<void>) => Promise<void>) {
  const writer = await Writer.start("shell", path);
  let seq = 0;
  try {
    await work(async (...statements) => {
      const { result, text } = await writer.run({ seq: ++seq, kind: "plain", sql: statements });
      assertEquals(result, "ack", text);
    });
    assertEquals(writer.complaints, "");
  } finally {
    await writer.end();
  }
}

/** Every byte of an image. */
export function bytesOf(image: DatabaseImage): Uint8Array {
  const bytes = new Uint8Array(image.page_count * image.page_size);
  image.readPages(1, image.page_count, bytes);
  return bytes;
}

/** What the rows are in the image, as SQLite sees it. */
export function rowsIn(image: DatabaseImage, directory: string, query = "SELECT v FROM t ORDER BY rowid"): string {
  const path = `${directory}/image-${crypto.randomUUID()}.db`;
  Deno.writeFileSync(path, bytesOf(image));
  assertEquals(rows(path, "PRAGMA integrity_check"), "ok");
  return rows(path, query);
}

/** A copy of a database that changes are applied to, as a reader of segments does. */
export class Replica {
  #bytes: Uint8Array;

  constructor(image: DatabaseImage) {
    this.#bytes = bytesOf(image);
  }

  /**
   * Applies what changed and holds the result against the whole image, and what the tail kept of before against itself.
   * The tail must find every page of the main file explained by what it read: nothing but SQLite has written to it.
   *
   * @returns How many of the pages it kept.
   */
  follow(tail: WalTail): number {
    const image = tail.image();
    const { page_size } = image;
    const known = this.#bytes.length / page_size;
    const stored = (pgno: number) =>
      pgno > known ? undefined : crc32(this.#bytes.subarray((pgno - 1) * page_size, pgno * page_size));
    tail.assertExplained(1, image.page_count, stored, new Uint8Array(image.page_count * page_size));
    const { pages, page_count, before = new Map() } = tail.take();
    for (const [pgno, page] of before) {
      const was = this.#bytes.subarray((pgno - 1) * image.page_size, pgno * image.page_size);
      assertEquals(Buffer.compare(page, was), 0, `page ${pgno} was not what the tail kept as the page before`);
    }
    const grown = new Uint8Array(page_count * image.page_size);
    grown.set(this.#bytes.subarray(0, grown.length));
    for (const pgno of pages) {
      image.readPages(pgno, 1, grown.subarray((pgno - 1) * image.page_size));
    }
    this.#bytes = grown;
    assertEquals(Buffer.compare(grown, bytesOf(image)), 0, "what changed and the whole image differ");
    return before.size;
  }
}
