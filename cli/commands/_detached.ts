/**
 * Starts the broker in a process of its own, which outlives this one and its terminal, and
 * waits until it serves or reports why it does not.
 */

import { type ErrorCode, TaskdError } from "../../lib/errors.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import { ownCommand } from "../table/own_command.ts";
import { parseJson } from "../../lib/text/json.ts";

/** A broker that serves: what its process prints, once. */
export interface StartResult {
  pid: number;
  socket: string;
  ui_url: string;
  addr?: string | undefined;
  /** The broker that it replaced. */
  replaced_pid?: number | undefined;
  /** Path of its log; absent for stderr. */
  log?: string | undefined;
}

/** The line of a process of this very program. */
type Line = { ok: true } & StartResult | { ok: false; code: ErrorCode; error: string; hint?: string };

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
    ...(["drain", "now"] as const).filter((flag) => args.on(flag)).map((flag) => `--${flag}`),
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
    const answer = parseJson(line) as Line | undefined;
    if (answer?.ok) {
      const { ok: _ok, ...result } = answer;
      return result;
    }
    if (answer !== undefined) throw new TaskdError(answer.code, answer.error, { hint: answer.hint });
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
