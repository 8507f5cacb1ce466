/**
 * A store in memory: deterministic, for simulations and tests that need no disk. Etags
 * count writes, listings are sorted, and nothing depends on time or chance.
 */

import { type Backend, BackendError, type Body, oversized } from "../../lib/backend/backend.ts";
import type { ObjectBody, ObjectInfo, ObjectStream } from "../../lib/backend/backend.ts";
import { parseKey, parsePrefix } from "../../lib/backend/object_key.ts";
import { concat } from "../../lib/concat.ts";

const DEFAULT_MAX_BYTES = 16 * 1024 * 1024;
const CHUNK_BYTES = 256 * 1024;

interface Stored {
  bytes: Uint8Array;
  etag: string;
}

/** A store in memory; gone with the process. */
export class MemoryBackend implements Backend {
  /** `memory://`. */
  readonly url = "memory://";
  #objects = new Map<string, Stored>();
  #writes = 0;

  /** See {@linkcode Backend.get}. */
  async get(key: string, options: { max_bytes?: number } = {}): Promise<ObjectBody> {
    const { bytes, etag } = await this.#find(key);
    const max_bytes = options.max_bytes ?? DEFAULT_MAX_BYTES;
    if (bytes.length > max_bytes) {
      throw oversized(key, bytes.length, max_bytes);
    }
    return { bytes: bytes.slice(), etag };
  }

  /** See {@linkcode Backend.getRange}. */
  async getRange(key: string, offset: number, length: number): Promise<Uint8Array> {
    return (await this.#find(key)).bytes.slice(offset, offset + length);
  }

  /** See {@linkcode Backend.getStream}. */
  async getStream(key: string): Promise<ObjectStream> {
    const { bytes } = await this.#find(key);
    async function* chunks() {
      for (let offset = 0; offset < bytes.length; offset += CHUNK_BYTES) {
        yield await Promise.resolve(bytes.slice(offset, offset + CHUNK_BYTES));
      }
    }
    return { size: bytes.length, chunks: chunks() };
  }

  /** See {@linkcode Backend.head}. */
  async head(key: string): Promise<ObjectInfo> {
    return { key, size: (await this.#find(key)).bytes.length };
  }

  /** See {@linkcode Backend.create}. */
  create(key: string, bytes: Uint8Array): Promise<string> {
    return this.#write(key, bytes, () => !this.#objects.has(key));
  }

  /** See {@linkcode Backend.replace}. */
  replace(key: string, bytes: Uint8Array, etag: string): Promise<string> {
    return this.#write(key, bytes, () => this.#objects.get(key)?.etag === etag);
  }

  /** See {@linkcode Backend.put}. */
  async put(key: string, body: Body): Promise<void> {
    await this.#write(key, body, () => true);
  }

  /** See {@linkcode Backend.delete}. */
  async delete(key: string, options: { if_match?: string } = {}): Promise<void> {
    await this.#find(key);
    // Nothing may run between this look and the removal.
    const stored = this.#objects.get(key);
    if (stored === undefined) throw missing(key);
    if (options.if_match !== undefined && options.if_match !== stored.etag) throw mismatch(key);
    this.#objects.delete(key);
  }

  /** See {@linkcode Backend.copy}. */
  async copy(from: string, to: string): Promise<void> {
    parseKey(to);
    await this.put(to, (await this.#find(from)).bytes);
  }

  /** See {@linkcode Backend.list}. In the order of the keys. */
  async *list(prefix: string): AsyncIterable<ObjectInfo> {
    parsePrefix(prefix);
    for (const key of [...this.#objects.keys()].filter((key) => key.startsWith(prefix)).sort()) {
      const stored = await Promise.resolve(this.#objects.get(key));
      if (stored !== undefined) yield { key, size: stored.bytes.length };
    }
  }

  /** Asynchronous like a real store: another task may run between any two calls. */
  async #find(key: string): Promise<Stored> {
    parseKey(key);
    const stored = await Promise.resolve(this.#objects.get(key));
    if (stored === undefined) throw missing(key);
    return stored;
  }

  async #write(key: string, body: Body, condition: () => boolean): Promise<string> {
    parseKey(key);
    const bytes = await collect(body);
    if (!condition()) throw mismatch(key);
    const etag = `write-${++this.#writes}`;
    this.#objects.set(key, { bytes, etag });
    return etag;
  }
}

function missing(key: string): BackendError {
  return new BackendError("not_found", key, `There is no object ${key}`);
}

function mismatch(key: string): BackendError {
  return new BackendError("precondition_failed", key, `${key} exists, is missing or has another etag`);
}

/** The body as bytes of its own. */
async function collect(body: Body): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  if (body instanceof Uint8Array) chunks.push(await Promise.resolve(body));
  else for await (const chunk of body) chunks.push(chunk.slice());
  return concat(chunks);
}
