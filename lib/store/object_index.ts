/**
 * Reads the index of an object of a chain, wherever its kind keeps it.
 */

import type { Backend } from "../backend/backend.ts";
import type { ChainObject } from "./chain.ts";
import { imageIndexKey } from "./keys.ts";
import { type ObjectIndex, readIndex } from "./object_file.ts";

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
