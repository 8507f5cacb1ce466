/**
 * Which pages of an image were changed, by their bytes: of 2^32 other pages one has the same checksum.
 */

import { Buffer } from "node:buffer";
import { nextTurn } from "../clock.ts";
import { throwIfInterrupted } from "../errors.ts";
import type { DatabaseImage } from "./_log_image.ts";
import { lockPage } from "./header.ts";
import { pageRuns, RUN_BYTES } from "./page_runs.ts";

/** The pages of an image that are not as in an earlier one with pages of that size, ascending; never the lock page. */
export async function changedPages(
  before: DatabaseImage,
  now: DatabaseImage,
  options: { onProgress?: (done_bytes: number, total_bytes: number) => void; signal?: AbortSignal | undefined } = {},
): Promise<number[]> {
  const { page_size, page_count } = now;
  const lock = lockPage(page_size);
  const old_bytes = new Uint8Array(Math.max(RUN_BYTES, page_size));
  const changed: number[] = [];
  for (const [first, bytes] of pageRuns(now)) {
    const count = bytes.length / page_size;
    const known = Math.max(0, Math.min(count, before.page_count - first + 1));
    if (known > 0) before.readPages(first, known, old_bytes);
    for (let i = 0; i < count; i++) {
      const [from, to] = [i * page_size, (i + 1) * page_size];
      const same = i < known && Buffer.compare(old_bytes.subarray(from, to), bytes.subarray(from, to)) === 0;
      if (!same && first + i !== lock) changed.push(first + i);
    }
    options.onProgress?.((first + count - 1) * page_size, page_count * page_size);
    await nextTurn();
    throwIfInterrupted(options.signal);
  }
  return changed;
}
