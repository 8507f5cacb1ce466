/**
 * Time that moves only when a test says so.
 *
 * @module
 */

import type { Clock } from "../../lib/clock.ts";

/** A clock that stands still until {@linkcode VirtualClock.advance}. */
export class VirtualClock implements Clock {
  #now_ms = Date.UTC(2026, 0, 1);
  #sleepers = new Set<{ due_ms: number; wake: () => void }>();

  /** Wall-clock and monotonic time are one. */
  now(): number {
    return this.#now_ms;
  }

  /** Milliseconds; begins at the wall clock's value. */
  monotonic(): number {
    return this.#now_ms;
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
        due_ms: this.#now_ms + ms,
        wake: () => {
          end();
          resolve();
        },
      };
      this.#sleepers.add(sleeper);
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  /** Moves time on and wakes, in order, whoever is due. */
  advance(ms: number): void {
    this.#now_ms += ms;
    const due = [...this.#sleepers].filter((sleeper) => sleeper.due_ms <= this.#now_ms);
    for (const sleeper of due.sort((a, b) => a.due_ms - b.due_ms)) sleeper.wake();
  }
}
