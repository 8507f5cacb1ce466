/**
 * Message bodies on their way from one connection to the other. Chunks are rewritten: extensions and trailers end
 * here, and the other side never sees a length that was not checked.
 */

import { type BufferedConnection, EndedEarly, TooLong } from "./_buffered_connection.ts";
import type { Framing } from "./http_head.ts";
import { Refused } from "./reasons.ts";

const CRLF = Uint8Array.of(13, 10);
/** Longest line of a chunk's size with its extensions, and of a trailer. */
const MAX_LINE_BYTES = 4 << 10;
const MAX_TRAILER_BYTES = 16 << 10;
const LAST_CHUNK = new TextEncoder().encode("0\r\n\r\n");

/** Passes a body on. `rechunk` is false when the receiver does not know chunks: it then gets the bare content. */
export async function passBody(
  from: BufferedConnection,
  to: BufferedConnection,
  framing: Framing,
  rechunk = true,
): Promise<void> {
  if (framing.by === "length") await from.pass(to, framing.bytes);
  else if (framing.by === "close") await from.passAll(to);
  else if (framing.by === "chunks") await passChunks(from, to, rechunk);
}

async function passChunks(from: BufferedConnection, to: BufferedConnection, rechunk: boolean): Promise<void> {
  for (;;) {
    const size = /^([0-9a-f]{1,12})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?$/i.exec(await line(from));
    if (size === null) throw new Refused("malformed");
    const bytes = parseInt(size[1]!, 16);
    if (bytes === 0) break;
    if (rechunk) await to.write(new TextEncoder().encode(`${bytes.toString(16)}\r\n`));
    await from.pass(to, bytes);
    if (await line(from) !== "") throw new Refused("malformed");
    if (rechunk) await to.write(CRLF);
  }
  let trailer_bytes = 0;
  for (let trailer = await line(from); trailer !== ""; trailer = await line(from)) {
    trailer_bytes += trailer.length;
    if (trailer_bytes > MAX_TRAILER_BYTES) throw new Refused("malformed");
  }
  if (rechunk) await to.write(LAST_CHUNK);
}

async function line(from: BufferedConnection): Promise<string> {
  try {
    const bytes = await from.takeUntil(CRLF, MAX_LINE_BYTES);
    if (bytes === undefined) throw new EndedEarly();
    return String.fromCharCode(...bytes);
  } catch (error) {
    if (error instanceof TooLong) throw new Refused("malformed");
    throw error;
  }
}
