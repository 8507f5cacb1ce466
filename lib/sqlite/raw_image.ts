/**
 * The database that a main file and its log make up, read without SQLite, which would change them: as SQLite finds it that
 * opens them first, with no index of the log to go by.
 */

import type { CheckoutFile } from "./checkout_file.ts";
import { lockPage } from "./header.ts";
import type { DatabaseImage } from "./_log_image.ts";
import { committedPages } from "./log_place.ts";
import type { WalCommit } from "./wal.ts";

/**
 * The database, readable for as long as the file is open.
 *
 * @param commit The commits in the log that count; all of them when absent, and none of them when null.
 * @throws {TaskdError} `not_a_database`
 */
export function rawImage(file: CheckoutFile, commit?: WalCommit | null): DatabaseImage {
  const { page_size, page_count: counted, version_valid_for, change_counter } = file.header();
  if (commit === undefined) commit = committedPages(file, page_size);
  // The count is void when an old library wrote last; SQLite then goes by the file's size.
  const is_valid = counted > 0 && version_valid_for === change_counter;
  const lock = lockPage(page_size);
  return {
    page_size,
    page_count: commit?.page_count ?? (is_valid ? counted : Math.floor(file.mainSize() / page_size)),
    readPages(first, count, into) {
      const bytes = into.subarray(0, count * page_size);
      bytes.fill(0, file.readMain((first - 1) * page_size, bytes));
      for (let i = 0; i < count; i++) {
        const page = bytes.subarray(i * page_size, (i + 1) * page_size);
        const offset = commit?.pages.get(first + i);
        if (offset !== undefined) file.readWal(offset, page);
        if (first + i === lock) page.fill(0);
      }
    },
  };
}
