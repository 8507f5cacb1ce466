/**
 * Two times of a ledger. Ages, which decide, are counted by a monotonic clock; stamps, which have to outlive the
 * process, are wall time that never goes back within a ledger. So setting the clock back frees nothing early, and what
 * was stamped by a clock that ran ahead does not count forever.
 */

import type { Clock } from "../../lib/clock.ts";

/** How far stamps and the wall clock may be apart without it meaning anything: small corrections, a coarse clock. */
export const TOLERATED_STEP_MS = 60_000;

export class LedgerTime {
  readonly #clock: Clock;
  readonly #monotonic: () => number;
  #floor_ms: number;
  #seen_monotonic_ms: number;
  /** The least that the wall clock was ahead of the monotonic one since a step was last reported. */
  #offset_ms: number;

  /** @param monotonic Milliseconds of a clock that never goes back and, at best, counts while the machine sleeps. */
  constructor(clock: Clock, monotonic: () => number = () => clock.monotonic()) {
    this.#clock = clock;
    this.#monotonic = monotonic;
    this.#floor_ms = clock.now();
    this.#seen_monotonic_ms = monotonic();
    this.#offset_ms = this.#floor_ms - this.#seen_monotonic_ms;
  }

  monotonic(): number {
    return this.#monotonic();
  }

  wall(): number {
    return this.#clock.now();
  }

  /** Milliseconds to stamp a line with: the wall clock's, or later where that was set back. */
  stamp(): number {
    const monotonic_ms = this.#monotonic();
    this.#floor_ms = Math.max(this.#clock.now(), this.#floor_ms + monotonic_ms - this.#seen_monotonic_ms);
    this.#seen_monotonic_ms = monotonic_ms;
    return this.#floor_ms;
  }

  /** Stamps are from now on no earlier than this one, which the ledger has already. */
  noEarlierThan(stamp_ms: number): void {
    this.#floor_ms = Math.max(this.stamp(), stamp_ms);
  }

  /** Whether the wall clock was set forward since this was last asked: stamps and ages then disagree. */
  hasStepped(): boolean {
    const offset_ms = this.#clock.now() - this.#monotonic();
    const stepped = offset_ms - this.#offset_ms > TOLERATED_STEP_MS;
    this.#offset_ms = stepped ? offset_ms : Math.min(this.#offset_ms, offset_ms);
    return stepped;
  }
}
