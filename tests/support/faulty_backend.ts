/**
 * Faults on demand: a backend around another one that fails, delays or cuts the calls a
 * plan picks. A plan that names the n-th call puts a fault at every backend call of an
 * operation in turn; a seeded one makes simulations that replay.
 */

import { type Clock, type RandomBytes, systemClock } from "../../lib/clock.ts";
import {
  type Backend,
  BackendError,
  type BackendErrorCode,
  type Body,
  type CloneSupport,
} from "../../lib/backend/backend.ts";
import type { ObjectBody, ObjectInfo, ObjectStream, ReplaceOptions } from "../../lib/backend/backend.ts";

/** What can be made to fail. */
export const BACKEND_METHODS = [
  "get",
  "getRange",
  "getStream",
  "head",
  "create",
  "replace",
  "put",
  "delete",
  "copy",
  "list",
  "cloneIn",
  "cloneOut",
] as const;
/** A method of {@linkcode Backend} or {@linkcode CloneSupport}. */
export type BackendMethod = typeof BACKEND_METHODS[number];

/** The methods that change the store. */
const WRITES: ReadonlySet<BackendMethod> = new Set(["create", "replace", "put", "delete", "copy", "cloneIn"]);

/** A call about to be made. */
export interface BackendCall {
  /** Which. */
  method: BackendMethod;
  /** Its key: of `copy` the target, of `list` the prefix. */
  key: string;
  /** How many calls there have been with this one, all methods together; the first is 1. */
  count: number;
}

/** What befalls a call. */
export type Fault =
  /** It fails and has no effect. */
  | { kind: "before"; code: BackendErrorCode }
  /** It has its effect, then fails: what an answer lost on the way looks like. A listing fails after its last item. */
  | { kind: "after"; code: BackendErrorCode }
  /** It is made after this much of the injected clock's time. */
  | { kind: "delay"; delay_ms: number }
  /**
   * What `get`, `getRange` and `getStream` return ends after this many bytes; with a code a stream then fails, without
   * without an error. On other calls: nothing happens.
   */
  | { kind: "truncate"; after_bytes: number; code?: BackendErrorCode };

/** Decides what befalls each call. */
export type FaultPlan = (call: BackendCall) => Fault | undefined;

/** A backend whose calls fail as planned. */
export class FaultyBackend implements Backend {
  /** That of the backend within. */
  readonly url: string;
  /** Present when the backend within has it. */
  readonly clone?: CloneSupport;
  /** Every call so far, for a second run that places a fault at each. */
  readonly calls: BackendCall[] = [];
  #inner: Backend;
  #plan: FaultPlan;
  #clock: Clock;

  /** Wraps `inner`; `options.clock` is the one that delays pass on. */
  constructor(inner: Backend, plan: FaultPlan, options: { clock?: Clock } = {}) {
    this.url = inner.url;
    this.#inner = inner;
    this.#plan = plan;
    this.#clock = options.clock ?? systemClock;
    const clone = inner.clone;
    if (clone !== undefined) {
      this.clone = {
        cloneIn: (path, key) => this.#call("cloneIn", key, () => clone.cloneIn(path, key)),
        cloneOut: (key, path) => this.#call("cloneOut", key, () => clone.cloneOut(key, path)),
      };
    }
  }

