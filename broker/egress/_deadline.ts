/**
 * The one deadline of a connection: whatever it waits for, it waits for a bounded time.
 *
 * @module
 */

import type { Clock } from "../../lib/clock.ts";

/** A deadline, looked at from outside, so that no connection has a timer of its own. */
export class Deadline {
  readonly #clock: Clock;
  #at_ms = Infinity;
  #idle_ms: number | undefined;
  #onLate: () => void = () => {};

  /** Never late at first. */
  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** From now on: `onLate` is called once unless something else is set within `ms`. */
  within(ms: number, onLate: () => void): void {
    this.#idle_ms = undefined;
    this.#at_ms = this.#clock.monotonic() + ms;
    this.#onLate = onLate;
  }

  /** From now on: `onLate` is called once when no byte has moved for `ms`. */
  idle(ms: number, onLate: () => void): void {
    this.within(ms, onLate);
    this.#idle_ms = ms;
  }

  /** A byte has moved. */
  progress(): void {
    if (this.#idle_ms !== undefined) this.#at_ms = this.#clock.monotonic() + this.#idle_ms;
  }

  /** Acts if it is late. */
  check(now_ms: number): void {
    if (now_ms < this.#at_ms) return;
    this.#at_ms = Infinity;
    this.#onLate();
  }
}
