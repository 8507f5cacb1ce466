/**
 * Deadlines that move with every byte: setting one is two assignments, and one ticker
 * looks at all of them.
 *
 * @module
 */

import type { Clock } from "../../lib/clock.ts";

/** How late a deadline may fire. */
export const TICK_MS = 250;

/** One deadline; not armed until {@linkcode Deadline.set}. */
export interface Deadline {
  /** Calls `expired` once, unless it is set again before. */
  set(ms: number, expired: () => void): void;
  /** Calls nothing any more. */
  clear(): void;
}

interface Armed {
  at_ms: number;
  expired: () => void;
}

/** All deadlines of a server. */
export class Deadlines {
  readonly #clock: Clock;
  readonly #armed = new Map<Deadline, Armed>();
  readonly #closing = new AbortController();
  #ticking = false;

  /** Reads time from `clock`. */
  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A new deadline. */
  create(): Deadline {
    const deadline: Deadline = {
      set: (ms, expired) => {
        this.#armed.set(deadline, { at_ms: this.#clock.monotonic() + ms, expired });
        if (!this.#ticking) void this.#tick();
      },
      clear: () => {
        this.#armed.delete(deadline);
      },
    };
    return deadline;
  }

  /** Calls nothing any more. */
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
        for (const [deadline, { at_ms, expired }] of this.#armed) {
          if (at_ms > now_ms) continue;
          this.#armed.delete(deadline);
          expired();
        }
      }
    } catch (error) {
      if (!this.#closing.signal.aborted) throw error;
    } finally {
      this.#ticking = false;
    }
  }
}
