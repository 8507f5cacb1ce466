/**
 * Runs test modules in processes of their own, some at a time, and reports them as one run of `deno test` does: lines as
 * they come, then the errors, then one sum.
 *
 * One process for all would hold more memory with every module, and each program that a test starts costs a copy of its
 * page tables: that was a quarter of the suite's time.
 */

import { stripVTControlCharacters } from "node:util";
import { textLines } from "../support/text_lines.ts";

/** Modules that one process runs. */
export interface TestProcess {
  /** What it is called where it ends without a report. */
  name: string;
  modules: readonly string[];
}

export interface TestRunOptions {
  /** Arguments of each `deno test`. */
  args: readonly string[];
  env: Readonly<Record<string, string>>;
  cwd: string;
  /** How many processes run at a time. */
  jobs: number;
  /** Ends the processes that run, and starts no more. */
  signal: AbortSignal;
  print: (line: string) => void;
}

/** What `deno test` counts, in the order of its sum. */
const COUNTED = ["passed", "failed", "ignored", "filtered out"] as const;

export class TestSum {
  #counts = new Map<string, number>();
  #steps = 0;

  /** Adds the sum that a line of `deno test` gives; false where it gives none. */
  add(line: string): boolean {
    if (!/^(ok|FAILED) \| \d+ passed/.test(line)) return false;
    for (const [, count, what] of line.matchAll(/(\d+) (passed|failed|ignored|filtered out)/g)) {
      this.count(what as typeof COUNTED[number], Number(count));
    }
    this.#steps += Number(/passed \((\d+) steps?\)/.exec(line)?.[1] ?? 0);
    return true;
  }

  count(what: typeof COUNTED[number], more: number): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + more);
  }

  get failed(): number {
    return this.#counts.get("failed") ?? 0;
  }

  format(seconds: number): string {
    const steps = this.#steps === 0 ? "" : ` (${this.#steps} steps)`;
    const counts = COUNTED.map((what) => [what, this.#counts.get(what) ?? 0] as const)
      .filter(([what, count]) => count > 0 || what === "passed" || what === "failed")
      .map(([what, count]) => `${count} ${what}${what === "passed" ? steps : ""}`);
    const time = `${Math.floor(seconds / 60)}m${Math.round(seconds % 60)}s`;
    return `${this.failed === 0 ? "ok" : "FAILED"} | ${counts.join(" | ")} (${time})`;
  }
}

/** Runs all of them; whether everything passed. */
export async function runTests(processes: readonly TestProcess[], options: TestRunOptions): Promise<boolean> {
  const { jobs, signal, print } = options;
  const started = performance.now();
  const sum = new TestSum();
  const errors: string[] = [];
  const failures: string[] = [];
  const waiting = [...processes];
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined && !signal.aborted; next = waiting.shift()) {
      const report = await runOne(next, sum, options);
      errors.push(...report.errors);
      failures.push(...report.failures);
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  for (const line of errors) print(line);
  if (failures.length > 0) print(" FAILURES ");
  for (const line of failures) print(line);
  if (signal.aborted) print("interrupted");
  print("");
  print(sum.format((performance.now() - started) / 1_000));
  return sum.failed === 0 && !signal.aborted;
}

/** What one process reports, to be shown after everything else. */
interface FailureReport {
  /** As `deno test` prints them. */
  errors: string[];
  /** Of each the test's name and the first line of its error: the end of a long output is what people see. */
  failures: string[];
}

/** The first line of an error is no longer than this; characters. */
const SHORT_ERROR = 300;

function shortened(errors: readonly string[]): string[] {
  return errors.flatMap((line, index) => {
    const plain = stripVTControlCharacters(line);
    if (!plain.startsWith("error: ")) return [];
    return [stripVTControlCharacters(errors[index - 1] ?? ""), `  ${plain.slice(0, SHORT_ERROR)}`];
  });
}

async function runOne({ name, modules }: TestProcess, sum: TestSum, options: TestRunOptions): Promise<FailureReport> {
  const { args, env, cwd, signal, print } = options;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["test", "-A", "--no-prompt", "--no-check", "--parallel", ...args, ...modules],
    cwd,
    env,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const stop = () => child.kill("SIGTERM");
  signal.addEventListener("abort", stop, { once: true });
  const errors: string[] = [];
  let [failed, listed] = [false, false];
  const report = async () => {
    for await (const line of textLines(child.stdout)) {
      const plain = stripVTControlCharacters(line);
      if (sum.add(plain)) {
        failed ||= plain.startsWith("FAILED");
        continue;
      }
      listed ||= plain === " FAILURES ";
      if (listed) continue;
      if (errors.length > 0 || plain === " ERRORS ") errors.push(line);
      else if (plain !== "") print(line);
    }
  };
  const said = async () => {
    for await (const line of textLines(child.stderr)) print(line);
  };
  const [{ success, code }] = await Promise.all([child.status, report(), said()]);
  signal.removeEventListener("abort", stop);
  const failures = shortened(errors);
  if (!success && !failed && !signal.aborted) {
    sum.count("failed", 1);
    failures.push(`${name} ended with status ${code} and without a report ... FAILED`);
  }
  return { errors, failures };
}
