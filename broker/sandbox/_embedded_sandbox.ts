/**
 * An embedded sandbox that runs: the agent's process and the one that has the task's files, as one. Both are signalled
 * together, the second ends with the first, and where it ends before, so does the sandbox, with that as its reason.
 */

import type { Clock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { fileError, fileErrorCode } from "../../lib/fs.ts";
import { CallRelay } from "./_call_relay.ts";
import { type ParkedLinks, restoreLinks } from "./_parked_links.ts";
import { supervise } from "./_supervised_sandbox.ts";
import { readLines } from "./output_lines.ts";
import { signalProcess } from "./processes.ts";
import type { Sandbox, SandboxSpec } from "./runtime.ts";

/** Milliseconds between SIGTERM and SIGKILL: the agent has nothing to save. */
const GRACE_MS = 1_000;
/** Of what the process with the files complains about; the first line is shown. */
const MAX_COMPLAINT_BYTES = 64 << 10;

export interface EmbeddedProcesses {
  agent: Deno.ChildProcess;
  files: Deno.ChildProcess;
}

export interface EmbeddedSandbox extends EmbeddedProcesses {
  spec: SandboxSpec;
  /** First lines of their inputs. */
  configs: { agent: string; files: string };
  max_calls: number;
  parked: ParkedLinks;
  /** A folder of the agent's process, to be removed. */
  cache_dir: string;
  clock: Clock;
}

export function embeddedSandbox(sandbox: EmbeddedSandbox): Sandbox {
  const { agent, files, spec, configs, max_calls, parked, cache_dir, clock } = sandbox;
  const relay = new CallRelay({ agent, files, max_calls });
  const fed = relay.configure(configs);
  let is_ending = false;
  let complaint = "";
  let failure: TaskdError | undefined;
  const heard = readLines(
    files.stderr,
    { left_bytes: MAX_COMPLAINT_BYTES, truncated: false },
    (text) => complaint ||= text,
  );
  const files_end = Promise.all([files.status, heard]).then(([{ code }]) => {
    if (is_ending) return;
    const detail = complaint === "" ? "" : `: ${complaint.slice(0, 500)}`;
    failure = new TaskdError(
      "sandbox_failed",
      `The process that has the task's files ended with code ${code}${detail}`,
    );
    signalProcess(-agent.pid, "SIGKILL");
  });
  return supervise({
    spec,
    clock,
    grace_ms: GRACE_MS,
    attach: () => ({
      status: agent.status,
      stdout: ReadableStream.from(relay.output(agent.stdout)),
      stderr: agent.stderr,
    }),
    signal(name) {
      is_ending = true;
      signalProcess(-agent.pid, name);
      kill(files, name);
    },
    onExit() {
      is_ending = true;
      // Whatever else is in the group ends with its leader, whose number may be another process's from now on.
      signalProcess(-agent.pid, "SIGKILL");
      kill(files, "SIGKILL");
    },
    ended({ code, signal }) {
      if (failure !== undefined) throw failure;
      return { code, ...(signal === null ? {} : { signal }) };
    },
    async release() {
      await files_end;
      await fed;
      await relay.close();
      await removeCache(cache_dir);
      await restoreLinks(parked, spec.signal);
    },
  });
}

/** A folder of known depth, in which nothing but the runtime made anything. */
export async function removeCache(path: string): Promise<void> {
  try {
    await Deno.remove(path, { recursive: true });
  } catch (error) {
    if (fileErrorCode(error) !== "not_found") throw fileError(error, `Cannot remove ${path}`);
  }
}

/** Ends a process that has no others; one that is gone already is left as it is. */
export function kill(child: Deno.ChildProcess, signal: Deno.Signal): void {
  try {
    child.kill(signal);
  } catch {
    // It has ended, and its number may be another process's.
  }
}
