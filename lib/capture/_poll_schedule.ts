/**
 * How often a session polls the log, and when it folds it: often while there is traffic, so that the lag
 * ends within 100 ms of a burst; rarely while there is none, so that hundreds of idle sessions cost next to
 * nothing; and never so often that polling takes most of the time.
 */

import type { Clock } from "../clock.ts";

/** Between polls while transactions arrive. */
const BUSY_DELAY_MS = 15;
/** Between polls while a checkpoint of the application may wait for this session, and how many of them in a row. */
const WAITED_FOR = { delay_ms: 1, most: 20 };
/** So many checkpoints of the application within this time that had waited for this session are too many. */
const IN_THE_WAY = { checkpoints: 8, within_ms: 1_000 };
/** For so long after that, one is. */
const HABIT_MS = 60_000;
/** Between polls of an idle log, which are nearly the whole cost of an idle session. */
const IDLE_DELAY_MS = 400;
/** Traffic counts as over after this long without a commit. */
const QUIET_MS = 1_000;
/** Polls may take at most one part in this many of the time. */
const DUTY = 4;
/** The log is folded when it has this many bytes: large enough that writers are held off rarely, small enough to stay in cache. */
export const TAKEOVER_BYTES = 16 << 20;
/** A log with this many bytes, and in the habit of being in the way with so many, is left to the application. */
const OUTGROWN_BYTES = { first: 64 << 20, habit: TAKEOVER_BYTES };
/** First and longest pause after a blocked takeover. */
const BACKOFF_MS = { first: 100, longest: 10_000 };
/** Between checks that the checkout is still at its path, and between polls of an idle log whose next write is heard of. */
const IN_PLACE_MS = 2_000;

export class PollSchedule {
  readonly #clock: Clock;
  #traffic_ms: number;
  #delay_ms = BUSY_DELAY_MS;
  #not_before_ms = 0;
  #backoff_ms = BACKOFF_MS.first;
  #in_place_ms = 0;
  #waited_for = 0;
  #let_through = 0;
  /** When checkpoints were let through, the latest last. */
  #let_through_ms: number[] = [];
  #in_the_way_ms = -Infinity;
  /** Takeovers in a row that did not succeed. */
  blocked = 0;
  /** Whether the next write to the log calls {@linkcode woken}, and nothing is due before. */
  watched = false;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#traffic_ms = clock.monotonic();
  }

  /** Whether traffic is over. */
  get quiet(): boolean {
    return this.#clock.monotonic() - this.#traffic_ms >= QUIET_MS;
  }

  /** Until the next poll. */
  get delay_ms(): number {
    return this.#delay_ms;
  }

  /** The log was written to: a checkpoint of the application may soon wait for this session. */
  woken(): void {
    this.watched = false;
    this.#traffic_ms = this.#clock.monotonic();
    this.#delay_ms = BUSY_DELAY_MS;
  }

  /** Records a poll that took `took_ms` and saw a commit or not; `waited_for` by a checkpoint, perhaps. */
  polled(saw: boolean, took_ms: number, waited_for = false): void {
    const now = this.#clock.monotonic();
    if (saw) this.#traffic_ms = now;
    this.#waited_for = waited_for && this.#waited_for < WAITED_FOR.most ? this.#waited_for + 1 : 0;
    if (this.#waited_for > 0) {
      this.#delay_ms = Math.max(WAITED_FOR.delay_ms, took_ms * DUTY);
      return;
    }
    const longest_ms = this.watched ? IN_PLACE_MS : IDLE_DELAY_MS;
    const due_ms = now - this.#traffic_ms < QUIET_MS ? BUSY_DELAY_MS : idleDelay(this.#delay_ms * 1.5, now, longest_ms);
    this.#delay_ms = Math.max(due_ms, took_ms * DUTY);
  }

  /** A log of more bytes grows faster than this session reads and folds it. */
  get outgrown_bytes(): number {
    return this.#habit ? OUTGROWN_BYTES.habit : OUTGROWN_BYTES.first;
  }

  get #habit(): boolean {
    return this.#clock.monotonic() - this.#in_the_way_ms < HABIT_MS;
  }

  /**
   * Whether this session is in the way of the application: by the number of its checkpoints that had to wait so far, or as its
   * log is outgrown.
   */
  inTheWay(let_through: number, outgrown = false): boolean {
    const now = this.#clock.monotonic();
    const times = this.#let_through_ms;
    if (let_through > this.#let_through) {
      times.push(now);
      if (times.length > IN_THE_WAY.checkpoints) times.shift();
    }
    this.#let_through = let_through;
    const needed = this.#habit ? 1 : IN_THE_WAY.checkpoints;
    const earliest_ms = times.at(-needed);
    if (!outgrown && (earliest_ms === undefined || now - earliest_ms > IN_THE_WAY.within_ms)) return false;
    this.#in_the_way_ms = now;
    return true;
  }

  /** Whether to fold a log of `log_bytes` now: it is large, or traffic is over and everything in it `stored`. */
  takeoverDue(log_bytes: number, stored = true): boolean {
    const now = this.#clock.monotonic();
    if (log_bytes === 0 || now < this.#not_before_ms) return false;
    return log_bytes >= TAKEOVER_BYTES || (this.quiet && stored);
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
function idleDelay(grown_ms: number, now_ms: number, longest_ms: number): number {
  if (grown_ms < longest_ms / 2) return grown_ms;
  const left_ms = longest_ms - now_ms % longest_ms;
  // Not a moment that is almost here: a timer may end a little early, and would then be set twice.
  return left_ms < longest_ms / 2 ? left_ms + longest_ms : left_ms;
}
