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

import { parseArgs, stripVTControlCharacters } from "node:util";
import { textLines } from "../support/text_lines.ts";
import { SEED_VARIABLE } from "../support/seed.ts";
import { TestSum } from "./_test_processes.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const OUTPUT = `${ROOT}tests/output`;

/** A part of the hunt. */
interface Part {
  name: string;
  /** What it looks for. */
  what: string;
  /** Words after `deno`. */
  args: readonly string[];
  /** How it is given the seed: a flag, or the variable of tests. */
  seeded?: "flag" | "variable";
}

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

/** The result of a part. */
interface Outcome {
  part: Part;
  passed: number;
  failed: number;
  seconds: number;
  /** The command that repeats it. */
  command: string;
}

/** Runs a part, shows what it prints and keeps that. */
async function hunt(part: Part, seed: number): Promise<Outcome> {
  const args = part.seeded === "flag" ? [...part.args, "--seed", `${seed}`] : part.args;
  const variables: Record<string, string> = part.seeded === "variable" ? { [SEED_VARIABLE]: `${seed}` } : {};
  const started = performance.now();
  const child = new Deno.Command(Deno.execPath(), {
    args: [...args],
    cwd: ROOT,
    env: { NO_COLOR: "1", ...variables },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  using log = Deno.openSync(`${OUTPUT}/nightly-${part.name}.log`, { create: true, write: true, truncate: true });
  const sum = new TestSum();
  const show = async (stream: ReadableStream<Uint8Array<ArrayBuffer>>) => {
    for await (const line of textLines(stream)) {
      console.log(line);
      log.writeSync(new TextEncoder().encode(`${line}\n`));
      sum.add(stripVTControlCharacters(line));
    }
  };
  const [{ success }] = await Promise.all([child.status, show(child.stdout), show(child.stderr)]);
  const { failed, passed } = sum;
  return {
    part,
    // Not every part counts tests.
    passed: passed + failed > 0 ? passed : success ? 1 : 0,
    failed: success || failed > 0 ? failed : 1,
    seconds: (performance.now() - started) / 1_000,
    command: [...Object.entries(variables).map(([name, value]) => `${name}=${value}`), "deno", ...args].join(" "),
  };
}

function report(outcomes: readonly Outcome[], seed: number): string {
  const rows = outcomes.map(({ part, passed, failed, seconds, command }) =>
    `| ${[part.name, part.what, passed, failed, `${(seconds / 60).toFixed(1)} min`, `\`${command}\``].join(" | ")} |`
  );
  return [
    `Seed ${seed}.`,
    "",
    "| part | looks for | passed | failed | time | again |",
    "| ---- | --------- | ------ | ------ | ---- | ----- |",
    ...rows,
    "",
  ].join("\n");
}

const { values } = parseArgs({ options: { only: { type: "string" }, seed: { type: "string" } } });
const names = values.only?.split(",") ?? PARTS.map(({ name }) => name);
const unknown = names.filter((name) => !PARTS.some((part) => part.name === name));
if (unknown.length > 0) {
  console.error(`Cannot run ${unknown.join(", ")}: parts are ${PARTS.map(({ name }) => name).join(", ")}`);
  Deno.exit(2);
}
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
Deno.mkdirSync(OUTPUT, { recursive: true });
console.log(`seed ${seed}`);
const outcomes: Outcome[] = [];
for (const part of PARTS.filter(({ name }) => names.includes(name))) {
  console.log(`\n== ${part.name}: ${part.what}`);
  const outcome = await hunt(part, seed);
  if (outcome.failed > 0) console.log(`${part.name} failed; again: ${outcome.command}`);
  outcomes.push(outcome);
}
const text = report(outcomes, seed);
Deno.writeTextFileSync(`${OUTPUT}/nightly.md`, text);
console.log(`\n${text}`);
const [passed, failed] = [outcomes.map(({ passed }) => passed), outcomes.map(({ failed }) => failed)]
  .map((counts) => counts.reduce((sum, count) => sum + count, 0));
console.log(`${passed} passed, ${failed} failed`);
Deno.exit(failed === 0 ? 0 : 1);
