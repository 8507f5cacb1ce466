/**
 * A store in a bucket of an S3 server: AWS, MinIO and others that support conditional
 * writes, which opening a store verifies.
 *
 * What the engine relies on: a write that resolved is durable as far as the server is; a
 * conditional write is decided exactly once, even if its answers are lost; every wait is
 * bounded; no error holds a secret.
 */

import { loadS3Sdk, type S3Client } from "../packages/s3_sdk.ts";
import { type RandomBytes, randomHex, systemClock, systemRandom } from "../clock.ts";
import { type Backend, BackendError, type Body, oversized } from "./backend.ts";
import type { ObjectBody, ObjectInfo, ObjectStream } from "./backend.ts";
import { parseKey, parsePrefix, RESERVED_PART } from "./object_key.ts";
import { destroy, S3_DEADLINES, S3Calls } from "./_s3_calls.ts";
import { failureError, S3Failure } from "./_s3_failure.ts";
import { copyParts, inPieces, uploadParts } from "./_s3_multipart.ts";
import { type Condition, type S3Download, S3Objects } from "./_s3_objects.ts";
import { configOf, placeOf, type S3BackendOptions } from "./_s3_options.ts";
import { probeS3 } from "./_s3_probe.ts";
import { decide, missing, removeIfMatch } from "./_s3_write.ts";

export type { S3Deadlines } from "./_s3_calls.ts";
export type { S3BackendOptions, S3Credentials, S3StoreOptions } from "./_s3_options.ts";

const DEFAULT_MAX_BYTES = 16 * 1024 * 1024;
/** Bytes of an uploaded part; three of them are in memory at most. */
const PART_BYTES = 16 * 1024 * 1024;
/** Bytes in memory are uploaded in one request up to this size. */
const SINGLE_BYTES = 64 * 1024 * 1024;
/** What one copy request may copy: the limit of S3. */
const SINGLE_COPY_BYTES = 5 * 1024 ** 3;

/** Checks of servers, for the life of the process. */
const checked = new Map<string, Promise<void>>();

/** A store in a bucket. Requires `--allow-net` of the server, and `--allow-env` and `--allow-read` of what the SDK's chain reads. */
export class S3Backend implements Backend {
  readonly url: string;
  readonly #client: S3Client;
  readonly #objects: S3Objects;
  readonly #random: RandomBytes;
  readonly #part_bytes: number;
  readonly #single_copy_bytes: number;

  private constructor(
    url: string,
    parts: { client: S3Client; objects: S3Objects },
    options: S3BackendOptions,
  ) {
    this.url = url;
    this.#client = parts.client;
    this.#objects = parts.objects;
    this.#random = options.random ?? systemRandom;
    this.#part_bytes = options.part_bytes ?? PART_BYTES;
    this.#single_copy_bytes = options.single_copy_bytes ?? SINGLE_COPY_BYTES;
  }

  /**
   * Opens a store and, once per process and location, verifies that its server keeps what the engine relies on.
   *
   * @throws {BackendError} `denied` (the message says what the server does wrong, or that access is refused),
   * `not_found` (no such bucket), `unavailable`.
   */
  static async open(options: S3BackendOptions): Promise<S3Backend> {
    const { clock = systemClock, random = systemRandom } = options;
    const { bucket, prefix, url } = placeOf(options);
    const sdk = await loadS3Sdk();
    const client = new sdk.S3Client(configOf(options));
    const calls = new S3Calls(client, { clock, random, deadlines: { ...S3_DEADLINES, ...options.deadlines } });
    const objects = new S3Objects(sdk, calls, { bucket, prefix });
    const place = [options.endpoint, options.region, url].join("\n");
    try {
      let check = options.read_only ? undefined : checked.get(place);
      if (check === undefined && !options.read_only) checked.set(place, check = probeS3(objects, url, random));
      await check;
      return new S3Backend(url, { client, objects }, options);
    } catch (error) {
      checked.delete(place);
      client.destroy();
      // The keys of the probe's own objects would mean nothing to the reader.
      const failure = error instanceof BackendError ? error.cause : error;
      if (!(failure instanceof S3Failure)) throw error;
      throw failureError(failure, url, "open the store", failure.reason === "NoSuchBucket" ? "not_found" : undefined);
    }
  }

  /** Closes idle connections. A store that is closed can still be used. */
  close(): void {
    this.#client.destroy();
  }

