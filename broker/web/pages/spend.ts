/**
 * What a task has spent, as it is told twice: live by its lease, and by the rows of its trace, which come later and say
 * less. A page shows the later of two figures, so that it never goes down.
 *
 * @module
 */

/** Figures of one task that tell which came later. */
export interface Told {
  usd: number;
  requests: number;
  unmetered_requests: number;
  input_tokens: number;
  output_tokens: number;
}

/** Sums over what is settled: they only grow. */
const SETTLED = ["usd", "unmetered_requests", "input_tokens", "output_tokens"] as const;

/** The later of what is shown and what is told. */
export function laterSpend<T extends Told>(shown: T | undefined, told: T): T {
  if (shown === undefined) return told;
  if (SETTLED.some((sum) => told[sum] < shown[sum])) return shown;
  if (SETTLED.some((sum) => told[sum] > shown[sum])) return told;
  // Requests count from their beginning: with the same sums, more of them is later.
  return told.requests < shown.requests ? shown : told;
}
