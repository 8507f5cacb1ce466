/**
 * One running container: how it is started, ended and removed, and how it ended.
 */

import type { Clock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { ContainerProgram } from "./container_program.ts";
import { spawnDetached } from "./processes.ts";
import type { Sandbox, SandboxSpec } from "./runtime.ts";
import { supervise } from "./supervised_sandbox.ts";

/** Milliseconds between SIGTERM and SIGKILL: an agent may save where it was. */
const GRACE_MS = 5_000;
const KILLED = 128 + 9;
/** The images' entrypoint exits with it; programs do not always know of a process that was not their first. */
const OUT_OF_MEMORY = 122;
/** How often removing is tried: right after the end a mount may still be busy. */
const REMOVALS = 40;
const REMOVAL_PAUSE_MS = 50;

export interface ContainerSandboxOptions {
  program: ContainerProgram;
  name: string;
  spec: SandboxSpec;
  clock: Clock;
  /** What the program remembers of it, where it remembers that; else the code that its reader ended with stands. */
  inspect: ((program: ContainerProgram, name: string) => Promise<ContainerState>) | undefined;
}

export interface ContainerState {
  started: boolean;
  running: boolean;
  code: number;
  out_of_memory: boolean;
  error: string;
}

/** Starts a container that was created, and removes it at its end. */
export function containerSandbox(options: ContainerSandboxOptions): Sandbox {
  const { program, name, spec, clock } = options;
  return supervise({
    spec,
    clock,
    grace_ms: GRACE_MS,
    // With this process as the reader of its output.
    attach: () => spawnDetached(program.path, { args: ["start", "--attach", name], env: program.env, stdin: "null" }),
    // The program's own `stop` would keep the container locked while it waits.
    async signal(signal) {
      const { code } = await program.ask(["kill", "--signal", signal.slice(3), name]);
      if (signal === "SIGKILL" && code !== 0) await program.ask(["rm", "--force", name]);
    },
    async ended(status) {
      const state = await finalState(options, status.code);
      if (!state.started) throw unstarted(spec, state);
      const { code } = state;
      const starved = code === OUT_OF_MEMORY || (state.out_of_memory && code !== 0);
      return { code: code === OUT_OF_MEMORY ? KILLED : code, out_of_memory: starved };
    },
    release: () => remove(program, name, clock),
  });
}

async function finalState({ program, name, inspect }: ContainerSandboxOptions, code: number): Promise<ContainerState> {
  const unknown = { started: true, running: false, code, out_of_memory: false, error: "" };
  const state = await inspect?.(program, name) ?? unknown;
  if (!state.running) return state;
  // It outlives its reader, so its output would be lost.
  await program.do(["kill", name], `Cannot end the sandbox ${name}`);
  return { ...state, code: KILLED };
}

/** Removes a container, running or not; throws `sandbox_failed` when it stays. */
export async function remove(program: ContainerProgram, name: string, clock: Clock): Promise<void> {
  let complaint = "";
  // Removing alone would first ask its program to end, and wait.
  await program.ask(["kill", name]);
  for (let attempt = 0; attempt < REMOVALS; attempt++) {
    const { code, stderr } = await program.ask(["rm", "--force", name]);
    if (code === 0 || /no such container|not found|no container with/i.test(stderr)) return;
    complaint = stderr.trim().slice(0, 300);
    await clock.sleep(REMOVAL_PAUSE_MS);
  }
  throw new TaskdError("sandbox_failed", `Cannot remove the sandbox ${name}: ${complaint}`, {
    hint: `Remove it with: ${program.path} rm --force ${name}`,
  });
}

function unstarted(spec: SandboxSpec, { error, code }: ContainerState): TaskdError {
  const why = error === "" ? `its program could not be started (code ${code})` : error;
  return new TaskdError("sandbox_failed", `Cannot start the sandbox of task ${spec.task_id}: ${why}`, {
    hint: "Build the images again with taskd setup --rebuild-images, and look at taskd doctor",
  });
}
