/**
 * A work folder, a runtime and a started sandbox for tests.
 */

import { randomHex, systemClock, systemRandom } from "../../../lib/clock.ts";
import { parseProgress } from "../../../broker/agent/progress_reader.ts";
import type { AgentProgress } from "../../../broker/agent/progress.ts";
import type { BubblewrapRuntime } from "../../../broker/sandbox/bubblewrap/bubblewrap_runtime.ts";
import { DenoRuntime } from "../../../broker/sandbox/deno_runtime.ts";
import { listProcesses } from "../../../broker/sandbox/processes.ts";
import type { OutputLine, SandboxSpec } from "../../../broker/sandbox/runtime.ts";

/** Owner of everything that these tests start; a new one for each process. */
export const OWNER = randomHex(systemRandom, 16);

/** Deno's own cache, as the child is to use it. */
export const CACHE_DIR = Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`;

/** A place with a work folder, and room beside it that a sandbox must not reach. */
export class Place implements AsyncDisposable {
  readonly lines: OutputLine[] = [];
  readonly task_id = randomHex(systemRandom, 16);
  readonly root: string;

  /** Below a temporary directory. */
  constructor() {
    this.root = Deno.realPathSync(Deno.makeTempDirSync());
    Deno.mkdirSync(this.work);
  }

  /** The work folder; a comma and a space are part of a path like any other. */
  get work(): string {
    return `${this.root}/work, it`;
  }

  /** Writes a file relative to the place. */
  file(path: string, content: string): string {
    Deno.writeTextFileSync(`${this.root}/${path}`, content);
    return `${this.root}/${path}`;
  }

  /** A runtime with another module in place of the agent, when one is given; `commands` is what runs its commands. */
  runtime(agent_module?: string, commands?: BubblewrapRuntime): DenoRuntime {
    return new DenoRuntime({
      deno_path: Deno.execPath(),
      cache_dir: CACHE_DIR,
      owner: OWNER,
      clock: systemClock,
      commands,
      ...(agent_module === undefined ? {} : { agent: { name: "agent" as const, module: agent_module } }),
    });
  }

  /** What a sandbox of the built-in agent is started with. */
  spec(
    gateway_url: string,
    changes: Partial<SandboxSpec> & { max_turns?: number; instruction?: string } = {},
  ): SandboxSpec {
    const { max_turns, instruction, ...rest } = changes;
    return {
      task_id: this.task_id,
      work_dir: this.work,
      workload: {
        kind: "built_in_agent",
        gateway_url,
        token: "token-of-the-task",
        model: "test-model",
        instruction: instruction ?? "Do it",
        ...(max_turns === undefined ? {} : { max_turns }),
      },
      memory_bytes: 256 << 20,
      timeout_ms: 120_000,
      max_output_bytes: 1 << 20,
      onOutput: (line) => this.lines.push(line),
      ...rest,
    };
  }

  /** The rows that came. */
  rows(): AgentProgress[] {
    return this.lines.flatMap(({ stream, text }) => stream === "stdout" ? parseProgress(text) ?? [] : []);
  }

  /** The last row. */
  result(): AgentProgress & { type: "result" } {
    const last = this.rows().at(-1);
    if (last?.type !== "result") throw new Error(`no result: ${JSON.stringify(this.lines)}`);
    return last;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.root, { recursive: true });
  }
}

/** Command lines of processes that still run for `task_id`. */
export async function processesOf(task_id: string): Promise<string[]> {
  return (await listProcesses()).map(({ command_line }) => command_line).filter((line) => line.includes(`:${task_id}`));
}

/** Resolves once nothing runs for `task_id` any more; the caller's test has a deadline of its own. */
export async function allGone(task_id: string): Promise<void> {
  while ((await processesOf(task_id)).length > 0) await systemClock.sleep(20);
}
