/**
 * What a run of the benchmarks leaves: figures, what was skipped and why, and the
 * machine it ran on. Plain JSON; the tables and the documentation are drawn from it.
 */

import type { Stats } from "./stats.ts";

/** Units of figures. */
export type Unit =
  | "ms"
  | "s"
  | "MB/s"
  | "tx/s"
  | "bytes"
  | "%"
  | "MB"
  | "objects"
  | "requests/s"
  | "events/s"
  | "tunnels/s"
  | "times";

/** A number promised for a figure's p50. */
export interface Target {
  value: number;
  /** `at_most`: smaller is better. */
  is: "at_most" | "at_least";
}

/** One measured figure. */
export interface Figure {
  /** Name of the case. */
  case: string;
  /** What was measured: `taskd fork`, `cp`. */
  subject: string;
  /** Kind of file system, or `-` where it does not matter. */
  place: string;
  /** Size of the database. */
  size_mb?: number;
  unit: Unit;
  stats: Stats;
  /** Subject of the same case, place, size and unit that it is set beside. */
  beside?: string;
  target?: Target;
}

/** Something that was not measured. */
export interface Skip {
  case: string;
  subject: string;
  reason: string;
}

/** A run's whole outcome. */
export interface Report {
  format: 1;
  /** ISO 8601 UTC. */
  started_at: string;
  duration_seconds: number;
  /** Small sizes and few rounds: proves that the bench works, measures little. */
  quick: boolean;
  machine: Record<string, string>;
  figures: Figure[];
  skipped: Skip[];
}

/** Whether a figure keeps its target; undefined when it has none. */
export function meetsTarget(figure: Figure): boolean | undefined {
  if (figure.target === undefined) return undefined;
  const { value, is } = figure.target;
  return is === "at_most" ? figure.stats.p50 <= value : figure.stats.p50 >= value;
}
