/**
 * Reads a request's body whole before anything of it goes on: bounded as it arrives and
 * again as it is unpacked, since what was checked has to be what is sent.
 */

import type { IncomingMessage } from "node:http";
import { promisify } from "node:util";
import { gunzip, zstdDecompress } from "node:zlib";
import { Refusal } from "./refusal.ts";
import type { MemoryShare } from "./shared_memory.ts";
import { GatheredBytes } from "../../lib/gathered_bytes.ts";

/** Bytes of a body, packed or not: the design's number. */
export const MAX_BODY_BYTES = 16 << 20;
/** Bytes of bodies that are held at once, of all tasks together; a quarter of them for one. */
export const MAX_HELD_BYTES = 256 << 20;

type Unpack = (bytes: Uint8Array, options: { maxOutputLength: number }) => Promise<Uint8Array>;
const ENCODINGS: Readonly<Record<string, Unpack>> = {
  gzip: promisify(gunzip) as Unpack,
  zstd: promisify(zstdDecompress) as Unpack,
};

export class ClientGone extends Error {
  override name = "ClientGone";
}

/** A body in memory; its holder releases it. */
export interface HeldBody extends Disposable {
  bytes: Uint8Array;
}

/** Reads the body of a POST as the bytes of JSON; throws a {@linkcode Refusal} or {@linkcode ClientGone}. */
export async function readJsonBody(request: IncomingMessage, memory: MemoryShare): Promise<HeldBody> {
  checkContentType(request.headers["content-type"]);
  const encoding = request.headers["content-encoding"]?.trim().toLowerCase() ?? "identity";
  const unpack = Object.hasOwn(ENCODINGS, encoding) ? ENCODINGS[encoding] : undefined;
  if (encoding !== "identity" && !unpack) {
    throw new Refusal("unsupported_media", "The body's encoding is not accepted; send identity, gzip or zstd");
  }
  const packed = await readBounded(request, memory);
  if (!unpack) return packed;
  using _packed = packed;
  // Its size is known only once it is there; until then it counts as the largest.
  memory.reserve(MAX_BODY_BYTES);
  try {
    const bytes = await unpack(packed.bytes, { maxOutputLength: MAX_BODY_BYTES });
    memory.release(MAX_BODY_BYTES);
    return heldBody(bytes, memory);
  } catch (error) {
    memory.release(MAX_BODY_BYTES);
    const code = (error as { code?: unknown }).code;
    if (code === "ERR_BUFFER_TOO_LARGE") throw tooLarge();
    throw new Refusal("bad_request", `The body is not ${encoding}`);
  }
}

function checkContentType(value: string | undefined): void {
  if (/^application\/json *(?:; *charset=utf-8 *)?$/i.test(value?.trim() ?? "")) return;
  throw new Refusal("unsupported_media", "The body's type is not accepted; send application/json");
}

function heldBody(bytes: Uint8Array, memory: MemoryShare): HeldBody {
  memory.reserve(bytes.length);
  return { bytes, [Symbol.dispose]: () => memory.release(bytes.length) };
}

function readBounded(request: IncomingMessage, memory: MemoryShare): Promise<HeldBody> {
  if (Number(request.headers["content-length"] ?? 0) > MAX_BODY_BYTES) return Promise.reject(tooLarge());
  return new Promise((resolve, reject) => {
    const gathered = new GatheredBytes();
    const settle = (then: () => void) => {
      request.removeAllListeners("data");
      request.off("end", whole);
      request.off("close", gone);
      memory.release(gathered.length);
      then();
    };
    const whole = () => settle(() => resolve(heldBody(gathered.whole(), memory)));
    const gone = () => settle(() => reject(new ClientGone("The client went away")));
    request.on("data", (part: Uint8Array) => {
      try {
        if (gathered.length + part.length > MAX_BODY_BYTES) throw tooLarge();
        memory.reserve(part.length);
      } catch (error) {
        settle(() => reject(error));
        return;
      }
      gathered.push(part);
    });
    request.once("end", whole);
    request.once("close", gone);
    request.on("error", () => {});
  });
}

function tooLarge(): Refusal {
  return new Refusal("too_large", `A body has at most ${MAX_BODY_BYTES} bytes, also once it is unpacked`);
}
