/**
 * Deadlines that move with every byte: moving one is an assignment, and one ticker checks all of them, so that no
 * connection has a timer of its own.
 */

import type { Clock } from "./clock.ts";

/** How late a deadline may fire. */
export const TICK_MS = 250;

/** One deadline; not armed until {@linkcode MovingDeadline.set} or {@linkcode MovingDeadline.setIdle}. */
export class MovingDeadline {
  readonly #clock: Clock;
  readonly #arm: (deadline: MovingDeadline) => void;
  #at_ms = Infinity;
  #idle_ms: number | undefined;
  #expired: () => void = () => {};

  /** Made by {@linkcode MovingDeadlines.create} alone. */
  constructor(clock: Clock, arm: (deadline: MovingDeadline) => void) {
    this.#clock = clock;
    this.#arm = arm;
  }

  /** Calls `expired` once after `ms`, unless it is set again before. */
  set(ms: number, expired: () => void): void {
    this.#idle_ms = undefined;
    this.#at_ms = this.#clock.monotonic() + ms;
    this.#expired = expired;
    this.#arm(this);
  }

  /** Calls `expired` once {@linkcode MovingDeadline.progress} was not called for `ms`, unless it is set again before. */
  setIdle(ms: number, expired: () => void): void {
    this.set(ms, expired);
    this.#idle_ms = ms;
  }

  progress(): void {
    if (this.#idle_ms !== undefined) this.#at_ms = this.#clock.monotonic() + this.#idle_ms;
  }

  clear(): void {
    this.#at_ms = Infinity;
    this.#idle_ms = undefined;
  }

  /** Fires if it is due; returns whether it is still armed. */
  check(now_ms: number): boolean {
    if (now_ms >= this.#at_ms) {
      this.clear();
      this.#expired();
    }
    return this.#at_ms !== Infinity;
  }
}

export class MovingDeadlines {
  readonly #clock: Clock;
  readonly #armed = new Set<MovingDeadline>();
  readonly #closing = new AbortController();
  #ticking = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  create(): MovingDeadline {
    return new MovingDeadline(this.#clock, (deadline) => {
      this.#armed.add(deadline);
      if (!this.#ticking) void this.#tick();
    });
  }

  /** Disarms all of them for good. */
  close(): void {
    this.#closing.abort();
    this.#armed.clear();
  }

  async #tick(): Promise<void> {
    this.#ticking = true;
    try {
      while (this.#armed.size > 0) {
        await this.#clock.sleep(TICK_MS, this.#closing.signal);
        const now_ms = this.#clock.monotonic();
        for (const deadline of this.#armed) if (!deadline.check(now_ms)) this.#armed.delete(deadline);
      }
    } catch (error) {
      if (!this.#closing.signal.aborted) throw error;
    } finally {
      this.#ticking = false;
    }
  }
}
