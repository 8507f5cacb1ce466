/**
 * Starts the broker in a process of its own, which outlives this one and its terminal, and
 * waits until it serves or reports why it does not.
 */

import * as v from "valibot";
import { ERROR_CODES, type ErrorCode, TaskdError } from "../../lib/errors.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import { ownCommand } from "../table/own_command.ts";
import { parseJson } from "../../lib/text/json.ts";

const SERVES = v.object({
  pid: v.number(),
  socket: v.string(),
  ui_url: v.string(),
  addr: v.exactOptional(v.string()),
  /** The broker that it replaced. */
  replaced_pid: v.exactOptional(v.number()),
  /** Path of its log; absent for stderr. */
  log: v.exactOptional(v.string()),
});
/** A broker that serves: what its process prints, once. */
export type StartResult = v.InferOutput<typeof SERVES>;
const FAILED = v.object({
  ok: v.literal(false),
  code: v.picklist(Object.keys(ERROR_CODES) as ErrorCode[]),
  error: v.string(),
  hint: v.exactOptional(v.string()),
});

/** More than the line needs. */
const MAX_LINE_BYTES = 65_536;

/** Starts it; throws the broker's own error. An interrupt ends the start. */
export async function startDetached(args: Args, io: Io, log_file: string): Promise<StartResult> {
  const named = args.text("socket");
  const [program, words] = ownCommand(args.host.entry, [
    "start",
    "--json",
    "--log-file",
    log_file,
    "--timeout",
    `${args.numberOf("timeout")}ms`,
    ...(named === undefined ? [] : ["--socket", named]),
  ]);
  const child = new Deno.Command(program, {
    args: words,
    cwd: "/",
    stdin: "null",
    stdout: "piped",
    stderr: "null",
    // A process group of its own: the terminal's Ctrl-C and hang-up do not end it.
    detached: true,
  }).spawn();
  const onInterrupt = () => child.kill("SIGTERM");
  io.signal.addEventListener("abort", onInterrupt, { once: true });
  try {
    const line = await firstLine(child.stdout);
    io.signal.throwIfAborted();
    const answer = parseJson(line);
    const serves = v.safeParse(SERVES, answer);
    if (serves.success) return serves.output;
    const failed = v.safeParse(FAILED, answer);
    if (failed.success) {
      const { code, error, hint } = failed.output;
      throw new TaskdError(code, error, { hint });
    }
    const { code } = await child.status;
    throw new TaskdError("internal", `The broker's process ended with ${code} without a reason`, {
      hint: `Read ${log_file}, or run taskd start without --detach`,
    });
  } finally {
    io.signal.removeEventListener("abort", onInterrupt);
    child.unref();
  }
}

async function firstLine(stream: ReadableStream<Uint8Array>): Promise<string> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let text = "";
  while (!text.includes("\n") && text.length < MAX_LINE_BYTES) {
    const { done, value } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
  }
  await reader.cancel();
  return text;
}
