/**
 * How often a session polls the log, and when it folds it: often while there is traffic, so that the lag
 * ends within 100 ms of a burst; rarely while there is none, so that hundreds of idle sessions cost next to
 * nothing; and never so often that polling takes most of the time.
 */

import type { Clock } from "../clock.ts";

/** Between polls while transactions arrive. */
const BUSY_DELAY_MS = 15;
/** Between polls of an idle log, which are nearly the whole cost of an idle session. */
const IDLE_DELAY_MS = 400;
/** Traffic counts as over after this long without a commit. */
const QUIET_MS = 1_000;
/** Polls may take at most one part in this many of the time. */
const DUTY = 4;
/** The log is folded when it has this many bytes: large enough that writers are held off rarely, small enough to stay in cache. */
const TAKEOVER_BYTES = 16 << 20;
/** First and longest pause after a blocked takeover. */
const BACKOFF_MS = { first: 100, longest: 10_000 };
/** Between checks that the checkout is still at its path. */
const IN_PLACE_MS = 2_000;

export class PollSchedule {
  readonly #clock: Clock;
  #last_commit_ms: number;
  #delay_ms = BUSY_DELAY_MS;
  #not_before_ms = 0;
  #backoff_ms = BACKOFF_MS.first;
  #in_place_ms = 0;
  /** Takeovers in a row that did not succeed. */
  blocked = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#last_commit_ms = clock.monotonic();
  }

  /** Until the next poll. */
  get delay_ms(): number {
    return this.#delay_ms;
  }

  /** Records a poll that took `took_ms` and saw a commit or not. */
  polled(saw: boolean, took_ms: number): void {
    const now = this.#clock.monotonic();
    if (saw) this.#last_commit_ms = now;
    const due_ms = now - this.#last_commit_ms < QUIET_MS ? BUSY_DELAY_MS : idleDelay(this.#delay_ms * 1.5, now);
    this.#delay_ms = Math.max(due_ms, took_ms * DUTY);
  }

  /** Whether to fold a log of `log_bytes` now: it is large, or traffic is over. */
  takeoverDue(log_bytes: number): boolean {
    const now = this.#clock.monotonic();
    if (log_bytes === 0 || now < this.#not_before_ms) return false;
    return log_bytes >= TAKEOVER_BYTES || now - this.#last_commit_ms >= QUIET_MS;
  }

  tookOver(done: boolean): void {
    this.blocked = done ? 0 : this.blocked + 1;
    this.#backoff_ms = done ? BACKOFF_MS.first : Math.min(BACKOFF_MS.longest, this.#backoff_ms * 2);
    this.#not_before_ms = done ? 0 : this.#clock.monotonic() + this.#backoff_ms;
  }

  inPlaceDue(): boolean {
    return this.#clock.monotonic() >= this.#in_place_ms;
  }

  checkedInPlace(): void {
    this.#in_place_ms = this.#clock.monotonic() + IN_PLACE_MS;
  }
}

/**
 * The wait of an idle session that has grown to `grown_ms`. All idle sessions of a thread end up polling at the same
 * moments: waking the thread costs more than a poll.
 */
function idleDelay(grown_ms: number, now_ms: number): number {
  if (grown_ms < IDLE_DELAY_MS / 2) return grown_ms;
  const left_ms = IDLE_DELAY_MS - now_ms % IDLE_DELAY_MS;
  // Not a moment that is almost here: a timer may end a little early, and would then be set twice.
  return left_ms < IDLE_DELAY_MS / 2 ? left_ms + IDLE_DELAY_MS : left_ms;
}
