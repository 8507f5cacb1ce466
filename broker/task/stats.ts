/**
 * Outcomes and cost of tasks, added up: pure functions over the summaries that
 * traces give. Money is only ever added from what the broker metered; what an agent says of
 * its own cost is counted apart, for the tasks of which nothing else is known.
 */

import { agentOf } from "../agents.ts";
import { parseRepo } from "../git/repo_url.ts";
import { isWaiting, type Outcome, OUTCOMES } from "./stages.ts";
import type { TaskSummary } from "./schema.ts";
import type { DayFigures, Grouping, GroupTally, Tally, TaskStats } from "./stats_schema.ts";

export const MAX_DAYS = 366;
const DAY_MS = 86_400_000;
const UNKNOWN = "unknown";

export interface StatsOptions {
  since_ms?: number;
  by?: Grouping;
}

export function computeStats(
  tasks: Iterable<TaskSummary>,
  { damaged = 0, ...options }: StatsOptions & { damaged?: number } = {},
): TaskStats {
  const running = new RunningStats(options);
  for (const task of tasks) running.add(task);
  return running.stats(damaged);
}

/** Figures to which tasks are added one by one: there may be more of them than fit in memory. */
export class RunningStats {
  readonly #since: string | null;
  readonly #by: Grouping | undefined;
  readonly #nameOf: ((task: TaskSummary) => string) | undefined;
  readonly #all = emptyTally();
  readonly #groups = new Map<string, GroupTally>();
  readonly #days = new Map<string, DayFigures>();

  constructor({ since_ms, by }: StatsOptions = {}) {
    this.#since = since_ms === undefined ? null : new Date(since_ms).toISOString();
    this.#by = by;
    this.#nameOf = by === undefined ? undefined : namer(by);
  }

  add(task: TaskSummary): void {
    // Both are of the one form that the broker writes.
    if (this.#since !== null && task.created_at < this.#since) return;
    addTask(this.#all, task);
    addDay(this.#days, task);
    if (this.#nameOf === undefined) return;
    const name = this.#nameOf(task);
    let group = this.#groups.get(name);
    if (group === undefined) this.#groups.set(name, group = { name, ...emptyTally() });
    addTask(group, task);
  }

  /**
   * The figures of all that were added.
   *
   * @param damaged How many more there are, whose traces cannot be followed.
   */
  stats(damaged: number): TaskStats {
    const by = this.#by;
    return {
      ...this.#all,
      damaged,
      since: this.#since,
      ...(by === undefined ? {} : { by, groups: [...this.#groups.values()].sort(by === "day" ? byName : byCost) }),
      days: withoutGaps(this.#days),
    };
  }
}

function emptyTally(): Tally {
  const outcomes = Object.fromEntries(Object.keys(OUTCOMES).map((name) => [name, 0])) as Record<Outcome, number>;
  return {
    tasks: 0,
    under_way: 0,
    push_failed: 0,
    data_waits: 0,
    outcomes,
    spend: { usd: 0, requests: 0, metered_tasks: 0, unmetered_tasks: 0, unmetered_requests: 0 },
    agent_reported: { tasks: 0, usd: 0 },
  };
}

function addTask(tally: Tally, { stage, outcome, spend, claimed_usd }: TaskSummary): void {
  tally.tasks++;
  if (isWaiting(stage)) tally[stage]++;
  if (outcome === undefined) tally.under_way++;
  else tally.outcomes[outcome]++;
  if (spend !== undefined) {
    tally.spend.usd += spend.usd;
    tally.spend.requests += spend.requests;
    tally.spend.unmetered_requests += spend.unmetered_requests;
    if (spend.priced) tally.spend.metered_tasks++;
    else tally.spend.unmetered_tasks++;
  } else if (claimed_usd !== undefined) {
    tally.agent_reported.tasks++;
    tally.agent_reported.usd += claimed_usd;
  }
}

function addDay(days: Map<string, DayFigures>, { created_at, spend }: TaskSummary): void {
  const day = created_at.slice(0, 10);
  let figures = days.get(day);
  if (figures === undefined) days.set(day, figures = { day, tasks: 0, usd: 0 });
  figures.tasks++;
  figures.usd += spend?.usd ?? 0;
}

/** Days without a task count too: a chart that leaves them out lies about the time between. */
function withoutGaps(days: ReadonlyMap<string, DayFigures>): DayFigures[] {
  const names = [...days.keys()].sort();
  const last_ms = Date.parse(names.at(-1) ?? "");
  if (Number.isNaN(last_ms)) return [];
  const first_ms = Math.max(Date.parse(names[0]!), last_ms - (MAX_DAYS - 1) * DAY_MS);
  const all: DayFigures[] = [];
  for (let ms = first_ms; ms <= last_ms; ms += DAY_MS) {
    const day = new Date(ms).toISOString().slice(0, 10);
    all.push(days.get(day) ?? { day, tasks: 0, usd: 0 });
  }
  return all;
}

function namer(by: Grouping): (task: TaskSummary) => string {
  switch (by) {
    case "agent":
      return ({ agent }) => agent;
    case "vendor":
      return remembered(({ agent }) => agent, (agent) => agentOf(agent).lane);
    case "repo":
      // However it was written, one repository is one row.
      return remembered(({ repo }) => repo, (repo) => parseRepo(repo).canonical);
    case "day":
      return ({ created_at }) => created_at.slice(0, 10);
  }
}

/** Names that are worked out once for each text; what cannot be worked out keeps its own, or has none. */
function remembered(textOf: (task: TaskSummary) => string, name: (text: string) => string) {
  const names = new Map<string, string>();
  return (task: TaskSummary): string => {
    const text = textOf(task);
    let known = names.get(text);
    if (known === undefined) {
      try {
        known = name(text);
      } catch {
        known = text === "" ? UNKNOWN : text;
      }
      names.set(text, known);
    }
    return known;
  };
}

function byCost(a: GroupTally, b: GroupTally): number {
  return b.spend.usd - a.spend.usd || b.tasks - a.tasks || byName(a, b);
}

function byName(a: GroupTally, b: GroupTally): number {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}
