/**
 * How long ago something was written, by time that has certainly passed: a wall clock may be set forward or back, come up
 * wrong after a start, or be another host's. What goes for good by its age goes by this.
 *
 * `clock.json` in the workspace counts the time that was seen to pass: since it was looked at last within one start of the
 * machine, sleep included; of the time between two starts only what the second one has lasted. Beside it stands what the
 * wall clock showed meanwhile, as spans in which both went alike. A stamp is dated by the span that shows it, by the
 * latest one where there are several, so what was written with this host's clock is never older here than it is. What no
 * span shows was written while no process looked, or by another clock: it is dated a while into the span that follows.
 *
 * Without the file everything written before is as old as if it had been written now. None of it is a promise to delete.
 */

import type { Clock } from "../clock.ts";
import { DAY_MS } from "./retention.ts";
import type { TimelineRecord, TimelineSpan, Workspace } from "./workspace.ts";

/** A smaller step of the wall clock counts as none: it shows as the difference of two readings, which takes time itself. */
export const STEP_MS = 10_000;
/** What a start of the machine has written that lasted for less is dated by the next one. */
const BRIEF_MS = 60_000;
/** The oldest go, and what they show counts as written later. */
const MAX_SPANS = 256;
/** So much time is lost at most when a process ends. */
const SAVE_EVERY_MS = 60_000;

/** A start of the machine, and how long it has lasted, in milliseconds, sleep included. */
export interface Uptime {
  boot: string;
  ms: number;
}

export class Timeline {
  readonly #workspace: Workspace;
  readonly #clock: Clock;
  readonly #uptime: () => Promise<Uptime>;
  /** When this object began to look: stamps from then on are this clock's. */
  readonly #began: { now_ms: number; monotonic_ms: number };
  #record: TimelineRecord | undefined;
  #saved_ms = -Infinity;

  constructor({ workspace, clock, uptime }: { workspace: Workspace; clock: Clock; uptime: () => Promise<Uptime> }) {
    this.#workspace = workspace;
    this.#clock = clock;
    this.#uptime = uptime;
    this.#began = { now_ms: clock.now(), monotonic_ms: clock.monotonic() };
  }

  /** Ages as of now. With `dry_run` nothing is written; where the workspace cannot be, this process remembers. */
  async look({ dry_run = false }: { dry_run?: boolean | undefined } = {}): Promise<Ages> {
    const { boot, ms: uptime_ms } = await this.#uptime();
    const now_ms = this.#clock.now();
    const watched_ms = Math.min(uptime_ms, this.#clock.monotonic() - this.#began.monotonic_ms);
    const known = this.#latest();
    const goes_on = known !== undefined && known.boot === boot && known.uptime_ms <= uptime_ms;
    const from = goes_on
      ? known
      : begun(known, { boot, uptime_ms: uptime_ms - watched_ms, now_ms: this.#began.now_ms });
    const next = advanced(from, { uptime_ms, now_ms });
    this.#record = next;
    const news = !goes_on || next.spans.length !== known.spans.length;
    if (!dry_run && (news || next.time_ms - this.#saved_ms >= SAVE_EVERY_MS)) {
      this.#saved_ms = next.time_ms;
      await Promise.try(() => this.#workspace.writeTimelineRecord(next)).catch(() => {});
    }
    return new Ages(next);
  }

  /** Several threads and commands keep one file: what the others saw counts, too. */
  #latest(): TimelineRecord | undefined {
    const saved = this.#workspace.timelineRecord();
    return saved === undefined || (this.#record?.time_ms ?? -1) >= saved.time_ms ? this.#record : saved;
  }
}

/** A new span, because nothing is known of what the clock did before. */
function begun(
  known: TimelineRecord | undefined,
  { boot, uptime_ms, now_ms }: { boot: string; uptime_ms: number; now_ms: number },
): TimelineRecord {
  const time_ms = known === undefined ? 0 : known.time_ms + uptime_ms;
  const before = known?.spans ?? [];
  const last = before.at(-1);
  // A short one says next to nothing, and where many processes begin and end there would be many.
  const needless = last !== undefined && last.for_ms < BRIEF_MS &&
    !before.slice(0, -1).some((earlier) => last.wall_ms <= earlier.wall_ms + earlier.for_ms + STEP_MS);
  return {
    boot,
    uptime_ms,
    time_ms,
    spans: [...needless ? before.slice(0, -1) : before, { wall_ms: now_ms, time_ms, for_ms: 0 }],
  };
}

/** The record brought on within one start of the machine. */
function advanced(
  { boot, uptime_ms: before_ms, time_ms: from_ms, spans }: TimelineRecord,
  { uptime_ms, now_ms }: { uptime_ms: number; now_ms: number },
): TimelineRecord {
  const passed_ms = uptime_ms - before_ms;
  const time_ms = from_ms + passed_ms;
  const last = spans.at(-1)!;
  const next = [...spans.slice(0, -1), { ...last, for_ms: last.for_ms + passed_ms }];
  const step_ms = now_ms - (last.wall_ms + time_ms - last.time_ms);
  // When it stepped since the last look is not known: both count for all of it.
  if (Math.abs(step_ms) > STEP_MS) next.push({ wall_ms: now_ms - passed_ms, time_ms: from_ms, for_ms: passed_ms });
  return { boot, uptime_ms, time_ms, spans: next.slice(-MAX_SPANS) };
}

/** How old what was written is, at least. */
export class Ages {
  readonly #time_ms: number;
  readonly #spans: readonly TimelineSpan[];

  constructor({ time_ms, spans }: Pick<TimelineRecord, "time_ms" | "spans">) {
    this.#time_ms = time_ms;
    this.#spans = spans;
  }

  /**
   * Milliseconds that have certainly passed since this wall clock showed `stamp_ms`; 0 for a stamp of the future.
   *
   * @param doubt_ms How far into the next span a stamp is dated that none shows; a day when absent.
   */
  since(stamp_ms: number, doubt_ms = DAY_MS): number {
    return Math.max(0, this.#time_ms - (this.#dated(stamp_ms, Math.min(doubt_ms, DAY_MS)) ?? this.#time_ms));
  }

  /**
   * The same of each point of a log, which is newest first: none is older than those before it, and one whose time has
   * not come yet is at least as old as the next.
   */
  ofPoints(points: readonly { at_ms: number }[]): number[] {
    let newer_ms = this.#time_ms;
    const dated = points.map(({ at_ms }) => newer_ms = this.#dated(at_ms, DAY_MS) ?? newer_ms);
    let older_ms = -Infinity;
    return dated.reverse().map((time_ms) => this.#time_ms - (older_ms = Math.max(older_ms, time_ms))).reverse();
  }

  /** When that was, counted as the record counts; undefined for what no clock here has come to. */
  #dated(stamp_ms: number, doubt_ms: number): number | undefined {
    const found: number[] = [];
    let before_ms = -Infinity;
    for (const { wall_ms, time_ms, for_ms } of this.#spans) {
      const into_ms = stamp_ms - wall_ms;
      if (into_ms >= -STEP_MS && into_ms <= for_ms + STEP_MS) {
        found.push(time_ms + Math.min(Math.max(into_ms, 0), for_ms));
      }
      if (stamp_ms > before_ms && stamp_ms < wall_ms) found.push(time_ms + Math.min(for_ms, doubt_ms));
      before_ms = wall_ms + for_ms;
    }
    return found.length === 0 ? undefined : Math.max(...found);
  }
}
