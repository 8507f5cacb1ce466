/**
 * How the built-in agent's process, which may use no file, has its tools work: each call is a line on its standard
 * output, marked as one, which the broker passes to the process that has the task's files; the answer comes back as a
 * line on the agent's standard input. There is one call at a time.
 */

import { concat } from "../../lib/concat.ts";
import { decodeLine, encodeLine, LineSplitter } from "../../lib/protocol/lines.ts";

/** What a call begins with, and no row of progress: the record separator of RFC 7464. */
export const CALL_MARK = 0x1e;

/**
 * What a line of the process with the files begins with when it asks for a command to be run, and is no answer yet: the
 * group separator of ASCII. The broker runs it and gives the result as the next line.
 */
export const COMMAND_MARK = 0x1d;
/** The longest command, in UTF-16 units. */
export const MAX_COMMAND_LENGTH = 16 << 10;
/** What is kept of a command's output, in UTF-16 units: more of its end, where failures are summed up. */
export const OUTPUT_HEAD_LENGTH = 12 << 10;
export const OUTPUT_TAIL_LENGTH = 28 << 10;
/** Seconds that a command may take. */
export const DEFAULT_COMMAND_S = 120;
export const MAX_COMMAND_S = 900;

/** The longest arguments of a call, in UTF-16 units: a file of the largest size, escaped. */
export const MAX_ARGUMENTS_LENGTH = 2 << 20;
/** The longest answer of a tool, in UTF-16 units. */
export const MAX_ANSWER_LENGTH = 48 << 10;
/** Calls of one answer of the model that are done. */
export const MAX_CALLS = 32;

/** For names, summaries, notes and quotes beside a text, of which a UTF-16 unit takes up to six bytes as JSON. */
const MAX_BESIDE_BYTES = 16 << 10;
/** The longest line of a call, with its mark and newline. */
export const MAX_CALL_BYTES = 6 * MAX_ARGUMENTS_LENGTH + MAX_BESIDE_BYTES;
/** The longest line of an answer, with its newline. */
export const MAX_ANSWER_BYTES = 6 * MAX_ANSWER_LENGTH + MAX_BESIDE_BYTES;
/** The longest line that either process takes: a configuration may list many links. */
const MAX_INPUT_BYTES = 64 << 20;
/** No tool has a longer name; in UTF-16 units. */
const MAX_NAME_LENGTH = 64;

export interface ToolCall {
  name: string;
  /** JSON text, as the model wrote it. */
  arguments: string;
}

export interface ToolAnswer {
  ok: boolean;
  /** For the model. */
  text: string;
  /** For people, one line. */
  summary: string;
  finished?: boolean;
}

export interface CommandRequest {
  /** For `sh`. */
  command: string;
  timeout_s: number;
}

export interface CommandResult {
  reason: "exited" | "timed_out" | "out_of_memory";
  /** 128 + n after signal n. */
  code: number;
  duration_ms: number;
  /** Both streams as they came; what was left out in the middle is said there. */
  output: string;
  /** The work tree's links as they are now. */
  links: { path: string; target: string }[];
}

/** An answer, or why the run cannot go on. */
export type CallAnswer = ToolAnswer | { failed: string };

export function encodeCall({ name, arguments: json }: ToolCall): Uint8Array {
  // What is too long is refused where it is done, with the reason: one unit too many is enough for that.
  const call = { name: name.slice(0, MAX_NAME_LENGTH + 1), arguments: json.slice(0, MAX_ARGUMENTS_LENGTH + 1) };
  return concat([Uint8Array.of(CALL_MARK), encodeLine(call)]);
}

export function encodeCommand(request: CommandRequest): Uint8Array {
  return concat([Uint8Array.of(COMMAND_MARK), encodeLine(request)]);
}

/** The command of a line without its mark. Throws for anything else: the process that sent it may have been taken over. */
export function parseCommand(line: string): CommandRequest {
  const { command, timeout_s } = JSON.parse(line);
  const is_command = typeof command === "string" && command.length <= MAX_COMMAND_LENGTH && !command.includes("\0");
  if (is_command && Number.isSafeInteger(timeout_s) && timeout_s >= 1 && timeout_s <= MAX_COMMAND_S) {
    return { command, timeout_s };
  }
  throw new Error("a line that is no command");
}

/** The call of a line without its mark. The agent may have been taken over: throws for anything else. */
export function parseCall(line: string): ToolCall {
  const { name, arguments: json } = JSON.parse(line);
  if (typeof name !== "string" || typeof json !== "string") throw new Error("a line that is no call");
  return { name, arguments: json };
}

/** The lines of a process's standard input, until it ends; throws for one that is too long or not UTF-8. */
export async function* inputLines(): AsyncGenerator<string> {
  const splitter = new LineSplitter(MAX_INPUT_BYTES);
  for await (const chunk of Deno.stdin.readable) {
    for (const line of splitter.push(chunk)) {
      const text = line.kind === "line" ? decodeLine(line.bytes) : undefined;
      if (text === undefined) throw new Error("a line of the input is too long or not UTF-8");
      yield text;
    }
  }
}

/** Writes all of `bytes` to the standard output. */
export function print(bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length;) done += Deno.stdout.writeSync(bytes.subarray(done));
}
