/**
 * Store operations in a process of their own under strace: what a test needs to let single system calls of them fail,
 * kill, or stop.
 */

import { assert } from "@std/assert";
import type { Answer, Request } from "./_child.ts";

const CHILD = new URL("./_child.ts", import.meta.url).pathname;

/** Starts the process on the store at `location`. */
export function spawnTraced(location: string, options: string[], stderr: "null" | "piped"): Deno.ChildProcess {
  return new Deno.Command("strace", {
    args: ["-f", "-qq", ...options, Deno.execPath(), "run", "-A", "--no-prompt", "--quiet", CHILD, location],
    stdin: "piped",
    stdout: "piped",
    stderr,
  }).spawn();
}

/** Runs one operation so; undefined when the process died. */
export async function runTraced(location: string, request: Request, ...options: string[]): Promise<Answer | undefined> {
  const child = spawnTraced(location, options, "null");
  const output = child.output();
  try {
    const input = child.stdin.getWriter();
    await input.write(new TextEncoder().encode(JSON.stringify(request) + "\n"));
    await input.close();
  } catch {
    // Dead already.
  }
  const answer = new TextDecoder().decode((await output).stdout).trim();
  return answer === "" ? undefined : JSON.parse(answer) as Answer;
}

/** Lines of a stream, one at a time. */
export class Lines {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  #text = "";

  constructor(stream: ReadableStream<Uint8Array>) {
    this.#reader = stream.getReader();
  }

  /** The next one; undefined at the end. */
  async next(): Promise<string | undefined> {
    for (;;) {
      const end = this.#text.indexOf("\n");
      if (end >= 0) {
        const line = this.#text.slice(0, end);
        this.#text = this.#text.slice(end + 1);
        return line;
      }
      const { value } = await this.#reader.read();
      if (value === undefined) return undefined;
      this.#text += this.#decoder.decode(value, { stream: true });
    }
  }
}

/** A process that runs operations and stops after every system call of certain names. */
export class StoppingProcess implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #in: WritableStreamDefaultWriter<Uint8Array>;
  readonly #answers: Lines;
  readonly #watching: Promise<void>;
  #at: (call: string) => void | Promise<void> = () => {};

  /** @param calls The system calls, as strace names them: none that waits, because a stop has it begin again. */
  constructor(location: string, calls: string) {
    // With -D the tracer runs in the background, and the process is this one's child.
    const inject = ["-e", `trace=${calls}`, "-e", `inject=${calls}:signal=STOP`];
    this.#child = spawnTraced(location, ["-D", "-y", ...inject], "piped");
    this.#in = this.#child.stdin.getWriter();
    this.#answers = new Lines(this.#child.stdout);
    this.#watching = this.#watch();
  }

  /** Runs an operation; `at` is called at each stop with the call, and the process goes on when that is done. */
  async run(request: Request, at: (call: string) => void | Promise<void> = () => {}): Promise<Answer> {
    this.#at = at;
    await this.#in.write(new TextEncoder().encode(JSON.stringify(request) + "\n"));
    const answer = await this.#answers.next();
    assert(answer !== undefined, "the process died");
    this.#at = () => {};
    return JSON.parse(answer) as Answer;
  }

  async #watch(): Promise<void> {
    const lines = new Lines(this.#child.stderr);
    const calls = new Map<string, string>();
    // Threads may stop at once; the stop of one is reported by each.
    const stopping = new Set<string>();
    for (let line = await lines.next(); line !== undefined; line = await lines.next()) {
      const [, thread = "", text] = /^(?:\[pid +(\d+)\] )?(.*)$/.exec(line)!;
      if (text!.startsWith("--- SIGSTOP ")) stopping.add(thread);
      else if (!text!.startsWith("--- ")) calls.set(thread, text!);
      else if (text === "--- stopped by SIGSTOP ---" && stopping.delete(thread)) {
        try {
          await this.#at(calls.get(thread)!);
        } finally {
          goOn(thread === "" ? this.#child.pid : Number(thread));
        }
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#in.close();
    await this.#child.status;
    await this.#watching;
  }
}

/** It may be a thread of a helper program, whose time was over meanwhile. */
function goOn(thread: number): void {
  try {
    Deno.kill(thread, "SIGCONT");
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
