/**
 * Uploads of unknown or great length, and copies of objects that are too large for one
 * request: in parts, a bounded number of them in memory and under way. The object
 * appears with the last request or not at all.
 *
 * An upload that fails is aborted. One whose process dies is not: a lifecycle rule of the
 * bucket has to abort incomplete multipart uploads.
 */

import { BackendError } from "./backend.ts";
import { inParallel } from "../in_parallel.ts";
import type { S3Objects, S3Part } from "./_s3_objects.ts";
import { decide, type Write } from "./_s3_write.ts";

const PARTS_AT_ONCE = 2;
/** Copied parts under way at once: their bytes do not pass through here. */
const COPIES_AT_ONCE = 8;
const MAX_PARTS = 10_000;
/** Bytes of a copied part; more for objects that would have too many. */
const COPY_PART_BYTES = 512 * 1024 * 1024;

/** Uploads `parts`, all of one size but the last, as one object. */
export function uploadParts(objects: S3Objects, write: Write, parts: AsyncIterable<Uint8Array>): Promise<string> {
  const { key } = write;
  return inParts(objects, write, PARTS_AT_ONCE, async function* (upload) {
    let number = 0;
    for await (const bytes of parts) {
      const part = ++number;
      if (part > MAX_PARTS) {
        throw new BackendError("unavailable", key, `Cannot write ${key}: it has more than ${MAX_PARTS} parts`);
      }
      yield () => objects.uploadPart(key, upload, part, bytes);
    }
  });
}

/** Copies the object `from` in parts of at most `most` bytes. */
export function copyParts(
  objects: S3Objects,
  write: Write,
  from: { key: string; etag: string; size: number; most: number },
): Promise<string> {
  const part_bytes = Math.max(Math.min(COPY_PART_BYTES, from.most), Math.ceil(from.size / MAX_PARTS));
  return inParts(objects, write, COPIES_AT_ONCE, function* (upload) {
    for (let first = 0, number = 1; first < from.size; first += part_bytes, number++) {
      const source = { key: from.key, etag: from.etag, first, last: Math.min(first + part_bytes, from.size) - 1 };
      const part = number;
      yield () => objects.copyPart(write.key, upload, part, source);
    }
  });
}

type Jobs = Iterable<() => Promise<S3Part>> | AsyncIterable<() => Promise<S3Part>>;

async function inParts(
  objects: S3Objects,
  write: Write,
  at_once: number,
  jobs: (upload: string) => Jobs,
): Promise<string> {
  const { calls } = objects;
  const upload = await calls.repeated(() => objects.begin(write.key, write.mark));
  try {
    const parts: S3Part[] = [];
    await inParallel(jobs(upload), at_once, async (job) => void parts.push(await calls.repeated(job)));
    parts.sort((a, b) => a.PartNumber - b.PartNumber);
    return await decide(objects, write, () => objects.complete(write.key, upload, parts));
  } catch (error) {
    // A failure to abort is ignored: the bucket's lifecycle rule removes what stays.
    await objects.abandon(write.key, upload).catch(() => {});
    throw error;
  }
}

/** The chunks of a body, joined and cut to exactly `size` bytes each but the last. */
export async function* inPieces(
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  size: number,
): AsyncGenerator<Uint8Array> {
  let piece = new Uint8Array(0);
  let filled = 0;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length;) {
      // Grown by doubling, because most bodies end before the first piece is full.
      if (filled === piece.length) piece = grown(piece, Math.min(size, filled + chunk.length - at), size);
      const take = Math.min(piece.length - filled, chunk.length - at);
      piece.set(chunk.subarray(at, at + take), filled);
      at += take;
      filled += take;
      if (filled === size) {
        yield piece;
        piece = new Uint8Array(0);
        filled = 0;
      }
    }
  }
  if (filled > 0) yield piece.subarray(0, filled);
}

function grown(bytes: Uint8Array<ArrayBuffer>, at_least: number, at_most: number): Uint8Array<ArrayBuffer> {
  const larger = new Uint8Array(Math.min(at_most, Math.max(at_least, bytes.length * 2, 64 * 1024)));
  larger.set(bytes);
  return larger;
}
