/**
 * A clock that a test moves by hand, and that tells what waits on it.
 *
 * @module
 */

import type { Clock } from "../../lib/clock.ts";

interface Sleeper {
  ms: number;
  due_ms: number;
  wake: () => void;
}

/** Time that stands still until it is moved. */
export class ManualClock implements Clock {
  #now_ms = 0;
  #sleepers = new Set<Sleeper>();
  #waiting: { ms: number; wake: () => void }[] = [];

  /** Milliseconds since the beginning. */
  now(): number {
    return this.#now_ms;
  }

  /** The same. */
  monotonic(): number {
    return this.#now_ms;
  }

  /** Resolves once the clock was moved by `ms`. */
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const sleeper = { ms, due_ms: this.#now_ms + ms, wake: resolve };
      this.#sleepers.add(sleeper);
      signal?.addEventListener("abort", () => {
        this.#sleepers.delete(sleeper);
        reject(signal.reason);
      }, { once: true });
      for (const waiting of this.#waiting.filter((waiting) => waiting.ms === ms)) waiting.wake();
    });
  }

  /** How long each sleeper asked to sleep. */
  get sleeping(): number[] {
    return [...this.#sleepers].map(({ ms }) => ms).sort((a, b) => a - b);
  }

  /** Resolves when somebody sleeps who asked for exactly `ms`. */
  async sleeper(ms: number): Promise<void> {
    if (!this.sleeping.includes(ms)) await new Promise<void>((wake) => this.#waiting.push({ ms, wake }));
  }

  /** Moves the clock on. */
  advance(ms: number): void {
    this.#now_ms += ms;
    for (const sleeper of [...this.#sleepers]) {
      if (sleeper.due_ms > this.#now_ms) continue;
      this.#sleepers.delete(sleeper);
      sleeper.wake();
    }
  }
}
