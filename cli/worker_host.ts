/**
 * The inside of the Worker that runs a command under exactly its permissions.
 * It says `ready` once its modules are loaded, runs the plan it is sent, and
 * answers with the exit status: exiting here would not reach the process.
 *
 * @module
 */

import { TaskdError } from "../lib/errors.ts";
import type { Plan } from "./command.ts";
import { findCommand } from "./commands.ts";
import { type Load, processIo, runCommand } from "./run.ts";

/** What the main thread sends. */
export type ToWorker = { type: "run"; plan: Plan } | { type: "interrupt" };

/** What the Worker sends. */
export type FromWorker = { type: "ready" } | { type: "exit"; code: number };

interface WorkerScope {
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
  postMessage(message: FromWorker): void;
}

/** Serves one command in this Worker; `load` finds its module. */
export function hostCommand(load: Load): void {
  const scope = globalThis as unknown as WorkerScope;
  const interrupted = new AbortController();
  scope.onmessage = async ({ data }) => {
    if (data.type === "interrupt") {
      interrupted.abort(new TaskdError("interrupted", "The operation was interrupted"));
      return;
    }
    const spec = findCommand(data.plan.command)!;
    const code = await runCommand(spec, data.plan, processIo(data.plan, interrupted.signal), load);
    scope.postMessage({ type: "exit", code });
  };
  scope.postMessage({ type: "ready" });
}
