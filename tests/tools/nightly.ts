/**
 * The hunt: everything that is random, long or measured, which the check of a change leaves out. It goes on after a
 * failure, and ends with a table of its parts and `N passed, N failed`.
 *
 *     deno task nightly                            # all parts, a few hours
 *     deno task nightly --only torture,powercut
 *     deno task nightly --only torture --seed 7    # the decisions of an earlier run again
 *
 * Each run draws a seed and prints it; a part that fails prints the command that repeats it. The report is
 * `tests/output/nightly.md`, what each part printed stands beside it.
 */

import { parseArgs } from "node:util";
import { huntAll, type Part } from "./_hunt.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

const PARTS: readonly Part[] = [
  { name: "long", what: "every long form of the tests", args: ["task", "test:long"], seeded: "variable" },
  { name: "model", what: "every state of the protocols' models", args: ["run", "-A", "tests/model/spin.ts"] },
  {
    name: "mutate",
    what: "changes that a comparison does not show",
    args: ["task", "gate:mutate", "--cases", "20000"],
    seeded: "flag",
  },
  {
    name: "torture",
    what: "kills, forks and merges under load",
    args: ["task", "torture", "--seconds", "600"],
    seeded: "flag",
  },
  {
    name: "torture-xfs",
    what: "the same where blocks are cloned",
    args: ["task", "torture", "--seconds", "300", "--xfs"],
    seeded: "flag",
  },
  {
    name: "torture-s3",
    what: "the same in a bucket",
    args: ["task", "torture", "--seconds", "300", "--store", "s3"],
    seeded: "flag",
  },
  {
    name: "powercut",
    what: "power cuts under store and broker",
    args: ["task", "powercut", "--cuts", "500"],
    seeded: "flag",
  },
  { name: "soak", what: "both daemons under load for long", args: ["task", "soak", "--minutes", "20"], seeded: "flag" },
  { name: "bench", what: "benchmarks", args: ["task", "bench"] },
];

const { values } = parseArgs({ options: { only: { type: "string" }, seed: { type: "string" } } });
const names = values.only?.split(",") ?? PARTS.map(({ name }) => name);
const unknown = names.filter((name) => !PARTS.some((part) => part.name === name));
if (unknown.length > 0) {
  console.error(`Cannot run ${unknown.join(", ")}: parts are ${PARTS.map(({ name }) => name).join(", ")}`);
  Deno.exit(2);
}
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
const passed = await huntAll(PARTS.filter(({ name }) => names.includes(name)), {
  seed,
  cwd: ROOT,
  output: `${ROOT}tests/output`,
  print: (line) => console.log(line),
});
Deno.exit(passed ? 0 : 1);
