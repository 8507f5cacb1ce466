/**
 * Runs one program of the host with nothing inherited: the environment is what the caller gives, output is bounded,
 * and a deadline or an abort ends it together with everything that it started.
 *
 * @module
 */

import type { Clock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { fileError } from "../../lib/fs.ts";

/** How a program is run. */
export interface ProcessOptions {
  args: readonly string[];
  /** The whole environment. */
  env: Readonly<Record<string, string>>;
  /** Working directory, absolute. */
  cwd: string;
  /** What it reads; without it, nothing. */
  stdin?: Uint8Array;
  /** Milliseconds after which it is killed. */
  deadline_ms: number;
  /** Bytes of output that are taken. */
  max_bytes: number;
  /** What more output does: `refuse` is an error, `cut` ends the program and returns what came. */
  on_excess?: "refuse" | "cut";
  /** Ends it early. */
  signal?: AbortSignal;
  clock: Clock;
  /** For errors: `Cannot clone x`. */
  attempted: string;
}

/** How it ended. */
export interface ProcessResult {
  /** Exit code; 128 + n after signal n. */
  code: number;
  stdout: Uint8Array<ArrayBuffer>;
  /** The last 64 KiB of it, lossily decoded. */
  stderr: string;
  /** Output was cut. */
  truncated: boolean;
}

/** What is kept of a program's complaints. */
const MAX_STDERR_BYTES = 64 << 10;

/**
 * Runs `path` to its end.
 *
 * @throws {TaskdError} `timed_out` at the deadline, `too_large` on excess output, `not_found` or `denied` when it cannot
 * be started; the signal's reason after an abort. Its exit code is the caller's affair.
 */
export async function runProcess(path: string, options: ProcessOptions): Promise<ProcessResult> {
  const { attempted, signal, max_bytes } = options;
  signal?.throwIfAborted();
  const child = start(path, options);
  const over = new AbortController();
  let ended: "deadline" | "abort" | "excess" | undefined;
  const end = (why: typeof ended) => {
    ended ??= why;
    killGroup(child.pid);
  };
  const onAbort = () => end("abort");
  signal?.addEventListener("abort", onAbort, { once: true });
  const watchdog = options.clock.sleep(options.deadline_ms, over.signal).then(() => end("deadline"), () => {});
  try {
    const [status, stdout, stderr] = await Promise.all([
      child.status,
      collect(child.stdout, max_bytes, () => end("excess")),
      collectTail(child.stderr, MAX_STDERR_BYTES),
      feed(child.stdin, options.stdin),
    ]);
    if (ended === "abort") throw signal!.reason;
    if (ended === "deadline") {
      throw new TaskdError("timed_out", `${attempted}: no end after ${options.deadline_ms / 1_000} s`, {
        hint: "Try again; if it stays so, the repository or the network is slower than the limit allows",
      });
    }
    if (ended === "excess" && options.on_excess !== "cut") {
      throw new TaskdError("too_large", `${attempted}: more than ${max_bytes} bytes of output`);
    }
    return { code: status.code, stdout, stderr: new TextDecoder().decode(stderr), truncated: ended === "excess" };
  } finally {
    over.abort();
    await watchdog;
    signal?.removeEventListener("abort", onAbort);
  }
}

function start(path: string, { args, env, cwd, attempted }: ProcessOptions): Deno.ChildProcess {
  try {
    // A group of its own: git's helpers (ssh, remote-https) die with it, and no terminal is there to prompt on.
    return new Deno.Command(path, {
      args: [...args],
      env: { ...env },
      clearEnv: true,
      cwd,
      detached: true,
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  } catch (error) {
    throw fileError(error, `${attempted}: cannot start ${path}`);
  }
}

function killGroup(pid: number): void {
  try {
    Deno.kill(-pid, "SIGKILL");
  } catch (error) {
    // Gone already.
    if (!(error instanceof Deno.errors.NotFound) && (error as { code?: string }).code !== "ESRCH") throw error;
  }
}

async function collect(stream: ReadableStream<Uint8Array>, max: number, onExcess: () => void) {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of stream) {
    if (length >= max && chunk.length > 0) onExcess();
    const part = chunk.subarray(0, Math.max(0, max - length));
    if (part.length < chunk.length) onExcess();
    // A copy: a chunk of two bytes keeps the whole buffer alive that it was read into.
    chunks.push(part.slice());
    length += part.length;
  }
  return joined(chunks, length);
}

async function collectTail(stream: ReadableStream<Uint8Array>, max: number) {
  let chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of stream) {
    chunks.push(chunk.slice());
    length += chunk.length;
    if (length > 2 * max) {
      chunks = [joined(chunks, length).subarray(length - max)];
      length = max;
    }
  }
  return joined(chunks, length).subarray(Math.max(0, length - max));
}

function joined(chunks: Uint8Array[], length: number): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

async function feed(stdin: WritableStream<Uint8Array>, bytes: Uint8Array | undefined): Promise<void> {
  const writer = stdin.getWriter();
  try {
    if (bytes !== undefined) await writer.write(bytes);
    await writer.close();
  } catch {
    // It ended without reading everything; its exit code says why.
  }
}
