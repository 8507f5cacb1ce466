/**
 * Time that moves only when a test says so, with a wall clock that can jump apart
 * from the monotonic one, as real ones do.
 */

import { type Clock, nextTurn } from "../../lib/clock.ts";

/** A clock that stands still until {@linkcode VirtualClock.advance}. */
export class VirtualClock implements Clock {
  #monotonic_ms = 1_000;
  #offset_ms: number;
  #sleepers = new Set<{ ms: number; due_ms: number; wake: () => void }>();
  #awaited: { ms: number; wake: () => void }[] = [];

  /** Begins at this wall-clock time. */
  constructor(now_ms = Date.UTC(2026, 0, 1)) {
    this.#offset_ms = now_ms - this.#monotonic_ms;
  }

  /** Wall-clock milliseconds. */
  now(): number {
    return this.#monotonic_ms + this.#offset_ms;
  }

  /** Monotonic milliseconds; another zero than the wall clock's. */
  monotonic(): number {
    return this.#monotonic_ms;
  }

  /** Resolves once the time has been advanced by `ms`. */
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const end = () => {
        this.#sleepers.delete(sleeper);
        signal?.removeEventListener("abort", onAbort);
      };
      const onAbort = () => {
        end();
        reject(signal!.reason);
      };
      const sleeper = {
        ms,
        due_ms: this.#monotonic_ms + ms,
        wake: () => {
          end();
          resolve();
        },
      };
      this.#sleepers.add(sleeper);
      signal?.addEventListener("abort", onAbort, { once: true });
      for (const awaited of this.#awaited.filter((awaited) => awaited.ms === ms)) awaited.wake();
    });
  }

  /** How long each sleeper asked to sleep, shortest first. */
  get sleeping(): number[] {
    return [...this.#sleepers].map(({ ms }) => ms).sort((a, b) => a - b);
  }

  /** Resolves when a sleep of exactly `ms` is pending. */
  async sleeper(ms: number): Promise<void> {
    if (!this.sleeping.includes(ms)) await new Promise<void>((wake) => this.#awaited.push({ ms, wake }));
  }

  /** How many wait. */
  get sleepers(): number {
    return this.#sleepers.size;
  }

  /** Advances both clocks and wakes all due sleepers in order. */
  advance(ms: number): void {
    this.#monotonic_ms += ms;
    const due = [...this.#sleepers].filter((sleeper) => sleeper.due_ms <= this.#monotonic_ms);
    for (const sleeper of due.sort((a, b) => a.due_ms - b.due_ms)) sleeper.wake();
  }

  /** Lets `work` sleep for `ms` as often as it does, until it has ended. */
  async through<T>(work: Promise<T>, ms: number): Promise<T> {
    let ended = false;
    const end = () => ended = true;
    work.then(end, end);
    while (!ended) {
      await nextTurn();
      if (this.sleeping.includes(ms)) this.advance(ms);
    }
    return await work;
  }

  /** Sets the wall clock forward or back; no sleep gets shorter. */
  jump(ms: number): void {
    this.#offset_ms += ms;
  }
}
