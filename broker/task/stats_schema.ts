/**
 * The figures over many tasks: their schemas, from which their types follow. Times are ISO 8601 in UTC, money is USD.
 */

import * as v from "valibot";
import { OUTCOME, type Outcome } from "./stages.ts";
import { AMOUNT, COUNT, TIME } from "./value_schemas.ts";

/** What tasks are grouped by. */
export const GROUPINGS = ["agent", "vendor", "repo", "day"] as const;
/** What figures of tasks are grouped by. */
export type Grouping = typeof GROUPINGS[number];

/** Figures over some tasks. */
const TALLY = v.strictObject({
  tasks: COUNT,
  /** Those that have not ended. */
  under_way: COUNT,
  /** Of these: approved changes that could not be pushed, and wait. */
  push_failed: COUNT,
  /** Of these: changes that are pushed, whose databases could not be promoted, and wait. */
  data_waits: COUNT,
  /** Of those that have. */
  outcomes: v.strictObject(
    Object.fromEntries(OUTCOME.options.map((name) => [name, COUNT])) as Record<Outcome, typeof COUNT>,
  ),
  /** What the broker metered. */
  spend: v.strictObject({
    usd: AMOUNT,
    requests: COUNT,
    /** Tasks of which every request was metered. */
    metered_tasks: COUNT,
    /** Tasks that cost more than `usd` has of them, by an unknown amount. */
    unmetered_tasks: COUNT,
    /** Their requests without a figure. */
    unmetered_requests: COUNT,
  }),
  /** Claims of agents, for tasks of which the broker has metered nothing; in no other figure. */
  agent_reported: v.strictObject({ tasks: COUNT, usd: AMOUNT }),
});
export type Tally = v.InferOutput<typeof TALLY>;

const GROUP_TALLY = v.strictObject({ ...TALLY.entries, name: v.string() });
/** The tally of one agent, vendor, repository or day. */
export type GroupTally = v.InferOutput<typeof GROUP_TALLY>;

/** One day in UTC, `2026-01-31`; `usd` is metered by the broker. */
const DAY_FIGURES = v.strictObject({ day: v.string(), tasks: COUNT, usd: AMOUNT });
export type DayFigures = v.InferOutput<typeof DAY_FIGURES>;

/** Figures over many tasks. */
export const TASK_STATS = v.strictObject({
  ...TALLY.entries,
  /** Tasks whose trace cannot be followed; they are in no other figure. */
  damaged: COUNT,
  /** Only tasks that were started from then on; null for all. */
  since: v.nullable(TIME),
  by: v.exactOptional(v.picklist(GROUPINGS)),
  /** The dearest first; days in their order. */
  groups: v.exactOptional(v.array(GROUP_TALLY)),
  /** Every day from the first task's to the last one's, of at most a year. */
  days: v.array(DAY_FIGURES),
});
export type TaskStats = v.InferOutput<typeof TASK_STATS>;
