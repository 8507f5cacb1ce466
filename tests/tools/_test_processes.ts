/**
 * Runs test modules in processes of their own, some at a time, and reports them as one run of `deno test` does: lines as
 * they come, then the errors, then one sum.
 *
 * One process for all would hold more memory with every module, and each program that a test starts costs a copy of its
 * page tables: that was a quarter of the suite's time.
 *
 * What failed can be repeated once, alone and after everything else: a test that passes then is reported as flaky, and a
 * few of those do not fail the run. What fails twice, does not load, or is ignored counts as what it is.
 */

import { stripVTControlCharacters } from "node:util";
import { textLines } from "../support/text_lines.ts";

/** Modules that one process runs. */
export interface TestProcess {
  /** What it is called where it ends without a report. */
  name: string;
  modules: readonly string[];
  /** A program and its first words that run a command: `deno test` is run by it. */
  within?: readonly string[];
  /** The files of tests that `modules` import, to be repeated one by one; by default the modules themselves. */
  files?: readonly string[];
}

/** Processes that may run beside each other. */
export interface TestPass {
  processes: readonly TestProcess[];
  /** How many of them run at a time. */
  jobs: number;
}

export interface TestRunOptions {
  /** Arguments of each `deno test`. */
  args: readonly string[];
  env: Readonly<Record<string, string>>;
  cwd: string;
  /** How many flaky tests are accepted; undefined where nothing is repeated. */
  max_flaky?: number;
  /** Ends the processes that run, and starts no more. */
  signal: AbortSignal;
  print: (line: string) => void;
  /** What is to be said after the last test, before the sum. */
  atEnd?: () => readonly string[];
}

/** What `deno test` counts, in the order of its sum. */
const COUNTED = ["passed", "failed", "ignored", "filtered out"] as const;
/** The first line of an error is no longer than this; characters. */
const SHORT_ERROR = 300;
/** Lines of the errors of a process that is repeated. */
const MAX_ERROR_LINES = 200;

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

  /** Adds all that another one has counted. */
  addAll(other: TestSum): void {
    for (const [what, count] of other.#counts) this.count(what as typeof COUNTED[number], count);
    this.#steps += other.#steps;
  }

  count(what: typeof COUNTED[number], more: number): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + more);
  }

  get passed(): number {
    return this.#counts.get("passed") ?? 0;
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

/** A test that failed, or a step of one. */
interface Failure {
  /** Names of test and steps, joined by ` ... `. */
  name: string;
  /** Where it is defined: `./lib/x_test.ts:1:2`. */
  place: string;
  /** The first line of its error. */
  error: string;
}

/** What one process reports. */
interface ProcessReport {
  process: TestProcess;
  sum: TestSum;
  failures: Failure[];
  /** As `deno test` prints them. */
  errors: string[];
  /** Why not all of its tests have run: it died, did not load, or an error belongs to no test. */
  cut_off?: string;
}

/** Runs all of them, a pass after the other; whether the run counts as passed. */
export async function runTests(passes: readonly TestPass[], options: TestRunOptions): Promise<boolean> {
  const { signal, print, max_flaky } = options;
  const started = performance.now();
  const reports: ProcessReport[] = [];
  for (const { processes, jobs } of passes) {
    const waiting = [...processes];
    const work = async () => {
      for (let next = waiting.shift(); next !== undefined && !signal.aborted; next = waiting.shift()) {
        reports.push(await runOne(next, options));
      }
    };
    await Promise.all(Array.from({ length: jobs }, work));
  }
  const seconds = () => (performance.now() - started) / 1_000;
  const flaky = max_flaky === undefined || signal.aborted ? [] : await repeatFailed(reports, max_flaky, options);
  const sum = new TestSum();
  for (const report of reports) sum.addAll(report.sum);
  for (const line of reports.flatMap(({ errors }) => errors)) print(line);
  const failures = reports.flatMap(failureLines);
  if (failures.length > 0) print(" FAILURES ");
  for (const line of failures) print(line);
  for (const line of flaky) print(line);
  if (flaky.length > (max_flaky ?? 0)) print(`${flaky.length} flaky tests are more than ${max_flaky} ... FAILED`);
  if (signal.aborted) print("interrupted");
  for (const line of options.atEnd?.() ?? []) print(line);
  print("");
  print(sum.format(seconds()));
  return sum.failed === 0 && flaky.length <= (max_flaky ?? 0) && !signal.aborted;
}

function failureLines({ process, failures, cut_off }: ProcessReport): string[] {
  const lines = failures.flatMap(({ name, place, error }) => [`${name} => ${place}`, `  ${error}`]);
  return cut_off === undefined ? lines : [...lines, `${process.name} ${cut_off} ... FAILED`];
}

/**
 * Repeats what failed, one process at a time, and puts its report in the place of the first one. Nothing where more than
 * that is broken: repeating would only delay the answer. Returns a line for each flaky test.
 */
async function repeatFailed(reports: ProcessReport[], max_flaky: number, options: TestRunOptions): Promise<string[]> {
  const broken = reports.filter(({ sum, cut_off }) => sum.failed > 0 || cut_off !== undefined);
  if (broken.length > max_flaky) return [];
  const flaky: string[] = [];
  for (const first of broken) {
    const again = await (first.cut_off === undefined ? repeatTests(first, options) : repeatFiles(first, options));
    if (options.signal.aborted) return flaky;
    // What passes now may be a hole that is seldom seen: its first line does not say which.
    for (const line of first.errors.slice(0, MAX_ERROR_LINES)) options.print(`  | ${line}`);
    options.print(`repeated ${first.process.name}: ${again.sum.failed === 0 ? "ok" : "FAILED"}`);
    for (const { name, place, error } of first.failures) {
      const stays = again.failures.some((failure) => failure.name === name && failure.place === place);
      if (!stays) flaky.push(`flaky: ${place.replace(/(:\d+)+$/, "")} => ${name} (${error})`);
    }
    if (first.cut_off !== undefined && again.sum.failed === 0) {
      flaky.push(`flaky: ${first.process.name} ${first.cut_off}`);
    }
    reports[reports.indexOf(first)] = again;
  }
  return flaky;
}

/** Repeats the tests that failed; the others of the process stand as they are. */
async function repeatTests(first: ProcessReport, options: TestRunOptions): Promise<ProcessReport> {
  const escaped = new Set(first.failures.flatMap(({ name }) => namesOf(name)).map(escapeRegExp));
  const args = [...options.args, "--filter", `/^(?:${[...escaped].join("|")})$/`];
  const again = await runOne(first.process, { ...options, args });
  const sum = new TestSum();
  sum.addAll(first.sum);
  sum.count("failed", again.sum.failed - first.sum.failed);
  sum.count("passed", first.sum.failed - again.sum.failed);
  return { ...again, sum };
}

/** Repeats all files of a process, each in one of its own: nothing says which of its tests have run. */
async function repeatFiles({ process }: ProcessReport, options: TestRunOptions): Promise<ProcessReport> {
  const again: ProcessReport = { process, sum: new TestSum(), failures: [], errors: [] };
  for (const file of process.files ?? process.modules) {
    const one = await runOne({ ...process, name: file, modules: [file] }, options);
    again.sum.addAll(one.sum);
    again.failures.push(...one.failures, ...(one.cut_off === undefined ? [] : [missing(one)]));
    again.errors.push(...one.errors);
  }
  return again;
}

function missing({ process, cut_off }: ProcessReport): Failure {
  return { name: process.name, place: process.name, error: cut_off! };
}

/** Possible names of the test that a line names a step of: dots separate steps, and names may have such dots as well. */
function namesOf(name: string): string[] {
  const parts = name.split(" ... ");
  return parts.map((_, index) => parts.slice(0, index + 1).join(" ... "));
}

function escapeRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
}

