/**
 * Runs the parts of the hunt one after the other, whatever becomes of them, and reports them: see `nightly.ts`.
 */

import { stripVTControlCharacters } from "node:util";
import { SEED_VARIABLE } from "../support/seed.ts";
import { textLines } from "../support/text_lines.ts";
import { TestSum } from "./_test_processes.ts";

/** A part of the hunt. */
export interface Part {
  name: string;
  /** What it looks for. */
  what: string;
  /** Words after `deno`. */
  args: readonly string[];
  /** How it is given the seed: a flag, or the variable of tests. */
  seeded?: "flag" | "variable";
}

export interface HuntOptions {
  seed: number;
  /** Where parts run. */
  cwd: string;
  /** Where the report and what each part prints go; an absolute path. */
  output: string;
  print: (line: string) => void;
}

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
async function hunt(part: Part, { seed, cwd, output, print }: HuntOptions): Promise<Outcome> {
  const args = part.seeded === "flag" ? [...part.args, "--seed", `${seed}`] : part.args;
  const variables: Record<string, string> = part.seeded === "variable" ? { [SEED_VARIABLE]: `${seed}` } : {};
  const started = performance.now();
  const child = new Deno.Command(Deno.execPath(), {
    args: [...args],
    cwd,
    env: { NO_COLOR: "1", ...variables },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  using log = Deno.openSync(`${output}/nightly-${part.name}.log`, { create: true, write: true, truncate: true });
  const sum = new TestSum();
  const show = async (stream: ReadableStream<Uint8Array<ArrayBuffer>>) => {
    for await (const line of textLines(stream)) {
      print(line);
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

/** Runs all of them; whether every one passed. */
export async function huntAll(parts: readonly Part[], options: HuntOptions): Promise<boolean> {
  const { seed, output, print } = options;
  Deno.mkdirSync(output, { recursive: true });
  print(`seed ${seed}`);
  const outcomes: Outcome[] = [];
  for (const part of parts) {
    print(`\n== ${part.name}: ${part.what}`);
    const outcome = await hunt(part, options);
    if (outcome.failed > 0) print(`${part.name} failed; again: ${outcome.command}`);
    outcomes.push(outcome);
  }
  const text = report(outcomes, seed);
  Deno.writeTextFileSync(`${output}/nightly.md`, text);
  print(`\n${text}`);
  const total = (count: (outcome: Outcome) => number) => outcomes.reduce((sum, outcome) => sum + count(outcome), 0);
  const failed = total((outcome) => outcome.failed);
  print(`${total((outcome) => outcome.passed)} passed, ${failed} failed`);
  return failed === 0;
}
