/**
 * What the engine requires of an object store, and the closed set of
 * errors it may throw. Every implementation passes the suite in
 * `tests/support/backend_conformance.ts`; nothing else may be assumed.
 */

/** Why a backend call failed. */
export type BackendErrorCode =
  /** No such object. */
  | "not_found"
  /** The condition of a conditional write or delete did not hold; nothing changed. */
  | "precondition_failed"
  /** The write may or may not have happened: read again before deciding. */
  | "ambiguous"
  /** Credentials or file permissions do not allow it. */
  | "denied"
  /** No space is left. */
  | "no_space"
  /** A read made no progress within its deadline. */
  | "stalled"
  /** Anything transient; nothing is known to have changed. */
  | "unavailable";

/** The only error a backend throws. */
export class BackendError extends Error {
  override name = "BackendError";
  /** Why. */
  readonly code: BackendErrorCode;
  /** The object's key, or the prefix of a listing. */
  readonly key: string;
  /** What to do about it, where the code's own advice does not fit. */
  readonly hint: string | undefined;

  /** Makes an error of `code` about `key`. */
  constructor(code: BackendErrorCode, key: string, message: string, cause?: unknown, hint?: string) {
    super(message, cause === undefined ? {} : { cause });
    this.code = code;
    this.key = key;
    this.hint = hint;
  }
}

/** As the cause of a {@linkcode BackendError}: what has the object's place is none, and stays so until it is moved away. */
export class NoObject extends Error {
  override name = "NoObject";
}

/** The error for an object of more bytes than the caller takes. */
export function oversized(key: string, size: number, max_bytes: number): BackendError {
  const message = `Cannot read ${key}: it has ${size} bytes, over ${max_bytes}`;
  return new BackendError("unavailable", key, message, new NoObject(), "Move it out of the store");
}

/** Whether `error` is a {@linkcode BackendError} of `code`. */
export function isBackendError(error: unknown, code: BackendErrorCode): error is BackendError {
  return error instanceof BackendError && error.code === code;
}

/** One listed object. */
export interface ObjectInfo {
  /** Its key: `/`-separated, never beginning with `/`. */
  key: string;
  /** Bytes. */
  size: number;
}

/** What an object holds: bytes at hand, or a stream of chunks that is read once. */
export type Body = Uint8Array | AsyncIterable<Uint8Array>;

/** A whole object. */
export interface ObjectBody {
  /** Its bytes. */
  bytes: Uint8Array;
  /** Opaque version: two different contents under one key never share it. */
  etag: string;
}

/** How {@linkcode Backend.replace} writes. */
export interface ReplaceOptions {
  /**
   * A machine that loses power before the object's next durable write may come up with what was there before this
   * write: for a change that is void by then. The object is whole either way, and until then every reader sees the new one.
   */
  may_revert?: boolean;
}

/** An object being streamed. */
export interface ObjectStream {
  /** Bytes in all. */
  size: number;
  /** The chunks; leaving the loop early releases the source. */
  chunks: AsyncIterable<Uint8Array>;
}

/**
 * A flat, strongly consistent object store. All writes are atomic: a reader sees
 * the whole new object or what was there before. A write is durable once its
 * promise resolves, unless it asks for less. No object's key continues another's key
 * after a `/`: where keys are paths, a directory in an object's place is `denied`, and
 * in a listing a file in that of a directory. Every method throws only {@linkcode BackendError};
 * what a body's own source throws passes unchanged, and nothing is written then.
 */
export interface Backend {
  /** Where it is, for messages: `file:///srv/store`, `s3://bucket/prefix`. Holds no secret. */
  readonly url: string;
  /**
   * Present where objects are files that can share blocks with other local files
   * (XFS, btrfs, APFS): the engine then keeps snapshots as plain images.
   */
  readonly clone?: CloneSupport;

  /** Reads a whole object; `max_bytes` (default 16 MiB) bounds it, a larger one is `unavailable`. */
  get(key: string, options?: { max_bytes?: number }): Promise<ObjectBody>;
  /** Reads `length` bytes from `offset`; fewer only when the object ends there. */
  getRange(key: string, offset: number, length: number): Promise<Uint8Array>;
  /** Streams an object of any size. */
  getStream(key: string): Promise<ObjectStream>;
  /** Size of an object. */
  head(key: string): Promise<ObjectInfo>;
  /** Writes if the key does not exist, else `precondition_failed`. Returns the etag. */
  create(key: string, bytes: Uint8Array): Promise<string>;
  /** Writes if the object's etag is `etag`, else `precondition_failed` (also when it is missing). Returns the new etag. */
  replace(key: string, bytes: Uint8Array, etag: string, options?: ReplaceOptions): Promise<string>;
  /** Writes whatever was there. */
  put(key: string, body: Body): Promise<void>;
  /** Deletes; a missing object is `not_found`, another etag than `if_match` is `precondition_failed`. */
  delete(key: string, options?: { if_match?: string }): Promise<void>;
  /** Copies within the store without passing the bytes through this process where it can. Overwrites `to`. */
  copy(from: string, to: string): Promise<void>;
  /**
   * Lists keys that begin with `prefix`, in no promised order, reading nothing outside it. What lies there and is no
   * object has 0 bytes, and to read it is `denied`.
   */
  list(prefix: string): AsyncIterable<ObjectInfo>;
}

/** Moving whole files in and out of a store by sharing their blocks: constant time at any size. */
export interface CloneSupport {
  /**
   * Makes the object `key` a clone of the local file at `path`, atomically and durably, whatever was there.
   * Works through a subprocess, so it is safe on a file that SQLite has open in this process.
   */
  cloneIn(path: string, key: string): Promise<void>;
  /** Makes the new local file `path` a clone of the object, and touches no other; an existing file is an error. */
  cloneOut(key: string, path: string): Promise<void>;
}
