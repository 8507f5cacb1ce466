/**
 * Passes the calls of the built-in agent to the process that does them, and each answer back. Calls are known by their
 * mark and leave the agent's output here, unread: calls and answers are bounded in bytes, and the agent in the number of
 * its calls. A call is passed on once the one before it is answered; until then the agent's output
 * waits. Before its answer, the process that does a call may ask for one command, which is run here for it.
 */

import { GatheredBytes } from "../../lib/gathered_bytes.ts";
import { TaskdError } from "../../lib/errors.ts";
import { encodeLine } from "../../lib/protocol/lines.ts";
import {
  CALL_MARK,
  COMMAND_MARK,
  type CommandRequest,
  type CommandResult,
  MAX_ANSWER_BYTES,
  MAX_CALL_BYTES,
  parseCommand,
} from "../agent/calls.ts";

const NEWLINE = 0x0a;

/** The process that does the calls. */
export interface CallWorker {
  stdin: WritableStream<Uint8Array>;
  stdout: ReadableStream<Uint8Array>;
}

export interface CallRelayOptions {
  agent: { stdin: WritableStream<Uint8Array> };
  /** Starts what does the calls, with the agent's first output; undefined when there is to be none any more. */
  start: () => CallWorker | undefined;
  /** First lines of their inputs. */
  configs: { agent: string; files: string };
  max_calls: number;
  /** Runs a command; absent where there is no sandbox for it. What it throws ends the agent, and so does no result. */
  runCommand?: ((request: CommandRequest) => Promise<CommandResult | undefined>) | undefined;
}

export class CallRelay {
  readonly #options: CallRelayOptions;
  readonly #to_agent: WritableStreamDefaultWriter<Uint8Array>;
  #to_files: WritableStreamDefaultWriter<Uint8Array> | undefined;
  #from_files: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #calls = 0;
  /** One of the two processes is gone: no answer is waited for any more. */
  #is_over = false;

  constructor(options: CallRelayOptions) {
    this.#options = options;
    this.#to_agent = options.agent.stdin.getWriter();
    // What ends before it has read its configuration says so by its end.
    void sent(this.#to_agent, new TextEncoder().encode(options.configs.agent));
  }

  /**
   * What the agent prints, without its calls. Ends with an error when a call or an answer is over its bound, or the
   * agent makes more calls than it may.
   */
  async *output(stdout: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
    let call: GatheredBytes | undefined;
    let is_line_start = true;
    for await (const chunk of stdout) {
      this.#begin();
      for (let rest = chunk; rest.length > 0;) {
        if (call === undefined) {
          const at = callIn(rest, is_line_start);
          const before = at < 0 ? rest : rest.subarray(0, at);
          if (before.length > 0) yield before;
          is_line_start = at >= 0 || rest.at(-1) === NEWLINE;
          if (at < 0) break;
          call = new GatheredBytes();
          rest = rest.subarray(at);
        }
        const newline = rest.indexOf(NEWLINE);
        const part = newline < 0 ? rest : rest.subarray(0, newline + 1);
        if (call.length + part.length > MAX_CALL_BYTES) {
          throw refused(`made a call of more than ${MAX_CALL_BYTES} bytes`);
        }
        call.push(part);
        if (newline < 0) break;
        rest = rest.subarray(newline + 1);
        const line = call.whole();
        call = undefined;
        await this.#do(line.subarray(1));
      }
    }
  }

  /** Gives both inputs an end and takes no more answers. */
  async close(): Promise<void> {
    this.#is_over = true;
    const closed = [this.#to_files?.close(), this.#to_agent.close(), this.#from_files?.cancel()];
    await Promise.allSettled(closed);
  }

  /** Not before the agent has begun: until then the machine is busy with that, and there is no call. */
  #begin(): void {
    if (this.#to_files !== undefined || this.#is_over) return;
    const files = this.#options.start();
    this.#to_files = files?.stdin.getWriter();
    this.#from_files = files?.stdout.getReader();
    this.#is_over = files === undefined;
    if (this.#to_files !== undefined) {
      void sent(this.#to_files, new TextEncoder().encode(this.#options.configs.files));
    }
  }

  async #do(line: Uint8Array): Promise<void> {
    const [to, from] = [this.#to_files, this.#from_files];
    if (this.#is_over || to === undefined || from === undefined) return;
    const { max_calls } = this.#options;
    if (++this.#calls > max_calls) throw refused(`made more than ${max_calls} calls`);
    // One that is not taken gets no answer.
    void sent(to, line);
    let answer = await answerOf(from);
    if (answer?.[0] === COMMAND_MARK) {
      const result = await this.#runCommand(answer.subarray(1));
      this.#is_over ||= result === undefined || !(await sent(to, encodeLine(result)));
      if (this.#is_over) return;
      answer = await answerOf(from);
    }
    this.#is_over = answer === undefined || !(await sent(this.#to_agent, answer));
  }

  #runCommand(line: Uint8Array): Promise<CommandResult | undefined> {
    const { runCommand } = this.#options;
    let request: CommandRequest | undefined;
    try {
      request = parseCommand(new TextDecoder().decode(line));
    } catch {
      // It is none.
    }
    if (request === undefined || runCommand === undefined) throw invalidAnswer();
    return runCommand(request);
  }
}

/** A line; undefined when there is none any more. */
async function answerOf(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<Uint8Array | undefined> {
  const gathered = new GatheredBytes();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return undefined;
    const newline = value.indexOf(NEWLINE);
    if (gathered.length + value.length > MAX_ANSWER_BYTES || newline >= 0 && newline < value.length - 1) {
      throw invalidAnswer();
    }
    gathered.push(value);
    if (newline >= 0) return gathered.whole();
  }
}

/** Where a call begins; -1 for nowhere. */
function callIn(bytes: Uint8Array, is_line_start: boolean): number {
  for (let at = bytes.indexOf(CALL_MARK); at >= 0; at = bytes.indexOf(CALL_MARK, at + 1)) {
    if (at === 0 ? is_line_start : bytes[at - 1] === NEWLINE) return at;
  }
  return -1;
}

/** Whether it was taken; a process that is gone takes nothing. */
function sent(writer: WritableStreamDefaultWriter<Uint8Array>, bytes: Uint8Array): Promise<boolean> {
  return writer.write(bytes).then(() => true, () => false);
}

function invalidAnswer(): TaskdError {
  return new TaskdError("sandbox_failed", "The process that has the task's files gave an invalid answer");
}

function refused(what: string): TaskdError {
  return new TaskdError("sandbox_failed", `The built-in agent was ended: it ${what}`);
}
