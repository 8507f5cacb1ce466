/**
 * Takes over what a sandbox left of a database. The sandbox has ended, and its files are data: only a plain file of
 * bounded size, with its -wal, is moved to a folder of its own; what SQLite makes of them happens in another process,
 * which has that folder and nothing else, for a bounded time.
 *
 * A rollback journal is never replayed: it can name another file, which SQLite then removes.
 */

import * as v from "valibot";
import type { Clock } from "../../lib/clock.ts";
import { messageOf, TaskdError } from "../../lib/errors.ts";
import { lstatIfPresent, withFileError } from "../../lib/fs.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { helperArgs, helperEnv } from "../../lib/helper_process.ts";
import { isHotJournal } from "../../lib/sqlite/hot_journal.ts";
import { runProcess } from "../../lib/process.ts";
import type { ProfileCheck } from "../settings/settings.ts";
import {
  BRIEF_DATABASE,
  type BriefCheck,
  CHANGESET_ROOT,
  CHECK_ANSWER,
  type CheckAnswer,
  grownBytes,
} from "../task/database_schema.ts";
import type { Report } from "./inspection_report.ts";
// Makes it part of the program, so that caches and packages include it.
import type {} from "./inspector_main.ts";
import { parseJson } from "../../lib/text/json.ts";

const INSPECT_MS = 300_000;
const CHECK_MS = 30_000;
/** Seconds of the processor after which the system itself ends it, should the broker be gone by then. */
const CPU_S = 600;
const HEAP_MIB = 512;
/** The report is bounded by what it lists; this is more. */
const MAX_REPORT_BYTES = 4 << 20;
const MAX_PROBLEM_CHARS = 500;

export interface InspectorOptions {
  deno_path: string;
  deno_cache_dir: string;
  clock: Clock;
}

export interface Inspection {
  /** For errors: `the database shop`. */
  what: string;
  left: string;
  base: string;
  /** A folder to make for the work; its parent exists. */
  work_dir: string;
  signal: AbortSignal;
}

export interface Inspected {
  report: Report & { ok: true };
  image: string;
}

const { db: _db, base: _base, ...found } = BRIEF_DATABASE.entries;
const REPORT: v.GenericSchema<unknown, Report> = v.variant("ok", [
  v.object({ ok: v.literal(false), problem: v.string() }),
  v.object({ ok: v.literal(true), changeset: v.exactOptional(CHANGESET_ROOT), ...found }),
]);

/**
 * @throws {TaskdError} `not_a_database`, `corrupt`, `denied` or `too_large` for what was left; `timed_out`; what keeps the
 * process from being run; the signal's reason.
 */
export async function inspectDatabase(options: InspectorOptions, inspection: Inspection): Promise<Inspected> {
  const { what, left, base, work_dir, signal } = inspection;
  const attempted = `Cannot take over ${what}`;
  await withFileError(attempted, async () => {
    const max_bytes = grownBytes((await Deno.stat(base)).size);
    requirePlain(left, { attempted, max_bytes });
    if (await isHotJournal(`${left}-journal`)) {
      throw new TaskdError("corrupt", `${attempted}: it was left in the middle of a transaction`);
    }
    await Deno.mkdir(work_dir, { mode: 0o700 });
    await take(left, `${work_dir}/result.db`);
    if (requirePlain(`${left}-wal`, { attempted, max_bytes, optional: true })) {
      await take(`${left}-wal`, `${work_dir}/result.db-wal`);
    }
    await Deno.copyFile(base, `${work_dir}/base.db`);
    await Deno.chmod(`${work_dir}/base.db`, 0o600);
  });
  const report = await runInspector(options, REPORT, { attempted, work_dir, signal, deadline_ms: INSPECT_MS });
  if (!report.ok) {
    const problem = sanitizeLine(report.problem).slice(0, MAX_PROBLEM_CHARS);
    throw new TaskdError("corrupt", `${attempted}: ${problem}`);
  }
  return { report, image: `${work_dir}/result.db` };
}

/**
 * Runs the profile's checks on both files of an inspection that has ended, each in a process of its own: what a query
 * meets there, and one that does not end, is its answer.
 */
export async function runChecks(
  options: InspectorOptions,
  { work_dir, signal }: Pick<Inspection, "work_dir" | "signal">,
  checks: readonly ProfileCheck[],
): Promise<BriefCheck[]> {
  const answer = async (path: string, { name, sql }: ProfileCheck): Promise<CheckAnswer> => {
    const query = new TextEncoder().encode(JSON.stringify({ path, sql }));
    const run = { attempted: `Cannot run the check ${name}`, work_dir, signal, deadline_ms: CHECK_MS, query };
    try {
      return await runInspector(options, CHECK_ANSWER, run);
    } catch (error) {
      signal.throwIfAborted();
      return { error: messageOf(error).slice(0, MAX_PROBLEM_CHARS) };
    }
  };
  const found: BriefCheck[] = [];
  for (const check of checks) {
    const { name, sql, expect } = check;
    const [before, after] = [await answer("base.db", check), await answer("result.db", check)];
    const holds = !("error" in before || "error" in after) &&
      (expect === "same" ? before.sha256 === after.sha256 : after.count === 0);
    found.push({ name, sql, ...expect && { expect, holds }, before, after });
  }
  return found;
}

function requirePlain(
  path: string,
  { attempted, max_bytes, optional = false }: { attempted: string; max_bytes: number; optional?: boolean },
): boolean {
  const info = lstatIfPresent(path);
  if (info === undefined) {
    if (optional) return false;
    throw new TaskdError("not_a_database", `${attempted}: the agent has removed it`);
  }
  if (!info.isFile) throw new TaskdError("denied", `${attempted}: the agent has put something else than a file there`);
  if (info.size > max_bytes) {
    throw new TaskdError("too_large", `${attempted}: it has grown to ${info.size} bytes, over ${max_bytes}`);
  }
  return true;
}

/** Moves a file that another user may own; it is the broker's from then on. */
async function take(path: string, target: string): Promise<void> {
  await Deno.rename(path, target);
  await Deno.chmod(target, 0o600);
}

async function runInspector<T>(
  { deno_path, deno_cache_dir, clock }: InspectorOptions,
  schema: v.GenericSchema<unknown, T>,
  run: { attempted: string; work_dir: string; signal: AbortSignal; deadline_ms: number; query?: Uint8Array },
): Promise<T> {
  const { attempted, work_dir, signal, deadline_ms, query } = run;
  const module = import.meta.resolve("./inspector_main.ts");
  const args = helperArgs({ name: "inspector", module, folders: ["."], heap_mib: HEAP_MIB });
  const { code, stdout, stderr } = await runProcess(deno_path, {
    args,
    limits: { cpu_s: CPU_S },
    env: helperEnv(deno_cache_dir),
    cwd: work_dir,
    stdin: query,
    deadline_ms,
    max_bytes: MAX_REPORT_BYTES,
    signal,
    clock,
    attempted,
  });
  if (code !== 0) {
    const problem = sanitizeLine(stderr.trim().split("\n").at(-1) ?? "").slice(0, MAX_PROBLEM_CHARS);
    throw new TaskdError("corrupt", `${attempted}: the inspection ended with code ${code}: ${problem}`);
  }
  const parsed = v.safeParse(schema, parseJson(stdout));
  if (!parsed.success) throw new TaskdError("corrupt", `${attempted}: the inspection gave no report`);
  return parsed.output;
}
