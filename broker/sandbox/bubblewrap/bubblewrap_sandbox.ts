/**
 * One running sandbox of bubblewrap: how it ends, and how it ended.
 *
 * bwrap is the broker's own child, and whatever ends it ends everything in the sandbox. To end gently, the group of the
 * sandbox's first process gets the signal, which are the agent and what it started in its group.
 */

import * as v from "valibot";
import type { Clock } from "../../../lib/clock.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { readTextOf, removeIfPresent } from "../../../lib/fs.ts";
import { parseJson } from "../../../lib/text/json.ts";
import { runProcess } from "../../../lib/process.ts";
import { supervise } from "../supervised_sandbox.ts";
import { signalProcess, spawnDetached } from "../processes.ts";
import type { Sandbox, SandboxSpec } from "../runtime.ts";
import type { ControlGroup } from "./control_groups.ts";
import { watchMemory } from "./memory_watch.ts";
import { BEGAN, type StartCommand } from "./start_script.ts";

/** Milliseconds between SIGTERM and SIGKILL: an agent may save where it was. */
const GRACE_MS = 5_000;
const KILLED = 128 + 9;
/** Of the scripts that start a sandbox, before its program has begun. */
const NOT_STARTED = 121;
const COMPLAINT = "taskd: cannot start the sandbox: ";
const MAX_REPORT_BYTES = 64 << 10;
const REMOVAL_MS = 20_000;
/** Of what starts a sandbox and bounds it, never of what runs in it. */
const START_ENV = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" };

export interface BubblewrapSandboxOptions {
  start: StartCommand;
  /** More variables, by which systemd is found. */
  env: Readonly<Record<string, string>>;
  spec: SandboxSpec;
  clock: Clock;
  /** Where bwrap reports what it has started; removed at the end. */
  report: string;
  /** What bounds it as a whole; absent where a watch has to. */
  group: ControlGroup | undefined;
}

const ReportSchema = v.object({ "child-pid": v.number() });

/** Starts a sandbox. Throws `sandbox_failed` when bash cannot be started; what comes later is how it ended. */
export function bubblewrapSandbox(options: BubblewrapSandboxOptions): Sandbox {
  const { start, clock, report, group } = options;
  const env = { ...START_ENV, ...options.env };
  const child = spawnDetached(start.program, { args: start.args, env, stdin: "piped" });
  const fed = feed(child, start.stdin);
  const over = new AbortController();
  let said = "";
  let exceeded = false;
  let ending = false;
  const spec: SandboxSpec = {
    ...options.spec,
    onOutput(line) {
      if (line.stream === "stderr") said = line.text;
      options.spec.onOutput(line);
    },
  };
  const kill = () => {
    // The kernel ends a namespace with its first process, whatever that was made to do.
    const first = firstProcess(report);
    if (first !== undefined) signalProcess(first, "SIGKILL");
    signalProcess(-child.pid, "SIGKILL");
  };
  const watching = group !== undefined ? undefined : watchMemory({
    first: () => firstProcess(report),
    memory_bytes: spec.memory_bytes,
    clock,
    signal: over.signal,
    onExcess() {
      exceeded = true;
      kill();
    },
  });
  return supervise({
    spec,
    clock,
    grace_ms: GRACE_MS,
    attach: () => child,
    signal(name) {
      ending = true;
      const first = name === "SIGTERM" ? firstProcess(report) : undefined;
      if (first !== undefined) signalProcess(-first, name);
      else kill();
    },
    // bwrap's number may be another process's from now on.
    onExit: () => over.abort(),
    async ended({ code, signal }) {
      const started = ending || hasBegun(report);
      if (!started || code === NOT_STARTED && said.startsWith(COMPLAINT)) throw unstarted(spec, said);
      const starved = await leave(group, { clock, env });
      const out_of_memory = exceeded || starved && code === KILLED;
      return { code, out_of_memory, ...(signal === null || exceeded ? {} : { signal }) };
    },
    async release() {
      over.abort();
      await fed;
      await watching;
      await leave(group, { clock, env });
      removeIfPresent(report);
    },
  });
}

async function feed({ stdin }: Deno.ChildProcess, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  const writer = stdin.getWriter();
  try {
    await writer.write(bytes);
    await writer.close();
  } catch {
    // It ended before it has read everything; its exit code is the reason.
  }
}

/** The first process of the sandbox, as the host numbers it; undefined as long as bwrap has started none. */
function firstProcess(report: string): number | undefined {
  try {
    const [line = ""] = readTextOf(report, MAX_REPORT_BYTES).split("\n");
    const { success, output } = v.safeParse(ReportSchema, parseJson(line));
    return success ? output["child-pid"] : undefined;
  } catch {
    return undefined;
  }
}

/** Whether the first program inside has run: bwrap reports its process before it has mounted anything. */
function hasBegun(report: string): boolean {
  try {
    return readTextOf(report, MAX_REPORT_BYTES).split("\n").includes(BEGAN);
  } catch {
    return false;
  }
}

const removed = new WeakSet<ControlGroup>();

/** Takes the control group away, once; whether the kernel has ended a process of it for its memory. */
async function leave(
  group: ControlGroup | undefined,
  { clock, env }: { clock: Clock; env: Record<string, string> },
): Promise<boolean> {
  if (group === undefined || removed.has(group)) return false;
  removed.add(group);
  return await removeGroup(group.removal, { clock, env });
}

/** Takes a control group away, also one that an earlier broker has left; whether it was short of memory. */
export async function removeGroup(
  { program, args }: ControlGroup["removal"],
  { clock, env }: { clock: Clock; env: Readonly<Record<string, string>> },
): Promise<boolean> {
  const { stdout } = await runProcess(program, {
    args,
    env: { ...START_ENV, ...env },
    deadline_ms: REMOVAL_MS,
    max_bytes: 4_096,
    clock,
    attempted: "Cannot remove a sandbox's control group",
    signal: undefined,
  });
  return new TextDecoder().decode(stdout).trim() === "oom";
}

function unstarted({ task_id }: SandboxSpec, said: string): TaskdError {
  const why = said.startsWith(COMPLAINT) ? said.slice(COMPLAINT.length) : said.replace(/^bwrap: /, "") || "bwrap ended";
  return new TaskdError("sandbox_failed", `Cannot start the sandbox of task ${task_id}: ${why.slice(0, 500)}`, {
    hint: "taskd doctor says what bubblewrap needs",
  });
}
