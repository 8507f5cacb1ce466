/**
 * One request to an S3 server, with its deadlines, and the one place where requests
 * are repeated. The SDK's own retries are off: whether a request may be repeated
 * depends on what it asks for, and every wait goes through the injected clock.
 */

import { Readable } from "node:stream";
import type { S3Client, S3Command } from "../packages/s3_sdk.ts";
import type { Clock, RandomBytes } from "../clock.ts";
import { asFailure, S3Failure } from "./_s3_failure.ts";
import { withDeadline } from "../deadline.ts";

/** How long each kind of call may take. The defaults are the contract's numbers. */
export interface S3Deadlines {
  /** From the last byte of a request to the first of its answer. */
  begin_ms: number;
  /** A buffered call as a whole, plus the time for its bytes. */
  buffered_ms: number;
  /** Time for a buffered call's bytes: this many per second. */
  floor_bytes_per_second: number;
  /** One call of a multipart upload or copy. */
  part_ms: number;
  /** A download may go this long without a byte. */
  idle_ms: number;
}

export const S3_DEADLINES: S3Deadlines = {
  begin_ms: 60_000,
  buffered_ms: 15 * 60_000,
  floor_bytes_per_second: 1024 * 1024,
  part_ms: 15 * 60_000,
  idle_ms: 60_000,
};

const MAX_ATTEMPTS = 6;
/** The first wait between two attempts is up to this; each further one up to twice the one before. */
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 5_000;
/** Request bodies go to the socket in pieces of this size, so that the end of sending is seen. */
const PIECE_BYTES = 64 * 1024;

export class S3Calls {
  readonly deadlines: S3Deadlines;
  readonly #client: S3Client;
  readonly #clock: Clock;
  readonly #random: RandomBytes;

  constructor(client: S3Client, options: { clock: Clock; random: RandomBytes; deadlines: S3Deadlines }) {
    this.#client = client;
    this.#clock = options.clock;
    this.#random = options.random;
    this.deadlines = options.deadlines;
  }

  bufferedMs(bytes = 0): number {
    return this.deadlines.buffered_ms + Math.ceil(bytes / this.deadlines.floor_bytes_per_second * 1000);
  }

  /**
   * Makes a request once.
   *
   * @param total_ms Deadline of the whole call; without it only the start of the answer has one.
   * @throws {S3Failure}
   */
  async once<O extends object>(command: S3Command<O>, total_ms?: number): Promise<O> {
    const done = new AbortController();
    const cancel = new AbortController();
    let fail: (failure: S3Failure) => void = () => {};
    const late = new Promise<never>((_, reject) => fail = reject);
    const watch = (ms: number, what: string, until: AbortSignal) =>
      this.#clock.sleep(ms, until).then(() => {
        fail(new S3Failure("late", `${what} within ${Math.round(ms / 1000)} s`));
        cancel.abort();
      }, () => {});
    const begun = new AbortController();
    command.middlewareStack.add((next) => async (args) => {
      const request = args.request as { body?: unknown };
      const { begin_ms } = this.deadlines;
      const onSent = () => void watch(begin_ms, "the answer did not begin", begun.signal);
      if (request.body instanceof Uint8Array && request.body.length > PIECE_BYTES) {
        request.body = Readable.from(pieces(request.body, onSent), { objectMode: false });
      } else onSent();
      const result = await next(args);
      begun.abort();
      return result;
    }, { step: "deserialize", priority: "low", name: "taskdDeadlines", override: true });
    if (total_ms !== undefined) void watch(total_ms, "the call did not end", done.signal);
    try {
      return await Promise.race([late, this.#client.send(command, { abortSignal: cancel.signal })]);
    } catch (error) {
      throw asFailure(error);
    } finally {
      begun.abort();
      done.abort();
    }
  }

  /**
   * Runs `attempt` until it succeeds or fails permanently: only for idempotent requests.
   *
   * @param onFailure Receives every failure, also those that are retried.
   * @throws {S3Failure}
   */
  async repeated<T>(attempt: () => Promise<T>, onFailure: (failure: S3Failure) => void = () => {}): Promise<T> {
    for (let count = 1;; count++) {
      try {
        return await attempt();
      } catch (error) {
        if (!(error instanceof S3Failure)) throw error;
        onFailure(error);
        if (!error.passing || !this.mayRepeat(count)) throw error;
        await this.pause(count);
      }
    }
  }

  mayRepeat(count: number): boolean {
    return count < MAX_ATTEMPTS;
  }

  /** Waits before the attempt after the `count`-th: a random time, so that rivals do not collide again. */
  async pause(count: number): Promise<void> {
    const fraction = new DataView(this.#random(4).buffer).getUint32(0) / 2 ** 32;
    await this.#clock.sleep(fraction * Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (count - 1)));
  }

  /** The chunks of a download; each must come within the idle deadline. Leaving the loop ends the request. */
  async *chunks(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    const { idle_ms } = this.deadlines;
    const stalled = () => new S3Failure("stalled", `read stalled: no byte came within ${Math.round(idle_ms / 1000)} s`);
    const source = body[Symbol.asyncIterator]();
    let ended = false;
    try {
      for (;;) {
        const next = await withDeadline(source.next(), this.#clock, idle_ms, stalled);
        if (next.done) {
          ended = true;
          return;
        }
        if (next.value.length > 0) yield next.value;
      }
    } catch (error) {
      throw asFailure(error);
    } finally {
      if (!ended) destroy(body);
    }
  }
}

export function destroy(body: unknown): void {
  if (body instanceof Readable) {
    // Its later errors do not matter.
    body.on("error", () => {});
    body.destroy();
  }
}

function* pieces(bytes: Uint8Array, onSent: () => void): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) yield bytes.subarray(at, at + PIECE_BYTES);
  onSent();
}
