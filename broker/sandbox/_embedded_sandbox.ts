/**
 * An embedded sandbox that runs: the agent's process and the one that has the task's files, as one. Both are signalled
 * together, the second ends with the first, and where it ends before, so does the sandbox, with that as its reason.
 */

import type { Clock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { CommandRequest } from "../agent/calls.ts";
import { removeFolder } from "../../lib/fs.ts";
import type { AgentCommands } from "./_agent_commands.ts";
import { CallRelay } from "./_call_relay.ts";
import { type ParkedLinks, restoreLinks } from "./_parked_links.ts";
import { supervise } from "./supervised_sandbox.ts";
import { readLines } from "./output_lines.ts";
import { signalProcess } from "./processes.ts";
import type { Sandbox, SandboxSpec } from "./runtime.ts";

/** Milliseconds between SIGTERM and SIGKILL: the agent has nothing to save. */
const GRACE_MS = 1_000;
/** Of what the process with the files complains about; the first line is shown. */
const MAX_COMPLAINT_BYTES = 64 << 10;

export interface EmbeddedSandbox {
  spec: SandboxSpec;
  agent: Deno.ChildProcess;
  /** Starts the process with the files. */
  startFiles: () => Deno.ChildProcess;
  /** First lines of their inputs. */
  configs: { agent: string; files: string };
  max_calls: number;
  parked: ParkedLinks;
  /** What runs commands, and has the links then; absent where none can be run. */
  commands: AgentCommands | undefined;
  /** A folder of the agent's process, to be removed. */
  cache_dir: string;
  clock: Clock;
}

export function embeddedSandbox(sandbox: EmbeddedSandbox): Sandbox {
  const { agent, spec, configs, max_calls, parked, commands, cache_dir, clock } = sandbox;
  let files: Deno.ChildProcess | undefined;
  let files_end: Promise<void> | undefined;
  let is_ending = false;
  let failure: TaskdError | undefined;
  const watch = async ({ status, stderr }: Deno.ChildProcess) => {
    let complaint = "";
    const budget = { left_bytes: MAX_COMPLAINT_BYTES, truncated: false };
    const [{ code }] = await Promise.all([status, readLines(stderr, budget, (text) => complaint ||= text)]);
    if (is_ending) return;
    const detail = complaint === "" ? "" : `: ${complaint.slice(0, 500)}`;
    failure = new TaskdError(
      "sandbox_failed",
      `The process that has the task's files ended with code ${code}${detail}`,
    );
    signalProcess(-agent.pid, "SIGKILL");
  };
  const start = () => {
    if (is_ending) return undefined;
    files = sandbox.startFiles();
    files_end = watch(files);
    return files;
  };
  const runCommand = commands && ((request: CommandRequest) => commands.run(request));
  const relay = new CallRelay({ agent, start, configs, max_calls, runCommand });
  const signalBoth = (name: "SIGTERM" | "SIGKILL") => {
    is_ending = true;
    commands?.stop();
    signalProcess(-agent.pid, name);
    if (files !== undefined) kill(files, name);
  };
  return supervise({
    spec,
    clock,
    grace_ms: GRACE_MS,
    attach: () => ({
      status: agent.status,
      stdout: ReadableStream.from(relay.output(agent.stdout)),
      stderr: agent.stderr,
    }),
    signal: signalBoth,
    // Whatever else is in the group ends with its leader, whose number may be another process's from now on.
    onExit: () => signalBoth("SIGKILL"),
    ended({ code, signal }) {
      if (failure !== undefined) throw failure;
      return { code, ...(signal === null ? {} : { signal }) };
    },
    async release() {
      await files_end;
      await relay.close();
      // Of known depth: nothing but the runtime made anything in it.
      await removeFolder(cache_dir);
      await (commands === undefined ? restoreLinks(parked, spec.signal) : commands.close());
    },
  });
}

/** Ends a process that has no others; one that is gone already is left as it is. */
function kill(child: Deno.ChildProcess, signal: Deno.Signal): void {
  try {
    child.kill(signal);
  } catch {
    // It has ended, and its number may be another process's.
  }
}
