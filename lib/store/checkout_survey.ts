/**
 * What the files of a checkout hold, against what the store says: read without SQLite, which would change them.
 */

import { CheckoutFile } from "../sqlite/checkout_file.ts";
import { compareLog, type LogReport } from "../sqlite/log_place.ts";
import type { DatabaseImage, WalMark } from "../sqlite/wal_tail.ts";
import type { PageChecksums } from "./page_checksums.ts";

/** Opens the files of a checkout for raw reads, lets `work` read them, and closes them. */
export async function withRawFiles<T>(path: string, work: (file: CheckoutFile) => T | Promise<T>): Promise<T> {
  using file = CheckoutFile.open(path, { busy_timeout_ms: 0, min_bytes: 0 });
  return await work(file);
}

/**
 * Compares main file and log up to a place with the head that ends there.
 *
 * @returns Undefined when a page that no later commit has is not the head's.
 */
export async function surveyPages(
  file: CheckoutFile,
  { marks, page_size, checksums }: { marks: readonly WalMark[]; page_size: number; checksums: PageChecksums },
): Promise<LogReport | undefined> {
  const readPages: DatabaseImage["readPages"] = (first, count, into) => {
    const bytes = into.subarray(0, count * page_size);
    bytes.fill(0, file.readMain((first - 1) * page_size, bytes));
  };
  const others: number[] = [];
  const image = { page_size, page_count: checksums.page_count, readPages };
  for await (const pgno of checksums.differences(image)) others.push(pgno);
  // Read last: what was folded into the main file meanwhile is in the log, too.
  const report = compareLog(file, marks);
  const { place, before, after } = report;
  const dropped = after?.low_page_count ?? Infinity;
  if (place !== "reached") return report;
  return others.every((pgno) => pgno > dropped || before?.pages.has(pgno) || after?.pages.has(pgno))
    ? report
    : undefined;
}
