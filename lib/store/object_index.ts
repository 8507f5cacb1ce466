/**
 * Reads the index of an object of a chain, wherever its kind keeps it, or all of the object against its checksums.
 */

import type { Backend } from "../backend/backend.ts";
import { corrupt } from "./_bytes.ts";
import { ChunkReader } from "./_chunk_reader.ts";
import type { ChainObject } from "./chain.ts";
import { imageIndexKey } from "./keys.ts";
import { type ObjectIndex, readIndex, readThrough, verifyImage } from "./object_file.ts";

const COMPARE_BYTES = 1 << 20;

/**
 * Reads and checks the index: of a plain image, the object beside it.
 *
 * @throws {TaskdError} `corrupt` or `unsupported_format`; the backend's own errors pass through.
 */
export async function readObjectIndex(backend: Backend, object: ChainObject): Promise<ObjectIndex> {
  const key = object.codec === "raw" ? imageIndexKey(object.key) : object.key;
  const size = object.codec === "raw" ? (await backend.head(key)).size : object.size;
  return await readIndex({ size, read: (offset, length) => backend.getRange(key, offset, length) });
}

/** Compares every byte of an object with its checksums, and makes nothing of them; errors as of {@linkcode readObjectIndex}. */
export async function readObjectThrough(
  backend: Backend,
  object: ChainObject,
  onBytes: (count: number) => void,
): Promise<ObjectIndex> {
  if (object.codec === "zst") {
    const { chunks, size } = await backend.getStream(object.key);
    return await readThrough(counted(chunks, onBytes), size);
  }
  const index = await readObjectIndex(backend, object);
  const { page_size, page_count } = index.header;
  const image = new ChunkReader(counted((await backend.getStream(object.key)).chunks, onBytes));
  try {
    const most = Math.max(1, Math.floor(COMPARE_BYTES / page_size));
    for (let pgno = 1; pgno <= page_count; pgno += most) {
      verifyImage(index, pgno, await image.take(Math.min(most, page_count - pgno + 1) * page_size));
    }
    if (!await image.ended()) throw corrupt(`it has more than ${page_count} pages`);
    return index;
  } finally {
    await image.close();
  }
}

export async function* counted(chunks: AsyncIterable<Uint8Array>, onBytes: (count: number) => void) {
  for await (const chunk of chunks) {
    onBytes(chunk.length);
    yield chunk;
  }
}
