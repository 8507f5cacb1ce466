/**
 * Time and randomness as values that are passed in, so that a test can stage
 * every moment and a simulation replays from a seed.
 */

import { setImmediate } from "node:timers";

/** A source of time. */
export interface Clock {
  /** Whole wall-clock milliseconds since 1970; may jump. For stamps people read, and in records. */
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
      const leave = wakeAt(performance.now() + ms, () => {
        awake?.();
        resolve();
      });
      const awake = signal && onAbort(signal, () => {
        leave();
        reject(signal.reason);
      });
    }),
};

/** What an abort ends, by its signal: those who sleep by one have one listener together. */
const cancels = new WeakMap<AbortSignal, { all: Set<() => void>; listener: () => void }>();

/**
 * Calls `cancel` at an abort, unless the returned function is called before. A signal by which none sleeps has no
 * listener: as long as it has one, the signals that it follows hold it.
 */
function onAbort(signal: AbortSignal, cancel: () => void): () => void {
  const { all, listener } = cancels.getOrInsertComputed(signal, () => {
    const all = new Set<() => void>();
    const listener = () => all.forEach((each) => each());
    signal.addEventListener("abort", listener, { once: true });
    return { all, listener };
  });
  all.add(cancel);
  return () => {
    if (!all.delete(cancel) || all.size > 0) return;
    cancels.delete(signal);
    signal.removeEventListener("abort", listener);
  };
}

/** Sleepers by the millisecond they wait for: hundreds of sessions wait for the same moments and share a timer. */
const sleepers = new Map<number, { wakes: Set<() => void>; timer: ReturnType<typeof setTimeout> }>();

/** Calls `wake` at `due_ms`, or less than a millisecond later; the returned function cancels that. */
function wakeAt(due_ms: number, wake: () => void): () => void {
  const due = Math.ceil(due_ms);
  const { wakes } = sleepers.getOrInsertComputed(due, () => ({ wakes: new Set(), timer: startTimer(due) }));
  wakes.add(wake);
  return () => {
    wakes.delete(wake);
    if (wakes.size > 0) return;
    clearTimeout(sleepers.get(due)?.timer);
    sleepers.delete(due);
  };
}

function startTimer(due: number): ReturnType<typeof setTimeout> {
  // The moment may have passed meanwhile; the runtime warns of a negative time.
  const left_ms = Math.max(0, Math.ceil(due - performance.now()));
  return setTimeout(() => {
    const { wakes } = sleepers.get(due)!;
    if (left_ms > MAX_TIMER_MS) return sleepers.set(due, { wakes, timer: startTimer(due) });
    sleepers.delete(due);
    for (const wake of wakes) wake();
  }, Math.min(left_ms, MAX_TIMER_MS));
}

/** Lets timers and sockets have their turn; for long loops that never wait. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** A source of random bytes. */
export type RandomBytes = (count: number) => Uint8Array;

/** The system's cryptographic random source. */
export const systemRandom: RandomBytes = (count) => crypto.getRandomValues(new Uint8Array(count));

/** `count` random bytes as lower-case hex, two digits each. */
export function randomHex(random: RandomBytes, count: number): string {
  return random(count).toHex();
}
