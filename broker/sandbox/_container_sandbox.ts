/**
 * One running container: its output line by line, its deadline, its end, and its removal.
 *
 * @module
 */

import type { Clock } from "../../lib/clock.ts";
import { fileError } from "../../lib/fs.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { ContainerProgram } from "./container_program.ts";
import { type OutputBudget, readLines } from "./output_lines.ts";
import type { Sandbox, SandboxEnd, SandboxSpec } from "./runtime.ts";

/** Milliseconds between SIGTERM and SIGKILL: an agent may save where it was. */
const GRACE_MS = 5_000;
/** The exit code after SIGKILL. */
const KILLED = 128 + 9;
/** The images' entrypoint exits with it; programs do not always know of a process that was not their first. */
const OUT_OF_MEMORY = 122;
/** How often removing is tried: right after the end a mount may still be busy. */
const REMOVALS = 40;
const REMOVAL_PAUSE_MS = 50;

/** What a running container is started with. */
export interface ContainerSandboxOptions {
  program: ContainerProgram;
  name: string;
  spec: SandboxSpec;
  clock: Clock;
  /** What the program remembers of it, where it remembers that; else the code that its reader ended with stands. */
  inspect: ((program: ContainerProgram, name: string) => Promise<ContainerState>) | undefined;
}

/** How a container ended, as the program remembers it. */
export interface ContainerState {
  /** Whether its first program ever ran. */
  started: boolean;
  running: boolean;
  code: number;
  out_of_memory: boolean;
  /** What kept it from starting. */
  error: string;
}

/** A container that was created and is started here. */
export class ContainerSandbox implements Sandbox {
  readonly #options: ContainerSandboxOptions;
  readonly #end: Promise<SandboxEnd>;
  readonly #over = new AbortController();
  #stopping: Promise<void> | undefined;
  #reason: SandboxEnd["reason"] = "exited";
  #exited = false;

  constructor(options: ContainerSandboxOptions) {
    this.#options = options;
    this.#end = this.#run();
    // A caller may wait for it, but need not.
    this.#end.catch(() => {});
  }

  wait(): Promise<SandboxEnd> {
    return this.#end;
  }

  stop(): Promise<SandboxEnd> {
    this.#terminate("stopped");
    return this.#end;
  }

  async #run(): Promise<SandboxEnd> {
    const { program, name, spec, clock } = this.#options;
    const budget: OutputBudget = { left_bytes: spec.max_output_bytes, truncated: false };
    let failure: { cause: unknown } | undefined;
    const deadline = clock.sleep(spec.timeout_ms, this.#over.signal).then(() => this.#terminate("timed_out"), () => {});
    try {
      const child = this.#attach();
      const read = async (stream: "stdout" | "stderr") => {
        try {
          await readLines(child[stream], budget, (text) => spec.onOutput({ stream, text }));
        } catch (cause) {
          // Unread output would block it until its deadline.
          failure ??= { cause };
          this.#terminate("stopped");
        }
      };
      const [{ code }] = await Promise.all([child.status, read("stdout"), read("stderr")]);
      const state = await this.#ended(code);
      this.#exited = true;
      if (failure !== undefined) throw failure.cause;
      if (!state.started) throw unstarted(spec, state);
      return { ...this.#ending(state), output_truncated: budget.truncated };
    } finally {
      this.#exited = true;
      this.#over.abort();
      await deadline;
      await this.#stopping?.catch(() => {});
      await remove(program, name, clock);
    }
  }

  /** Starts it with this process as the reader of its output. */
  #attach(): Deno.ChildProcess {
    const { program, name } = this.#options;
    try {
      return new Deno.Command(program.path, {
        args: ["start", "--attach", name],
        env: { ...program.env },
        clearEnv: true,
        cwd: "/",
        // Signals of a terminal are the broker's affair, not its containers'.
        detached: true,
        stdin: "null",
        stdout: "piped",
        stderr: "piped",
      }).spawn();
    } catch (error) {
      throw fileError(error, `Cannot start ${program.path}`);
    }
  }

  async #ended(code: number): Promise<ContainerState> {
    const { program, name, inspect } = this.#options;
    const unknown = { started: true, running: false, code, out_of_memory: false, error: "" };
    const state = await inspect?.(program, name) ?? unknown;
    if (!state.running) return state;
    // It outlives its reader, so its output would be lost.
    await program.do(["kill", name], `Cannot end the sandbox ${name}`);
    return { ...state, code: KILLED };
  }

  #ending({ code, out_of_memory }: ContainerState): Pick<SandboxEnd, "reason" | "code"> {
    const starved = code === OUT_OF_MEMORY || (out_of_memory && code !== 0);
    const ended = code === OUT_OF_MEMORY ? KILLED : code;
    return { reason: this.#reason === "exited" && starved ? "out_of_memory" : this.#reason, code: ended };
  }

  #terminate(reason: SandboxEnd["reason"]): void {
    if (this.#exited || this.#reason !== "exited") return;
    this.#reason = reason;
    this.#stopping = this.#killGently();
    this.#stopping.catch(() => {});
  }

  /** The program's own `stop` would keep the container locked while it waits. */
  async #killGently(): Promise<void> {
    const { program, name, clock } = this.#options;
    await program.ask(["kill", "--signal", "TERM", name]);
    await clock.sleep(GRACE_MS, this.#over.signal).catch(() => {});
    if (this.#exited) return;
    const { code } = await program.ask(["kill", "--signal", "KILL", name]);
    if (code !== 0 && !this.#exited) await program.ask(["rm", "--force", name]);
  }
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
