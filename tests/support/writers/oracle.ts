/**
 * What a database must be after stock writers have worked on it, read by the stock
 * sqlite3 shell in another process: never through the engine, and never in this
 * process, where closing a descriptor would drop a session's locks.
 */

import { exists } from "@std/fs/exists";
import { createHash } from "node:crypto";
import { ACCOUNTS, OPENING_BALANCE } from "./workload.ts";

/** What one inspection of a database found. */
export interface Findings {
  /** First line of `PRAGMA integrity_check`: `ok`. */
  integrity: string;
  /** Sequence numbers committed, by writer. */
  acknowledged: Map<number, Set<number>>;
  /** Sum of all accounts; {@linkcode EXPECTED_MONEY} unless a transaction was torn. */
  money: number;
  /** SHA-256 of the logical dump: schema and all rows of all tables, in key order. */
  digest: string;
}

/** What the accounts hold in all, at every commit. */
export const EXPECTED_MONEY = ACCOUNTS * OPENING_BALANCE;

/** Reads the database at `path` with the sqlite3 shell. A -wal beside it counts. */
export async function inspect(path: string): Promise<Findings> {
  const text = await sqlite3(path, [
    "PRAGMA integrity_check;",
    "SELECT sum(balance) FROM account;",
    "SELECT 'a', writer, seq FROM ack ORDER BY writer, seq;",
  ]);
  const lines = text.trimEnd().split("\n");
  const acknowledged = new Map<number, Set<number>>();
  for (const line of lines.slice(2)) {
    const [, writer, seq] = line.split("|").map(Number);
    const set = acknowledged.get(writer!) ?? new Set();
    acknowledged.set(writer!, set.add(seq!));
  }
  return { integrity: lines[0]!, money: Number(lines[1]), acknowledged, digest: await dumpDigest(path) };
}

/** SHA-256 of what `.dump` prints: two databases with equal digests hold the same schema and rows. */
export async function dumpDigest(path: string): Promise<string> {
  return createHash("sha256").update(await sqlite3(path, [".dump"])).digest("hex");
}

/** Runs the shell read-only on `path`; throws what it complains about. */
export async function sqlite3(path: string, commands: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command("sqlite3", {
    args: ["-batch", "-readonly", "-cmd", ".timeout 20000", path, ...commands],
  }).output();
  const complaint = new TextDecoder().decode(stderr).trim();
  if (!success || complaint !== "") throw new Error(`sqlite3 ${path}: ${complaint}`);
  return new TextDecoder().decode(stdout);
}

/** Runs the shell read-write on `path`: creates the file if need be. */
export async function sqlite3Write(path: string, sql: string): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command("sqlite3", {
    args: ["-batch", "-bail", "-cmd", ".timeout 20000", path, sql],
  }).output();
  if (!success) throw new Error(`sqlite3 ${path}: ${new TextDecoder().decode(stderr).trim()}`);
  return new TextDecoder().decode(stdout);
}

/**
 * Page numbers in which two database files differ. `source` may have a -wal: it is copied
 * first (by a subprocess) and the copy is checkpointed. Bytes that SQLite itself changes
 * without a transaction are left out: the journal mode, the change counter, the version stamps.
 */
export async function differingPages(source: string, image: string, scratch: string): Promise<number[]> {
  const copy = `${scratch}/source-copy.db`;
  await run("rm", "-f", copy, `${copy}-wal`, `${copy}-shm`);
  await run("cp", "--", source, copy);
  if (await exists(`${source}-wal`)) await run("cp", "--", `${source}-wal`, `${copy}-wal`);
  await sqlite3Write(copy, "PRAGMA wal_checkpoint(TRUNCATE)");
  const [a, b] = await Promise.all([Deno.readFile(copy), Deno.readFile(image)]);
  await run("rm", "-f", copy, `${copy}-wal`, `${copy}-shm`);
  for (const bytes of [a, b]) for (const [from, to] of UNSTABLE_HEADER_BYTES) bytes.fill(0, from, to);
  const size = pageSize(a);
  const pages: number[] = a.length === b.length ? [] : [0];
  for (let offset = 0, page = 1; offset < Math.max(a.length, b.length); offset += size, page++) {
    if (!equal(a.subarray(offset, offset + size), b.subarray(offset, offset + size))) pages.push(page);
  }
  return pages;
}

/** [from, to) in page 1: format versions, change counter, version-valid-for and library version. */
const UNSTABLE_HEADER_BYTES = [[18, 20], [24, 28], [92, 100]] as const;

function pageSize(bytes: Uint8Array): number {
  const stored = new DataView(bytes.buffer, bytes.byteOffset).getUint16(16);
  return stored === 1 ? 65536 : stored;
}

function equal(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let index = 0; index < a.length; index++) if (a[index] !== b[index]) return false;
  return true;
}

async function run(command: string, ...args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(command, { args, stdout: "null", stderr: "piped" }).output();
  if (!success) throw new Error(`${command}: ${new TextDecoder().decode(stderr).trim()}`);
}
