/**
 * Time and randomness as values that are passed in, so that a test can stage
 * every moment and a simulation replays from a seed.
 *
 * @module
 */

import { setImmediate } from "node:timers";

/** A source of time. */
export interface Clock {
  /** Wall-clock milliseconds since 1970; may jump. For stamps people read. */
  now(): number;
  /** Monotonic milliseconds; never goes back. For leases, deadlines and durations. */
  monotonic(): number;
  /** Resolves after `ms`; an abort rejects with its reason. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** The longest wait of a timer, in milliseconds: the runtime keeps them in 31 bits, and one beyond would be over at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The system's clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      let timer: ReturnType<typeof setTimeout>;
      const wait = (left_ms: number) => {
        timer = setTimeout(() => {
          if (left_ms > MAX_TIMER_MS) return wait(left_ms - MAX_TIMER_MS);
          signal?.removeEventListener("abort", onAbort);
          resolve();
        }, Math.min(left_ms, MAX_TIMER_MS));
      };
      const onAbort = () => {
        clearTimeout(timer);
        reject(signal!.reason);
      };
      wait(ms);
      signal?.addEventListener("abort", onAbort, { once: true });
    }),
};

/** Lets timers and sockets have their turn; for long loops that never wait. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** A source of random bytes. */
export type RandomBytes = (count: number) => Uint8Array;

/** The system's cryptographic random source. */
export const systemRandom: RandomBytes = (count) => crypto.getRandomValues(new Uint8Array(count));

/** `bytes` as lower-case hex. */
export function toHex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += byte.toString(16).padStart(2, "0");
  return text;
}

/** `count` random bytes as lower-case hex, two digits each. */
export function randomHex(random: RandomBytes, count: number): string {
  return toHex(random(count));
}
