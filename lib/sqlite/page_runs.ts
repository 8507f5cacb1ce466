/**
 * Reads a database image from its first page to its last, a piece at a time.
 */

import type { DatabaseImage } from "./_log_image.ts";

/** Bytes read at once, unless a page has more. */
export const RUN_BYTES = 1 << 20;

/** Runs of whole pages, each valid until the next is read. */
export function* pageRuns(image: DatabaseImage): Generator<[first: number, bytes: Uint8Array]> {
  const { page_size, page_count } = image;
  const most = Math.max(1, Math.floor(RUN_BYTES / page_size));
  const buffer = new Uint8Array(most * page_size);
  for (let first = 1; first <= page_count; first += most) {
    const count = Math.min(most, page_count - first + 1);
    const bytes = buffer.subarray(0, count * page_size);
    image.readPages(first, count, bytes);
    yield [first, bytes];
  }
}
