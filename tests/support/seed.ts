/**
 * The seed of whatever tests draw at random. It is fixed, so that two runs of a commit take the same decisions; the hunt
 * (`deno task nightly`) draws another one each time, and names it with every failure.
 */

/** Names the seed of a run: `TASKD_TEST_SEED=7 deno task test tests/sim` takes the decisions of the hunt's seed 7 again. */
export const SEED_VARIABLE = "TASKD_TEST_SEED";

/** The seed that the run names, else `fixed`. */
export function testSeed(fixed = 1): number {
  return Number(Deno.env.get(SEED_VARIABLE) ?? fixed);
}

/** As many seeds: the run's own and those that follow. */
export function testSeeds(count: number): number[] {
  return Array.from({ length: count }, (_, index) => testSeed() + index);
}
