/**
 * Unpacks answers that come compressed in spite of what was asked for: packed they could not be metered, and could
 * carry what has to be kept out of them. A few bytes can unpack to many, so the sum is bounded.
 */

import type { IncomingMessage } from "node:http";
import type { Readable, Transform } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";

/** Bytes of an answer once it is unpacked; more than any model writes. */
export const MAX_UNPACKED_BYTES = 64 << 20;
const MAX_CODINGS = 4;

const CODINGS: Readonly<Record<string, () => Transform>> = {
  "gzip": createGunzip,
  "x-gzip": createGunzip,
  "deflate": createInflate,
  "br": createBrotliDecompress,
  "zstd": createZstdDecompress,
};

/** The codings of an answer that are not those of every answer, in the order they were applied; nothing has none. */
export function codingsOf({ headers }: Pick<IncomingMessage, "headers">): string[] {
  if (headers["content-length"] === "0") return [];
  const list = (value: string | string[] | undefined) =>
    [value ?? []].flat().join(",").split(",").map((each) => each.trim().toLowerCase()).filter((each) => each !== "");
  return [...list(headers["content-encoding"]), ...list(headers["transfer-encoding"])]
    .filter((coding) => coding !== "identity" && coding !== "chunked");
}

/**
 * The answer's bytes as they were before the codings; undefined when one is not known. What breaks off, or is not what
 * it says, ends with an error.
 */
export function unpacked(incoming: IncomingMessage, codings: readonly string[]): Readable | undefined {
  if (codings.length > MAX_CODINGS || codings.some((coding) => !Object.hasOwn(CODINGS, coding))) return undefined;
  let source: Readable = incoming;
  for (const coding of codings.toReversed()) {
    const from = source;
    const decoder = CODINGS[coding]!();
    from.on("error", (error: Error) => decoder.destroy(error));
    from.once("close", () => {
      // An answer that breaks off closes without an end.
      if (!from.readableEnded) decoder.destroy(new Error("The answer broke off"));
    });
    from.pipe(decoder);
    source = decoder;
  }
  return source;
}