  async get(key: string, options: { max_bytes?: number } = {}): Promise<ObjectBody> {
    const max_bytes = options.max_bytes ?? DEFAULT_MAX_BYTES;
    return await this.#read(key, async () => {
      const { size, etag, body } = await this.#open(key);
      if (size > max_bytes) {
        destroy(body);
        throw oversized(key, size, max_bytes);
      }
      return { bytes: await this.#collect(body, size), etag };
    });
  }

  async getRange(key: string, offset: number, length: number): Promise<Uint8Array> {
    if (length <= 0) {
      await this.head(key);
      return new Uint8Array();
    }
    return await this.#read(key, async () => {
      let download: S3Download;
      try {
        download = await this.#open(key, { offset, length });
      } catch (error) {
        if (error instanceof S3Failure && error.status === 416) return new Uint8Array();
        throw error;
      }
      const { size, body } = download;
      if (download.offset > offset) {
        destroy(body);
        throw new S3Failure("lost", `the server's answer begins at ${download.offset} instead of ${offset}`);
      }
      const available = Math.max(0, Math.min(length, size - offset));
      return await this.#collect(body, available, offset - download.offset);
    });
  }

  /** See {@linkcode Backend.getStream}. An interrupted download resumes where it was. */
  async getStream(key: string): Promise<ObjectStream> {
    const download = await this.#read(key, () => this.#open(key));
    const chunks = this.#stream(key, download);
    let begun = false;
    const iterator: AsyncIterator<Uint8Array> = {
      next: () => {
        begun = true;
        return chunks.next();
      },
      return: () => {
        // A generator that was never begun does not clean up.
        if (!begun) destroy(download.body);
        return chunks.return(undefined);
      },
    };
    return { size: download.size, chunks: { [Symbol.asyncIterator]: () => iterator } };
  }

  async head(key: string): Promise<ObjectInfo> {
    const found = await this.#inspect(key);
    return { key, size: found.size };
  }

  create(key: string, bytes: Uint8Array): Promise<string> {
    return this.#write(key, bytes, "new");
  }

  replace(key: string, bytes: Uint8Array, etag: string): Promise<string> {
    return this.#write(key, bytes, { if_match: etag });
  }

  async put(key: string, body: Body): Promise<void> {
    if (body instanceof Uint8Array && body.length <= SINGLE_BYTES) return void await this.#write(key, body);
    parseKey(key);
    const pieces = inPieces(body instanceof Uint8Array ? [body] : body, this.#part_bytes);
    try {
      const { value = new Uint8Array() } = await pieces.next();
      if (value.length < this.#part_bytes) await this.#write(key, value);
      else await uploadParts(this.#objects, { key, mark: this.#mark() }, joined(value, pieces));
    } catch (error) {
      if (!(error instanceof S3Failure)) throw error;
      throw failureError(error, key, "write");
    } finally {
      // In any case: the source may hold a file open until then.
      await pieces.return(undefined);
    }
  }

  async delete(key: string, options: { if_match?: string } = {}): Promise<void> {
    parseKey(key);
    const { if_match } = options;
    let unsure = false;
    try {
      if (if_match === undefined) {
        await this.#inspect(key);
        return await this.#objects.calls.repeated(() => this.#objects.remove(key), (failure) => {
          unsure ||= failure.unsure;
        });
      }
      await removeIfMatch(this.#objects, { key, mark: this.#mark(), condition: { if_match } });
    } catch (error) {
      if (!(error instanceof S3Failure)) throw error;
      throw failureError(error, key, "delete", unsure ? "ambiguous" : undefined);
    }
  }

  /** See {@linkcode Backend.copy}. The server copies; nothing passes through this process. */
  async copy(from: string, to: string): Promise<void> {
    parseKey(to);
    const { size, etag } = await this.#inspect(from);
    const objects = this.#objects;
    const most = this.#single_copy_bytes;
    let unsure = false;
    try {
      if (size > most) {
        await copyParts(objects, { key: to, mark: this.#mark() }, { key: from, etag, size, most });
        return;
      }
      await objects.calls.repeated(() => objects.copy(from, to, { etag, size }), (failure) => {
        unsure ||= failure.unsure;
      });
    } catch (error) {
      if (!(error instanceof S3Failure)) throw error;
      throw failureError(error, error.status === 404 ? from : to, "copy", unsure ? "ambiguous" : undefined);
    }
  }

  /** See {@linkcode Backend.list}. In the order of the keys where the server keeps to S3's. */
  async *list(prefix: string): AsyncIterable<ObjectInfo> {
    parsePrefix(prefix);
    let token: string | undefined;
    do {
      const page = await this.#repeated(prefix, "list", () => this.#objects.page(prefix, token));
      for (const object of page.objects) if (!object.key.startsWith(`${RESERVED_PART}/`)) yield object;
      token = page.next;
    } while (token !== undefined);
  }

  #mark(): string {
    return randomHex(this.#random, 16);
  }

  /** Writes an object in one request. */
  async #write(key: string, bytes: Uint8Array, condition?: Condition): Promise<string> {
    parseKey(key);
    const mark = this.#mark();
    const write = { key, mark, ...(condition === undefined ? {} : { condition }) };
    return await decide(
      this.#objects,
      write,
      (under) => this.#objects.write(key, bytes, { mark, ...(under === undefined ? {} : { condition: under }) }),
    );
  }

  async #inspect(key: string): Promise<{ size: number; etag: string }> {
    parseKey(key);
    const found = await this.#repeated(key, "read", () => this.#objects.inspect(key));
    if (found === undefined || found.gone) throw missing(key);
    return found;
  }

  async #open(key: string, range?: { offset: number; length: number }): Promise<S3Download> {
    const download = await this.#objects.open(key, range);
    if (download === undefined) throw missing(key);
    return download;
  }

  #read<T>(key: string, attempt: () => Promise<T>): Promise<T> {
    parseKey(key);
    return this.#repeated(key, "read", attempt);
  }

  async #repeated<T>(key: string, attempted: string, attempt: () => Promise<T>): Promise<T> {
    try {
      return await this.#objects.calls.repeated(attempt);
    } catch (error) {
      if (!(error instanceof S3Failure)) throw error;
      if (error.status === 404 && error.reason === "NoSuchKey") throw missing(key);
      throw failureError(error, key, attempted);
    }
  }

  /** `size` bytes of a download, after the first `skip`; without waiting for the rest. */
  async #collect(body: AsyncIterable<Uint8Array>, size: number, skip = 0): Promise<Uint8Array> {
    const bytes = new Uint8Array(size);
    let at = -skip;
    for await (const chunk of this.#objects.calls.chunks(body)) {
      const from = Math.max(0, -at);
      const part = chunk.subarray(from, from + Math.max(0, size - Math.max(0, at)));
      bytes.set(part, Math.max(0, at));
      at += chunk.length;
      if (at > size) break;
    }
    if (at < size) throw new S3Failure("lost", `the answer ended after ${Math.max(0, at)} of ${size} bytes`);
    return bytes;
  }

  async *#stream(key: string, first: S3Download): AsyncGenerator<Uint8Array> {
    const { size, etag } = first;
    const { calls } = this.#objects;
    let at = 0;
    let body = first.body;
    for (let count = 1;;) {
      try {
        for await (const chunk of calls.chunks(body)) {
          at += chunk.length;
          count = 1;
          yield chunk;
        }
        if (at === size) return;
        throw new S3Failure("lost", `the answer ended after ${at} of ${size} bytes`);
      } catch (error) {
        if (!(error instanceof S3Failure)) throw error;
        if (at > size || !error.passing || !calls.mayRepeat(count)) throw failureError(error, key, "read");
      }
      await calls.pause(count++);
      body = await this.#resume(key, { at, size, etag });
    }
  }

  /** The rest of the same object that a download began with. */
  #resume(key: string, { at, size, etag }: { at: number; size: number; etag: string }) {
    if (at === size) return Promise.resolve(none());
    return this.#repeated(key, "read", async () => {
      const rest = await this.#objects.open(key, { offset: at, if_match: etag }).catch((error) => {
        if (!(error instanceof S3Failure) || error.status !== 412) throw error;
        throw new BackendError("unavailable", key, `Cannot read ${key}: it was replaced while it was read`);
      });
      if (rest === undefined) throw missing(key);
      if (rest.offset === at && rest.etag === etag && rest.size === size) return rest.body;
      destroy(rest.body);
      throw new S3Failure("lost", "the server's answer is not the rest of the object");
    });
  }
}

async function* none(): AsyncGenerator<Uint8Array> {}

async function* joined(first: Uint8Array, rest: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield first;
  yield* rest;
}
