/**
 * How the built-in agent's process, which may use no file, has its tools work: each call is a line on its standard
 * output, marked as one, which the broker passes to the process that has the task's files; the answer comes back as a
 * line on the agent's standard input. There is one call at a time.
 */

import { decodeLine, encodeLine, LineSplitter } from "../../lib/protocol/lines.ts";

/** What a call begins with, and no row of progress: the record separator of RFC 7464. */
export const CALL_MARK = 0x1e;

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

/** An answer, or why the run cannot go on. */
export type CallAnswer = ToolAnswer | { failed: string };

export function encodeCall({ name, arguments: json }: ToolCall): Uint8Array {
  // What is too long is refused where it is done, with the reason: one unit too many is enough for that.
  const call = { name: name.slice(0, MAX_NAME_LENGTH + 1), arguments: json.slice(0, MAX_ARGUMENTS_LENGTH + 1) };
  const line = encodeLine(call);
  const bytes = new Uint8Array(1 + line.length);
  bytes[0] = CALL_MARK;
  bytes.set(line, 1);
  return bytes;
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
