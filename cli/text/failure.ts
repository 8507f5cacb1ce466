/**
 * How a failed call ends: its message, its JSON and its exit status.
 *
 * For people: `taskd: <message>` on stderr, then the causes and the hint,
 * indented. For programs (--json): `{"ok":false,"code","error","hint"?}` on stdout
 * and nothing on stderr, so that stdout always holds exactly one JSON object.
 */

import { BackendError } from "../../lib/backend/backend.ts";
import { asKnownError, type ErrorCode, TaskdError } from "../../lib/errors.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE } from "./exit_codes.ts";
import type { Io } from "./io.ts";

/** Statuses of the codes that have one of their own. */
const EXIT_CODES: Readonly<Partial<Record<ErrorCode, number>>> = {
  usage: EXIT_USAGE,
  invalid_name: EXIT_USAGE,
  interrupted: EXIT_INTERRUPTED,
};

export function reportFailure(error: unknown, io: Pick<Io, "json" | "signal" | "error" | "outJson">): number {
  // The reader closed the pipe: it has all that it needs.
  if (error instanceof Deno.errors.BrokenPipe) return EXIT_OK;
  const failure = asTaskdError(error, io.signal);
  try {
    if (io.json) {
      const hint = failure.hint === undefined ? {} : { hint: failure.hint };
      io.outJson({ ok: false, code: failure.code, error: failure.message, ...hint });
    } else printFailure(failure, io);
  } catch (broken) {
    if (!(broken instanceof Deno.errors.BrokenPipe)) tryToPrint(failure, io);
  }
  return EXIT_CODES[failure.code] ?? EXIT_FAILURE;
}

function printFailure(failure: TaskdError, io: Pick<Io, "error">): void {
  io.error(`taskd: ${sanitizeLine(failure.message)}`);
  for (const cause of causes(failure)) io.error(`  cause: ${sanitizeLine(cause)}`);
  if (failure.hint !== undefined) io.error(`  ${sanitizeLine(failure.hint)}`);
}

/** Prints to stderr when stdout cannot be written; when stderr cannot either, only the exit status is left. */
function tryToPrint(failure: TaskdError, io: Pick<Io, "error">): void {
  try {
    printFailure(failure, io);
  } catch {
    return;
  }
}

function asTaskdError(error: unknown, signal: AbortSignal): TaskdError {
  if (error instanceof TaskdError) return error;
  if (error instanceof BackendError) {
    const code = error.code === "precondition_failed" ? "conflict" : error.code;
    return new TaskdError(code, error.message, { cause: error.cause });
  }
  if (signal.aborted && error instanceof Error && (error === signal.reason || error.name === "AbortError")) {
    return new TaskdError("interrupted", "The operation was interrupted", { cause: error });
  }
  const known = asKnownError(error);
  if (known !== undefined) return known;
  const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  if (error instanceof Deno.errors.NotCapable) {
    return new TaskdError("denied", `The command was stopped at the edge of its permissions: ${error.message}`, {
      hint: "A call's permissions are listed by the same call with --print-permissions",
    });
  }
  const where = error instanceof Error ? error.stack?.split("\n").find((line) => /^\s+at /.test(line))?.trim() : "";
  return new TaskdError("internal", `Unexpected failure: ${message}${where ? ` (${where})` : ""}`, {
    hint: "This is a defect in taskd; please report it with this line",
  });
}

/** Messages of the causes that add to the messages before them. */
function causes(failure: TaskdError): string[] {
  // The work that an interrupt ended is not its cause.
  if (failure.code === "interrupted") return [];
  const found: string[] = [];
  let printed = failure.message;
  for (let cause = failure.cause; cause instanceof Error && found.length < 4; cause = cause.cause) {
    if (!printed.includes(cause.message)) found.push(cause.message);
    printed += cause.message;
  }
  return found;
}
