/**
 * How the -wal beside a database stands to a place that was recorded in it. Read from the file alone, before SQLite opens
 * the database: that would take the log, whatever it is, for the truth, and fold it into the main file.
 */

import { CheckoutFile } from "./checkout_file.ts";
import type { WalMark } from "./_log_cursor.ts";
import { LogReader } from "./_log_reader.ts";
import { WAL_FRAME_HEADER_BYTES, type WalCommit, walFrameBytes, type WalHeader, walStart } from "./wal.ts";

/**
 * At each new start of a log SQLite adds one to the first salt. One within these many of the recorded salt was started
 * after, or before it; others were begun by a new file, whose salts are random.
 */
const STARTS = { after: 1 << 20, before: 1 << 10 };

/** How often a log is read that an application starts over, or cuts off, at that moment. */
const TRIES = 8;

export type LogPlace =
  /** It holds all up to the place. */
  | "reached"
  /** It ends before the place, goes another way to it, or is of an earlier start: it has lost what it held. */
  | "behind"
  /** It was started over since, which SQLite does when the main file has all of it. */
  | "restarted"
  /** There is none, or one that was begun anew, or cannot be followed: it proves nothing. */
  | "unrelated";

export interface LogReport {
  place: LogPlace;
  /** The place that it was compared with. */
  mark?: WalMark;
  page_size?: number;
  /** Of a place that is reached: the commits before it, null when it is at the start, and the commits after it. */
  before?: WalCommit | null;
  after?: WalCommit;
}

/** Compares a log with places at which one and the same content ends; the best report counts. */
export function compareLog(file: CheckoutFile, marks: readonly WalMark[]): LogReport {
  const reports = marks.map((mark) => compareWith(file, mark));
  for (const place of ["reached", "behind", "restarted"] as const) {
    const found = reports.find((report) => report.place === place);
    if (found) return found;
  }
  return { place: "unrelated" };
}

/** Whether the log of the database at `path`, if it has one, holds all up to `mark` and no commit after it. */
export function logEndsAt(path: string, mark: WalMark): boolean {
  using file = CheckoutFile.open(path, { busy_timeout_ms: 0 });
  const { place, after } = compareWith(file, mark);
  return place === "reached" && after === undefined;
}

function compareWith(file: CheckoutFile, mark: WalMark): LogReport {
  const log = new LogReader(file);
  for (let tries = 0; tries < TRIES; tries++) {
    const header = log.header();
    const report: LogReport = header ? placeIn(file, header, mark) : { place: "unrelated", mark };
    const now = log.header();
    if (header?.salt1 === now?.salt1 && header?.salt2 === now?.salt2) return report;
  }
  return { place: "unrelated", mark };
}

function placeIn(file: CheckoutFile, header: WalHeader, mark: WalMark): LogReport {
  const log = new LogReader(file);
  if (header.salt1 !== mark.salt1 || header.salt2 !== mark.salt2) return { place: ofOtherStart(header, mark), mark };
  const start = walStart(header);
  const before = log.commits(header, start, mark.offset);
  const end = before?.end ?? start;
  if (end.offset !== mark.offset || end.checksum1 !== mark.checksum1 || end.checksum2 !== mark.checksum2) {
    return { place: hasUnprovedFrame(file, header, end.offset) ? "unrelated" : "behind", mark };
  }
  const after = log.commits(header, end, Infinity);
  const { page_size } = header;
  return { place: "reached", mark, page_size, before: before ?? null, ...(after ? { after } : {}) };
}

/** All commits in the log of a database whose pages have this size; undefined when there are none. */
export function committedPages(file: CheckoutFile, page_size: number): WalCommit | undefined {
  const log = new LogReader(file);
  const header = log.header();
  return header?.page_size === page_size ? log.commits(header, walStart(header), Infinity) : undefined;
}

/** Where all commits in the log of a database with pages of this size end; undefined when there is no such log. */
export function logEnd(file: CheckoutFile, page_size: number): WalMark | undefined {
  const header = new LogReader(file).header();
  if (header?.page_size !== page_size) return undefined;
  const end = committedPages(file, page_size)?.end ?? walStart(header);
  return { ...end, salt1: header.salt1, salt2: header.salt2 };
}

function ofOtherStart(header: WalHeader, mark: WalMark): LogPlace {
  const starts = (header.salt1 - mark.salt1) | 0;
  if (starts > 0 && starts <= STARTS.after) return "restarted";
  return starts < 0 && -starts <= STARTS.before ? "behind" : "unrelated";
}

/** Older libraries leave frames without salts and checksums in a commit, which SQLite's index alone says to count. */
function hasUnprovedFrame(file: CheckoutFile, header: WalHeader, from: number): boolean {
  const bytes = new Uint8Array(WAL_FRAME_HEADER_BYTES);
  const view = new DataView(bytes.buffer);
  for (let offset = from; file.readWal(offset, bytes) === bytes.length; offset += walFrameBytes(header)) {
    const [pgno, salt1, salt2] = [view.getUint32(0), view.getUint32(8), view.getUint32(12)];
    if (pgno !== 0 && salt1 === 0 && salt2 === 0) return true;
    if (salt1 !== header.salt1 || salt2 !== header.salt2) return false;
  }
  return false;
}