  /** See {@linkcode Backend.get}. */
  get(key: string, options?: { max_bytes?: number }): Promise<ObjectBody> {
    return this.#call("get", key, () => this.#inner.get(key, options), ({ bytes, etag }, after_bytes) => ({
      bytes: bytes.subarray(0, after_bytes),
      etag,
    }));
  }

  /** See {@linkcode Backend.getRange}. */
  getRange(key: string, offset: number, length: number): Promise<Uint8Array> {
    const read = () => this.#inner.getRange(key, offset, length);
    return this.#call("getRange", key, read, (bytes, after_bytes) => bytes.subarray(0, after_bytes));
  }

  /** See {@linkcode Backend.getStream}. */
  getStream(key: string): Promise<ObjectStream> {
    return this.#call("getStream", key, () => this.#inner.getStream(key), ({ size, chunks }, after_bytes, code) => ({
      size,
      chunks: cut(chunks, after_bytes, code === undefined ? undefined : injected("getStream", key, code)),
    }));
  }

  /** See {@linkcode Backend.head}. */
  head(key: string): Promise<ObjectInfo> {
    return this.#call("head", key, () => this.#inner.head(key));
  }

  /** See {@linkcode Backend.create}. */
  create(key: string, bytes: Uint8Array): Promise<string> {
    return this.#call("create", key, () => this.#inner.create(key, bytes));
  }

  /** See {@linkcode Backend.replace}. */
  replace(key: string, bytes: Uint8Array, etag: string, options?: ReplaceOptions): Promise<string> {
    return this.#call("replace", key, () => this.#inner.replace(key, bytes, etag, options));
  }

  /** See {@linkcode Backend.put}. */
  put(key: string, body: Body): Promise<void> {
    return this.#call("put", key, () => this.#inner.put(key, body));
  }

  /** See {@linkcode Backend.delete}. */
  delete(key: string, options?: { if_match?: string }): Promise<void> {
    return this.#call("delete", key, () => this.#inner.delete(key, options));
  }

  /** See {@linkcode Backend.copy}. */
  copy(from: string, to: string): Promise<void> {
    return this.#call("copy", to, () => this.#inner.copy(from, to));
  }

  /** See {@linkcode Backend.list}. */
  async *list(prefix: string): AsyncIterable<ObjectInfo> {
    const fault = await this.#next("list", prefix);
    yield* this.#inner.list(prefix);
    if (fault?.kind === "after") throw injected("list", prefix, fault.code);
  }

  /** Asks the plan about a call and lets what comes before the call happen. */
  async #next(method: BackendMethod, key: string): Promise<Fault | undefined> {
    const call = { method, key, count: this.calls.length + 1 };
    this.calls.push(call);
    const fault = this.#plan(call);
    if (fault?.kind === "before") throw injected(method, key, fault.code);
    if (fault?.kind === "delay") await this.#clock.sleep(fault.delay_ms);
    return fault;
  }

  async #call<T>(
    method: BackendMethod,
    key: string,
    action: () => Promise<T>,
    truncate?: (result: T, after_bytes: number, code: BackendErrorCode | undefined) => T,
  ): Promise<T> {
    const fault = await this.#next(method, key);
    const result = await action();
    if (fault?.kind === "after") throw injected(method, key, fault.code);
    if (fault?.kind === "truncate" && truncate) return truncate(result, fault.after_bytes, fault.code);
    return result;
  }
}

function injected(method: BackendMethod, key: string, code: BackendErrorCode): BackendError {
  return new BackendError(code, key, `Cannot ${method} ${key}: a fault was injected (${code})`);
}

async function* cut(
  chunks: AsyncIterable<Uint8Array>,
  after_bytes: number,
  failure: BackendError | undefined,
): AsyncIterable<Uint8Array> {
  let rest = after_bytes;
  for await (const chunk of chunks) {
    if (chunk.length >= rest) {
      if (rest > 0) yield chunk.subarray(0, rest);
      if (failure !== undefined) throw failure;
      return;
    }
    rest -= chunk.length;
    yield chunk;
  }
}

/** A number in [0, 1). */
function fraction(random: RandomBytes): number {
  return new DataView(random(4).buffer).getUint32(0) / 2 ** 32;
}

/**
 * A plan of random faults, the same for the same bytes of `random` and the same calls.
 *
 * Reads stall, fail or end early; writes fail cleanly, or are ambiguous with and without having happened; any call may
 * be late.
 *
 * @param rate Share of the calls that a fault befalls, 0 to 1.
 */
export function seededFaults(random: RandomBytes, rate: number): FaultPlan {
  return ({ method }) => {
    // All drawn for every call, so that a lower rate keeps the faults that remain.
    const [befalls, which, where] = [fraction(random), fraction(random), fraction(random)];
    if (befalls >= rate) return undefined;
    const choices: Fault[] = [
      { kind: "before", code: "unavailable" },
      { kind: "delay", delay_ms: 1 + Math.floor(where * 1000) },
    ];
    if (WRITES.has(method)) {
      choices.push({ kind: "before", code: "ambiguous" }, { kind: "after", code: "ambiguous" });
    } else {
      choices.push({ kind: "before", code: "stalled" }, { kind: "after", code: "unavailable" });
    }
    if (method === "getStream") {
      const after_bytes = Math.floor(where * 100_000);
      choices.push({ kind: "truncate", after_bytes, code: "stalled" }, { kind: "truncate", after_bytes });
    }
    return choices[Math.floor(which * choices.length)];
  };
}
