/**
 * Sampling: warm-up, rounds that interleave the subjects so that a noisy minute
 * hits all of them alike, and the figures drawn from the samples.
 */

/** What a set of samples says; same unit as the samples. */
export interface Stats {
  n: number;
  min: number;
  p5: number;
  p50: number;
  p95: number;
  max: number;
}

/** One measurement: prepares, measures, tidies, and answers the measured value. */
export type Measure = (round: number) => Promise<number> | number;

/** How often to measure. */
export interface SampleOptions {
  /** Rounds that count. */
  samples: number;
  /** Rounds before them that do not, default 1. */
  warmup?: number;
  /** Once this is spent no round begins, but at least three are made; default 60,000. */
  budget_ms?: number;
}

const MIN_ROUNDS = 3;

/** Sums up samples by nearest rank; throws on none. */
export function summarize(samples: readonly number[]): Stats {
  if (samples.length === 0) throw new RangeError("Cannot sum up no samples");
  const rank = (share: number) => nearestRank(samples, share);
  return { n: samples.length, min: rank(0), p5: rank(0.05), p50: rank(0.5), p95: rank(0.95), max: rank(1) };
}

/** The sample at `share` of the way from the least to the greatest, by nearest rank. */
export function nearestRank(samples: readonly number[], share: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]!;
}

/** Milliseconds that `run` takes. */
export async function elapsed(run: () => unknown): Promise<number> {
  const start = performance.now();
  await run();
  return performance.now() - start;
}

/**
 * Measures every subject once per round, in turn and in alternating order, so that each
 * pair of neighbours saw the same state of the machine.
 *
 * @returns Samples by subject, warm-up rounds left out
 */
export async function interleave(
  subjects: Readonly<Record<string, Measure>>,
  options: SampleOptions,
): Promise<Record<string, number[]>> {
  const { samples, warmup = 1, budget_ms = 60_000 } = options;
  const names = Object.keys(subjects);
  const taken: Record<string, number[]> = Object.fromEntries(names.map((name) => [name, []]));
  const start = performance.now();
  for (let round = -warmup; round < samples; round++) {
    if (round >= MIN_ROUNDS && performance.now() - start > budget_ms) break;
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const value = await subjects[name]!(round);
      if (round >= 0) taken[name]!.push(value);
    }
  }
  return taken;
}

/** Measures one subject. */
export async function sample(measure: Measure, options: SampleOptions): Promise<number[]> {
  return (await interleave({ only: measure }, options)).only!;
}
