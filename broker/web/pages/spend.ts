/**
 * What a task has spent, as it is reported twice: live by its lease, and by the rows of its trace, which come later and say
 * less. A page shows the later of two figures, so that it never goes down.
 *
 * @module
 */

/** Figures of one task that tell which came later. */
export interface ReportedSpend {
  usd: number;
  requests: number;
  unmetered_requests: number;
  input_tokens: number;
  output_tokens: number;
}

/** Sums over what is settled: they only grow. */
const SETTLED = ["usd", "unmetered_requests", "input_tokens", "output_tokens"] as const;

/** The later of the shown and the reported figures. */
export function laterSpend<T extends ReportedSpend>(shown: T | undefined, reported: T): T {
  if (shown === undefined) return reported;
  if (SETTLED.some((sum) => reported[sum] < shown[sum])) return shown;
  if (SETTLED.some((sum) => reported[sum] > shown[sum])) return reported;
  // Requests count from their beginning: with the same sums, more of them is later.
  return reported.requests < shown.requests ? shown : reported;
}
