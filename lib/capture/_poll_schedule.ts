/**
 * How often a session looks, and when it folds the log: quick while there is traffic, so that the lag
 * ends within 100 ms of a burst; rare while there is none, so that hundreds of idle sessions cost next to
 * nothing; and never so often that looking is most of what it does.
 *
 * @module
 */

import type { Clock } from "../clock.ts";

/** Between looks while transactions come in. */
const BUSY_DELAY_MS = 15;
/** Between looks at an idle log: what hundreds of idle sessions cost is nearly all these looks. */
const IDLE_DELAY_MS = 400;
/** Traffic counts as over after this long without a commit. */
const QUIET_MS = 1_000;
/** A look may take at most one part in this many of the time. */
const DUTY = 4;
/** The log is folded when it has this many bytes: large enough that writers are held off rarely, small enough to stay in cache. */
const TAKEOVER_BYTES = 16 << 20;
/** First and longest pause after a takeover that something stood in the way of. */
const BACKOFF_MS = { first: 100, longest: 10_000 };
/** Between looks at whether the checkout is still where it was. */
const IN_PLACE_MS = 2_000;

/** When a session polls. */
export class PollSchedule {
  readonly #clock: Clock;
  #last_commit_ms: number;
  #delay_ms = BUSY_DELAY_MS;
  #not_before_ms = 0;
  #backoff_ms = BACKOFF_MS.first;
  #in_place_ms = 0;
  /** Takeovers in a row that did not succeed. */
  blocked = 0;

  /** Schedules by `clock`. */
  constructor(clock: Clock) {
    this.#clock = clock;
    this.#last_commit_ms = clock.monotonic();
  }

  /** Until the next look. */
  get delay_ms(): number {
    return this.#delay_ms;
  }

  /** After a look that took `took_ms` and saw a commit or not. */
  polled(saw: boolean, took_ms: number): void {
    const now = this.#clock.monotonic();
    if (saw) this.#last_commit_ms = now;
    const wanted = now - this.#last_commit_ms < QUIET_MS ? BUSY_DELAY_MS : idleDelay(this.#delay_ms * 1.5, now);
    this.#delay_ms = Math.max(wanted, took_ms * DUTY);
  }

  /** Whether to fold a log of `log_bytes` now: it is large, or traffic is over. */
  takeoverDue(log_bytes: number): boolean {
    const now = this.#clock.monotonic();
    if (log_bytes === 0 || now < this.#not_before_ms) return false;
    return log_bytes >= TAKEOVER_BYTES || now - this.#last_commit_ms >= QUIET_MS;
  }

  /** After a takeover. */
  tookOver(done: boolean): void {
    this.blocked = done ? 0 : this.blocked + 1;
    this.#backoff_ms = done ? BACKOFF_MS.first : Math.min(BACKOFF_MS.longest, this.#backoff_ms * 2);
    this.#not_before_ms = done ? 0 : this.#clock.monotonic() + this.#backoff_ms;
  }

  /** Whether it is time to see that the checkout is still in its place. */
  inPlaceDue(): boolean {
    return this.#clock.monotonic() >= this.#in_place_ms;
  }

  /** After that look. */
  checkedInPlace(): void {
    this.#in_place_ms = this.#clock.monotonic() + IN_PLACE_MS;
  }
}

/**
 * The wait of an idle session that has grown to `grown_ms`. In the end all idle sessions of a thread look at the same
 * moments: to wake the thread costs more than a look.
 */
function idleDelay(grown_ms: number, now_ms: number): number {
  if (grown_ms < IDLE_DELAY_MS / 2) return grown_ms;
  const left_ms = IDLE_DELAY_MS - now_ms % IDLE_DELAY_MS;
  // Not a moment that is all but here: a timer may end a little early, and would then be set twice.
  return left_ms < IDLE_DELAY_MS / 2 ? left_ms + IDLE_DELAY_MS : left_ms;
}
