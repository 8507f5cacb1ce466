/**
 * The setup phase of a task: its repository's profile, run on the work tree before the agent starts.
 *
 * - Each command runs in a sandbox of its own, which has ended, with everything it started, before the next begins. It
 *   has no token for the gateway and reaches nothing but the egress proxy.
 * - A verdict is the exit code that the broker observed. Output is shown and decides nothing.
 * - Setup commands run first, then readiness commands, which see the dependency cache read-only. The first that does
 *   not pass ends the phase; what would have followed is `not_run`.
 * - The host writes the log and nothing else, and never below the work tree.
 */

import type { Clock } from "../../../lib/clock.ts";
import { formatDuration } from "../../../lib/text/duration.ts";
import { sanitizeLine } from "../../../lib/text/sanitize.ts";
import type { CommandEvidence, SetupEvidence } from "../../task/schema.ts";
import type { CacheUse } from "../../cache/dependency_cache.ts";
import { cacheEnv } from "../../cache/package_managers.ts";
import type { Container, SandboxRuntime, SandboxSpec } from "../../sandbox/runtime.ts";
import type { Profile } from "../../settings/settings.ts";
import { waitForEnd } from "../endings.ts";
import { setupEnv } from "./environment.ts";
import { SetupLog } from "./setup_log.ts";
import { messageOf } from "../../../lib/errors.ts";

export interface SetupOptions {
  task_id: string;
  profile: Profile;
  /** Absolute path of the work tree, which the commands see as `/workspace` and change. */
  work_dir: string;
  runtime: SandboxRuntime;
  container: Container;
  /** `http://user:password@host:port` of the egress proxy, with the task's credentials. */
  proxy_url: string;
  /** The task's part in the dependency cache. It is committed when everything has passed; releasing it is the caller's. */
  cache?: CacheUse;
  log_path: string;
  /** Ends the phase; {@linkcode runSetup} then rejects with its reason. */
  signal: AbortSignal;
  /** Called with each line of output as it comes, safe to show. */
  onLine: (line: string) => void;
  clock: Clock;
}

export interface RunSetupResult {
  evidence: SetupEvidence;
  passed: boolean;
  reason?: string;
}

/** Memory of a command, and its processes: builds take many. */
const MEMORY_BYTES = 4 * 2 ** 30;
const MAX_PIDS = 2_048;
/** Output that is taken, more than a person reads; what follows is discarded, and the command goes on. */
const MAX_OUTPUT_BYTES = 1 << 20;
const DEFAULT_TIMEOUT_MS = 600_000;
const MAX_SHOWN_COMMAND = 200;

export function hasSetup(profile: Profile | undefined): profile is Profile {
  return profile !== undefined && profile.setup.length + profile.readiness.length > 0;
}

/**
 * @throws The signal's reason after an abort, once nothing of the phase runs any more.
 * @throws {TaskdError} `sandbox_failed` or `invalid_config` when a sandbox cannot be started; what writing the log throws.
 */
export async function runSetup(options: SetupOptions): Promise<RunSetupResult> {
  const { profile, cache, signal } = options;
  signal.throwIfAborted();
  using log = new SetupLog(options.log_path);
  const say = (text: string) => {
    const line = sanitizeLine(text);
    log.note(line);
    options.onLine(line);
  };
  const commands: CommandEvidence[] = [];
  let reason: string | undefined;
  for (const phase of ["setup", "readiness"] as const) {
    for (const command of profile[phase]) {
      if (reason !== undefined) {
        commands.push({ phase, command, status: "not_run", duration_ms: 0 });
        continue;
      }
      say(`$ ${commandText(command)}`);
      const evidence: CommandEvidence = { phase, command, ...await runCommand(command, { phase, options, log }) };
      commands.push(evidence);
      say(`# ${verdictText(evidence)}`);
      if (evidence.status !== "passed") reason = `${phase} command ${commandText(command)} ${verdictText(evidence)}`;
    }
  }
  if (reason === undefined && cache !== undefined) await keepCache(cache, say);
  const evidence: SetupEvidence = {
    commands,
    cache: {
      participation: cache?.participation ?? "disabled",
      ...cache?.key_prefix === undefined ? {} : { key_prefix: cache.key_prefix },
    },
  };
  return { evidence, passed: reason === undefined, ...reason === undefined ? {} : { reason } };
}

/** The cache saves time and decides nothing: a task goes on without an entry. */
async function keepCache(cache: CacheUse, say: (line: string) => void): Promise<void> {
  if (cache.setup_mount === undefined) return;
  try {
    const { kept, reason } = await cache.commit();
    if (!kept) say(`# the dependency cache is not kept: ${reason}`);
  } catch (error) {
    say(`# the dependency cache is not kept: ${messageOf(error)}`);
  }
}

interface Run {
  phase: CommandEvidence["phase"];
  options: SetupOptions;
  log: SetupLog;
}

async function runCommand(
  command: readonly string[],
  run: Run,
): Promise<Pick<CommandEvidence, "status" | "exit_code" | "duration_ms">> {
  const { clock, signal, runtime } = run.options;
  signal.throwIfAborted();
  const started_ms = clock.monotonic();
  const sandbox = await runtime.start(specOf(command, run));
  const end = await waitForEnd(sandbox, signal);
  signal.throwIfAborted();
  const duration_ms = Math.max(0, clock.monotonic() - started_ms);
  if (end.output_truncated) run.log.note("# more output was discarded");
  if (end.reason === "out_of_memory") run.log.note("# it needed more memory than it may have");
  if (end.reason === "timed_out") return { status: "timed_out", duration_ms };
  // Another process ended it.
  if (end.reason === "stopped") return { status: "failed", duration_ms };
  const passed = end.reason === "exited" && end.code === 0 && end.signal === undefined;
  return { status: passed ? "passed" : "failed", exit_code: end.code, duration_ms };
}

function specOf(command: readonly string[], { phase, options, log }: Run): SandboxSpec {
  const { task_id, work_dir, container, proxy_url, profile, onLine } = options;
  const cached = options.cache?.setup_mount;
  // What fills an entry is named by its key, and readiness commands are not.
  const mount = cached && { ...cached, writable: phase === "setup" };
  return {
    task_id,
    work_dir,
    workload: {
      kind: "command",
      ...container,
      command,
      env: { ...setupEnv(proxy_url), ...mount === undefined ? {} : cacheEnv(mount.writable ? "setup" : "agent") },
      mounts: mount === undefined ? [] : [mount],
      max_pids: MAX_PIDS,
      reach: "proxy",
    },
    memory_bytes: MEMORY_BYTES,
    timeout_ms: profile.timeout > 0 ? profile.timeout : DEFAULT_TIMEOUT_MS,
    signal: options.signal,
    max_output_bytes: MAX_OUTPUT_BYTES,
    onOutput({ text }) {
      log.output(text);
      onLine(`| ${text}`);
    },
  };
}

function commandText(command: readonly string[]): string {
  const text = command.map((word) => /^[\w./:=@%+,-]+$/.test(word) ? word : JSON.stringify(word)).join(" ");
  return text.length > MAX_SHOWN_COMMAND ? `${text.slice(0, MAX_SHOWN_COMMAND)}...` : text;
}

function verdictText({ status, exit_code, duration_ms }: Omit<CommandEvidence, "phase" | "command">): string {
  const after = `after ${formatDuration(Math.round(duration_ms))}`;
  if (status === "timed_out") return `timed out ${after}`;
  return `${status}${exit_code === undefined ? "" : ` with exit code ${exit_code}`} ${after}`;
}
