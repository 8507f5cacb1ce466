// As jsr:@std/crypto@1 has it, for SHA-256 alone: deno-std lacks its WebAssembly.

import { createHash } from "node:crypto";

/** Chunks of what is digested. */
type Chunks = Iterable<BufferSource> | AsyncIterable<BufferSource>;

/** Digests. */
export const crypto = {
  subtle: {
    /** The digest of `data`, also of a stream of it. */
    async digest(algorithm: "SHA-256", data: BufferSource | Chunks): Promise<ArrayBuffer> {
      if (isBufferSource(data)) return await globalThis.crypto.subtle.digest(algorithm, data);
      const hash = createHash("sha256");
      for await (const chunk of data) hash.update(bytesOf(chunk));
      return bufferOf(hash.digest());
    },
    /** The digest of `data`. */
    digestSync(_algorithm: "SHA-256", data: BufferSource | Iterable<BufferSource>): ArrayBuffer {
      const hash = createHash("sha256");
      for (const chunk of isBufferSource(data) ? [data] : data) hash.update(bytesOf(chunk));
      return bufferOf(hash.digest());
    },
  },
};

function isBufferSource(data: unknown): data is BufferSource {
  return data instanceof ArrayBuffer || ArrayBuffer.isView(data);
}

function bytesOf(data: BufferSource): Uint8Array {
  return data instanceof ArrayBuffer
    ? new Uint8Array(data)
    : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

function bufferOf(digest: Uint8Array): ArrayBuffer {
  return new Uint8Array(digest).buffer;
}
