/**
 * What every runtime does with a sandbox that runs: it passes the output on, holds it to its deadline, ends it by SIGTERM
 * and then by SIGKILL, and takes away what is left of it before its end is reported.
 */

import type { Clock } from "../../lib/clock.ts";
import { type OutputBudget, readLines } from "./output_lines.ts";
import type { Sandbox, SandboxEnd, SandboxSpec } from "./runtime.ts";

/**
 * Milliseconds for the last output of a sandbox that has ended. Its pipes may be held open where no process is: a program
 * can send them over a socket to who does not read, and this broker's own ends of its sockets are among those.
 */
const LAST_OUTPUT_MS = 2_000;

export interface SupervisedSandbox {
  spec: SandboxSpec;
  clock: Clock;
  /** Milliseconds between SIGTERM and SIGKILL. */
  grace_ms: number;
  attach(): {
    status: Promise<Deno.CommandStatus>;
    stdout: ReadableStream<Uint8Array>;
    stderr: ReadableStream<Uint8Array>;
  };
  signal(name: "SIGTERM" | "SIGKILL"): void | Promise<void>;
  /** Called once that process has ended, for a sandbox that ends with it: from then on it gets no signal. */
  onExit?(): void;
  ended(status: Deno.CommandStatus): Ending | Promise<Ending>;
  release(): Promise<void>;
}

/** `out_of_memory` counts where nothing else has ended it. */
type Ending = Pick<SandboxEnd, "code" | "signal"> & { out_of_memory?: boolean };

export function supervise(sandbox: SupervisedSandbox): Sandbox {
  const { spec, clock } = sandbox;
  const over = new AbortController();
  const unread = new AbortController();
  let stopping: Promise<void> | undefined;
  let reason: SandboxEnd["reason"] = "exited";
  let exited = false;

  const endGently = async () => {
    await sandbox.signal("SIGTERM");
    await clock.sleep(sandbox.grace_ms, over.signal).catch(() => {});
    if (!exited) await sandbox.signal("SIGKILL");
  };
  const terminate = (why: SandboxEnd["reason"]) => {
    if (exited || reason !== "exited") return;
    reason = why;
    stopping = endGently();
    stopping.catch(() => {});
  };
  const run = async (): Promise<SandboxEnd> => {
    const budget: OutputBudget = { left_bytes: spec.max_output_bytes, truncated: false };
    let failure: { cause: unknown } | undefined;
    let last: Promise<void> | undefined;
    const deadline = clock.sleep(spec.timeout_ms, over.signal).then(() => terminate("timed_out"), () => {});
    try {
      const child = sandbox.attach();
      const read = async (stream: "stdout" | "stderr") => {
        try {
          await readLines(child[stream], budget, (text) => spec.onOutput({ stream, text }), unread.signal);
        } catch (cause) {
          // Unread output would block it until its deadline.
          failure ??= { cause };
          terminate("stopped");
        }
      };
      const output = Promise.all([read("stdout"), read("stderr")]);
      const status = await child.status;
      if (sandbox.onExit !== undefined) {
        exited = true;
        sandbox.onExit();
      }
      last = clock.sleep(LAST_OUTPUT_MS, over.signal).then(() => unread.abort(), () => {});
      await output;
      if (failure !== undefined) throw failure.cause;
      const { out_of_memory = false, ...ending } = await sandbox.ended(status);
      exited = true;
      const cause = reason === "exited" && out_of_memory ? "out_of_memory" : reason;
      return { reason: cause, ...ending, output_truncated: budget.truncated };
    } finally {
      exited = true;
      over.abort();
      await deadline;
      await last;
      await stopping?.catch(() => {});
      await sandbox.release();
    }
  };
  const end = run();
  // A caller may wait for it, but need not.
  end.catch(() => {});
  return {
    wait: () => end,
    stop() {
      terminate("stopped");
      return end;
    },
  };
}