async function runOne(process: TestProcess, options: TestRunOptions): Promise<ProcessReport> {
  const { args, env, cwd, signal, print } = options;
  const command = [Deno.execPath(), "test", "-A", "--no-prompt", "--no-check", "--parallel", ...args];
  const [program, ...words] = [...process.within ?? [], ...command, ...process.modules] as [string, ...string[]];
  const child = new Deno.Command(program, {
    args: words,
    cwd,
    env,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const stop = () => child.kill("SIGTERM");
  signal.addEventListener("abort", stop, { once: true });
  const report: ProcessReport = { process, sum: new TestSum(), failures: [], errors: [] };
  let [reported, listed] = [false, false];
  const read = async () => {
    for await (const line of textLines(child.stdout)) {
      const plain = stripVTControlCharacters(line);
      if (report.sum.add(plain)) {
        reported = true;
        continue;
      }
      listed ||= plain === " FAILURES ";
      if (listed) continue;
      if (report.errors.length > 0 || plain === " ERRORS ") report.errors.push(line);
      else if (plain !== "") print(line);
    }
  };
  const said = async () => {
    for await (const line of textLines(child.stderr)) print(line);
  };
  const [{ success, code }] = await Promise.all([child.status, read(), said()]);
  signal.removeEventListener("abort", stop);
  readFailures(report);
  if (!success && !signal.aborted && !(reported && report.sum.failed > 0)) {
    report.sum.count("failed", 1);
    report.cut_off = `ended with status ${code} and without a report`;
  }
  return report;
}

/** Reads the failures off the errors that `deno test` printed. */
function readFailures(report: ProcessReport): void {
  const plain = report.errors.map(stripVTControlCharacters);
  for (const [index, line] of plain.entries()) {
    if (!line.startsWith("error: ")) continue;
    const error = line.slice(0, SHORT_ERROR);
    const [, name, place] = /^(.*) => (\S+:\d+:\d+)$/.exec(plain[index - 1] ?? "") ?? [];
    if (name !== undefined && place !== undefined) report.failures.push({ name, place, error });
    else if (/ \(uncaught error\)$/.test(plain[index - 1] ?? "")) report.cut_off = `met an error of no test: ${error}`;
  }
}
