/**
 * The commands of a built-in agent, each in a sandbox of bubblewrap that ends with it.
 *
 * What a command sees is the work tree and the system's programs; it has no network, no socket, no database, and a home and
 * a /tmp in memory. Its links are there while it runs, and put aside again before anything else uses the tree, the new ones
 * with them: the process with the files never meets one. A sandbox that cannot be had ends the task; no command ever runs
 * without.
 */

import type { Clock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { type CommandRequest, type CommandResult, OUTPUT_HEAD_LENGTH, OUTPUT_TAIL_LENGTH } from "../agent/calls.ts";
import type { AgentLink } from "../agent/config.ts";
import { shortLine } from "../agent/progress.ts";
import { describeEnd } from "../agent/tools.ts";
import { type ParkedLinks, parkLinks, restoreLinks } from "./_parked_links.ts";
import type { Sandbox, SandboxRuntime, SandboxSpec } from "./runtime.ts";

/** Processes and threads of a command. */
const MAX_PIDS = 512;
const MEMORY_BYTES = 2 * 2 ** 30;
/** What is read of a command's output; what comes after it is not. */
const MAX_OUTPUT_BYTES = 64 << 20;
/** Both streams in their order: the first program's complaints are on standard error, before this one runs. */
const IN_ORDER = ["/bin/sh", "-c", 'exec /bin/sh -c "$1" 2>&1', "sh"];

export interface AgentCommandsOptions {
  /** Starts sandboxes of commands that reach nothing. */
  runtime: Pick<SandboxRuntime, "start">;
  spec: SandboxSpec;
  /** The work tree, without links in its name. */
  work_dir: string;
  parked: ParkedLinks;
  clock: Clock;
}

export class AgentCommands {
  readonly #options: AgentCommandsOptions;
  #parked: ParkedLinks;
  #running: Promise<unknown> | undefined;
  #sandbox: Sandbox | undefined;
  #is_over = false;
  #count = 0;

  constructor(options: AgentCommandsOptions) {
    this.#options = options;
    this.#parked = options.parked;
  }

  /**
   * Runs a command to its end; undefined once the agent is being ended. Throws `sandbox_failed` when there can be no sandbox
   * for it.
   */
  run(request: CommandRequest): Promise<CommandResult | undefined> {
    const running = this.#run(request);
    this.#running = running.catch(() => {});
    return running;
  }

  /** Ends what runs, and lets nothing more begin. */
  stop(): void {
    this.#is_over = true;
    void this.#sandbox?.stop().catch(() => {});
  }

  /** Waits for what runs, and puts the links back. */
  async close(): Promise<void> {
    this.stop();
    await this.#running;
    await restoreLinks(this.#parked, this.#options.spec.signal);
    this.#parked = { ...this.#parked, links: [] };
  }

  async #run({ command, timeout_s }: CommandRequest): Promise<CommandResult | undefined> {
    const { runtime, spec, work_dir, clock } = this.#options;
    const name = `command ${++this.#count}`;
    await spec.onNote?.(`${name}: ${shortLine(command)}`);
    if (this.#is_over) return undefined;
    await restoreLinks(this.#parked, spec.signal);
    this.#parked = { ...this.#parked, links: [] };
    const output = new KeptOutput();
    const started_ms = clock.monotonic();
    let end;
    try {
      this.#sandbox = await runtime.start({
        task_id: spec.task_id,
        work_dir,
        workload: {
          kind: "command",
          image: "",
          network: "",
          command: [...IN_ORDER, command],
          env: {},
          mounts: [],
          max_pids: MAX_PIDS,
        },
        memory_bytes: MEMORY_BYTES,
        timeout_ms: timeout_s * 1_000,
        max_output_bytes: MAX_OUTPUT_BYTES,
        signal: spec.signal,
        onOutput: ({ text }) => output.add(text),
      });
      if (this.#is_over) void this.#sandbox.stop().catch(() => {});
      end = await this.#sandbox.wait();
    } finally {
      this.#sandbox = undefined;
      if (!spec.signal?.aborted) this.#parked = await parkLinks(work_dir, spec.signal);
    }
    if (this.#is_over) return undefined;
    const { reason, code, output_truncated } = end;
    if (reason === "stopped") throw new TaskdError("sandbox_failed", `The sandbox of ${name} was ended from outside`);
    const result = { reason, code, duration_ms: Math.round(clock.monotonic() - started_ms) };
    await spec.onNote?.(`${name}: ${describeEnd(result, timeout_s)}`);
    return { ...result, output: output.text(output_truncated), links: linksOf(this.#parked, work_dir) };
  }
}

/** Links as the processes of the agent know them. */
export function linksOf({ links }: ParkedLinks, work_dir: string): AgentLink[] {
  return links.map(({ path, target }) => ({ path: path.slice(work_dir.length + 1), target }));
}

/** The first and the last lines of an output of any length. */
export class KeptOutput {
  #head = "";
  #is_head_full = false;
  #tail = "";
  #left_out = 0;

  add(text: string): void {
    const line = `${text}\n`;
    if (!this.#is_head_full && this.#head.length + line.length <= OUTPUT_HEAD_LENGTH) {
      this.#head += line;
      return;
    }
    this.#is_head_full = true;
    this.#tail += line;
    // Seldom: it copies all that is kept, and a command may write a million lines a second.
    if (this.#tail.length > 4 * OUTPUT_TAIL_LENGTH) this.#trim();
  }

  /** Leaves out the first lines of the tail, and of a line that is too long for it the beginning. */
  #trim(): void {
    const over = this.#tail.length - OUTPUT_TAIL_LENGTH;
    if (over <= 0) return;
    const end = this.#tail.indexOf("\n", over - 1) + 1;
    const cut = end === this.#tail.length ? over : end;
    this.#tail = this.#tail.slice(cut);
    this.#left_out += cut;
  }

  /** @param is_cut Whether there was more, of which nothing is known. */
  text(is_cut: boolean): string {
    this.#trim();
    const gap = this.#left_out === 0 ? "" : `[left out: ${this.#left_out} characters]\n`;
    const more = is_cut ? "[what came after this was not read]\n" : "";
    return this.#head + gap + this.#tail + more;
  }
}
