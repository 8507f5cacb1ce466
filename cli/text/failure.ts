/**
 * How a failed call ends: the one place that decides its words, its JSON and its
 * exit status.
 *
 * For people: `taskd: <message>` on stderr, then what caused it and what to do,
 * indented. For programs (--json): `{"ok":false,"code","error","hint"?}` on stdout
 * and nothing on stderr, so that stdout always holds exactly one JSON object.
 *
 * @module
 */

import { BackendError } from "../../lib/backend/backend.ts";
import { TaskdError } from "../../lib/errors.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE } from "./exit_codes.ts";
import type { Io } from "./io.ts";

/** Tells about `error` and returns the exit status. */
export function reportFailure(error: unknown, io: Pick<Io, "json" | "signal" | "error" | "outJson">): number {
  // The reader of a pipe has gone: it has all it wanted, and there is nobody to tell.
  if (error instanceof Deno.errors.BrokenPipe) return EXIT_OK;
  const failure = asTaskdError(error, io.signal);
  try {
    if (io.json) {
      const hint = failure.hint === undefined ? {} : { hint: failure.hint };
      io.outJson({ ok: false, code: failure.code, error: failure.message, ...hint });
    } else tellPeople(failure, io);
  } catch (broken) {
    if (!(broken instanceof Deno.errors.BrokenPipe)) tellAnybody(failure, io);
  }
  return exitCodeOf(failure);
}

function tellPeople(failure: TaskdError, io: Pick<Io, "error">): void {
  io.error(`taskd: ${sanitizeLine(failure.message)}`);
  for (const cause of causes(failure)) io.error(`  cause: ${sanitizeLine(cause)}`);
  if (failure.hint !== undefined) io.error(`  ${sanitizeLine(failure.hint)}`);
}

/** Where stdout takes nothing, stderr may; where that takes nothing either, the exit status is all there is. */
function tellAnybody(failure: TaskdError, io: Pick<Io, "error">): void {
  try {
    tellPeople(failure, io);
  } catch {
    return;
  }
}

function exitCodeOf(failure: TaskdError): number {
  switch (failure.code) {
    case "usage":
    case "invalid_name":
      return EXIT_USAGE;
    case "interrupted":
      return EXIT_INTERRUPTED;
    default:
      return EXIT_FAILURE;
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

/** Messages of the causes that say more than what is said already. */
function causes(failure: TaskdError): string[] {
  // What was under way when a person ended it is no cause.
  if (failure.code === "interrupted") return [];
  const found: string[] = [];
  let said = failure.message;
  for (let cause = failure.cause; cause instanceof Error && found.length < 4; cause = cause.cause) {
    if (!said.includes(cause.message)) found.push(cause.message);
    said += cause.message;
  }
  return found;
}
