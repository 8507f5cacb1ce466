/**
 * The inside of the Worker that runs a command under exactly its permissions. It says `ready` once its modules are
 * loaded, runs the plan it is sent, and answers with the exit status: exiting here would not reach the process.
 */

import { TaskdError } from "../../lib/errors.ts";
import type { Plan } from "../plan/plan.ts";
import { findCommand } from "../table/commands.ts";
import { reportFailure } from "../text/failure.ts";
import { type Load, processIo, runCommand } from "./run.ts";

export type ToWorker = { type: "run"; plan: Plan } | { type: "interrupt" };
export type FromWorker = { type: "ready" } | { type: "exit"; code: number };

/** A worker as its inside has it. */
export interface WorkerScope<Message> {
  onmessage: ((event: MessageEvent<Message>) => void) | null;
  postMessage(message: FromWorker): void;
}

export function hostCommand(load: Load): void {
  const scope = globalThis as unknown as WorkerScope<ToWorker>;
  const interrupted = new AbortController();
  scope.onmessage = async ({ data }) => {
    if (data.type === "interrupt") {
      interrupted.abort(new TaskdError("interrupted", "The operation was interrupted"));
      return;
    }
    const spec = findCommand(data.plan.command)!;
    const io = processIo(data.plan, interrupted.signal);
    onStray((error) => scope.postMessage({ type: "exit", code: reportFailure(error, io) }));
    scope.postMessage({ type: "exit", code: await runCommand(spec, data.plan, io, load) });
  };
  scope.postMessage({ type: "ready" });
}

/** Errors that no call waits for end the command as well, and are reported like any other. */
function onStray(report: (error: unknown) => void): void {
  globalThis.addEventListener("error", (event) => {
    event.preventDefault();
    report(event.error);
  });
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    report(event.reason);
  });
}
