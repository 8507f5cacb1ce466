/**
 * Long tests: what `deno task test:long` runs and `deno task test` does not.
 *
 * A test is long by nature when it repeats what a short one shows: on every file system, against a second server, with
 * every fault instead of a few. The default suite has a seeded short form of it. Names of long tests end with the mark
 * by which the task picks them.
 */

import { SeededRandom } from "./writers/random.ts";

/** The variable by which `deno task test:long` asks for the long forms. */
export const LONG_VARIABLE = "TASKD_LONG_TESTS";
/** What a long test's name has in it. */
export const LONG_MARK = "(long)";
/** Its value with `deno task test:long --longest`: numbers that take more than an hour. */
export const LONGEST_VALUE = "longest";
const asked = Deno.env.get(LONG_VARIABLE);
const LONGEST = asked === LONGEST_VALUE;
/** Whether the long forms run. */
export const LONG = asked === "1" || LONGEST;

type Run = (t: Deno.TestContext) => void | Promise<void>;

function definitionOf(test: string | Deno.TestDefinition, run: Run | undefined): Deno.TestDefinition {
  const definition = typeof test === "string" ? { name: test, fn: run! } : test;
  return LONG ? { ...definition, name: `${definition.name} ${LONG_MARK}` } : definition;
}

/** A test that runs in the long suite alone. */
export function longTest(name: string, run: Run): void;
/** The same, with options. */
export function longTest(definition: Deno.TestDefinition): void;
export function longTest(test: string | Deno.TestDefinition, run?: Run): void {
  if (LONG) Deno.test(definitionOf(test, run));
}

/** A test that runs in both suites: in the default one with what {@linkcode shortened} and {@linkcode scaled} leave of it. */
export function scaledTest(name: string, run: Run): void;
/** The same, with options. */
export function scaledTest(definition: Deno.TestDefinition): void;
export function scaledTest(test: string | Deno.TestDefinition, run?: Run): void {
  Deno.test(definitionOf(test, run));
}

/** A number of repetitions: `short` in the default suite, `longest` where that is asked for. */
export function scaled({ short, long, longest = long }: { short: number; long: number; longest?: number }): number {
  return LONGEST ? longest : LONG ? long : short;
}

/** `count` of the cases, drawn with a fixed seed, in their order; all of them in the long suite. */
export function shortened<T>(cases: readonly T[], count: number): readonly T[] {
  if (LONG || cases.length <= count) return cases;
  const random = new SeededRandom(1);
  const rest = cases.map((_, index) => index);
  const drawn = new Set(Array.from({ length: count }, () => rest.splice(random.between(0, rest.length - 1), 1)[0]!));
  return cases.filter((_, index) => drawn.has(index));
}
