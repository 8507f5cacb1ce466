/**
 * Reads the database that a main file and a part of its log make together: bookkeeping of wal_tail.ts.
 */

import type { CheckoutFile } from "./checkout_file.ts";
import { lockPage } from "./header.ts";
import { RebaseNeeded } from "./_log_cursor.ts";

/** A consistent database image, readable until the tail's next takeover. */
export interface DatabaseImage {
  page_size: number;
  page_count: number;
  /** Fills `into` with whole pages from `first` on; the lock page reads as zeros. */
  readPages(first: number, count: number, into: Uint8Array): void;
}

/** The image whose pages lie in the log where `overlay` has an offset, else in the main file. */
export function logImage(
  file: CheckoutFile,
  { page_size, page_count, overlay }: {
    page_size: number;
    page_count: number;
    overlay: ReadonlyMap<number, number>;
  },
): DatabaseImage {
  const lock = lockPage(page_size);
  return {
    page_size,
    page_count,
    readPages: (first, count, into) => {
      const bytes = into.subarray(0, count * page_size);
      const filled = file.readMain((first - 1) * page_size, bytes);
      for (let pgno = first; pgno < first + count; pgno++) {
        const page = bytes.subarray((pgno - first) * page_size, (pgno - first + 1) * page_size);
        const offset = overlay.get(pgno);
        if (pgno === lock) page.fill(0);
        else if (offset === undefined) {
          if ((pgno - first + 1) * page_size > filled) throw new RebaseNeeded("the database file was cut short");
        } else if (file.readWal(offset, page) < page_size) {
          throw new RebaseNeeded("the write-ahead log is shorter than it was");
        }
      }
    },
  };
}

/** The same image with these pages, in ascending order, in memory: the file and its log are no longer needed for them. */
export function readAhead(image: DatabaseImage, pages: readonly number[]): DatabaseImage {
  const { page_size } = image;
  const bytes = new Uint8Array(pages.length * page_size);
  const places = new Map(pages.map((pgno, i) => [pgno, i * page_size]));
  for (const [pgno, at] of places) image.readPages(pgno, 1, bytes.subarray(at, at + page_size));
  return {
    ...image,
    readPages: (first, count, into) => {
      const at = places.get(first)!;
      into.set(bytes.subarray(at, at + count * page_size));
    },
  };
}
