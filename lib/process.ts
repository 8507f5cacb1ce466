/**
 * Runs one program of the host with nothing inherited: the environment is what the caller gives, output is bounded,
 * and a deadline or an abort ends it together with everything that it started.
 */

import type { Clock } from "./clock.ts";
import { TaskdError } from "./errors.ts";
import { fileError } from "./fs.ts";
import { concat } from "./concat.ts";

export interface ProcessOptions {
  args: readonly string[];
  env: Readonly<Record<string, string>>;
  /** Working directory, absolute. */
  cwd: string;
  stdin?: Uint8Array | undefined;
  /** Milliseconds after which it is killed. */
  deadline_ms: number;
  /** Bytes of output that are taken. */
  max_bytes: number;
  /** What more output does: `refuse` is an error, `cut` ends the program and returns what came. */
  on_excess?: "refuse" | "cut";
  /** Takes the output as it comes; then none is kept, and there may be any amount of it. */
  onOutput?: (chunk: Uint8Array) => void;
  signal?: AbortSignal | undefined;
  clock: Clock;
  attempted: string;
}

export interface ProcessResult {
  /** Exit code; 128 + n after signal n. */
  code: number;
  stdout: Uint8Array<ArrayBuffer>;
  /** The last 64 KiB of it, lossily decoded. */
  stderr: string;
  truncated: boolean;
}

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
  const [out, err] = [child.stdout.getReader(), child.stderr.getReader()];
  const end = (why: typeof ended) => {
    ended ??= why;
    killGroup(child);
    // A descendant that outlives it may hold the pipes open: do not wait for it.
    void out.cancel();
    void err.cancel();
  };
  const onAbort = () => end("abort");
  signal?.addEventListener("abort", onAbort, { once: true });
  const watchdog = options.clock.sleep(options.deadline_ms, over.signal).then(() => end("deadline"), () => {});
  try {
    const [status, stdout, stderr] = await Promise.all([
      child.status,
      options.onOutput === undefined
        ? collect(out, max_bytes, () => end("excess"))
        : pass(out, options.onOutput, () => end("abort")),
      collectTail(err, MAX_STDERR_BYTES),
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

function killGroup(child: Deno.ChildProcess): void {
  try {
    Deno.kill(-child.pid, "SIGKILL");
  } catch (error) {
    // Where the whole group may not be killed, at least the program itself; its helpers lose their pipes.
    if (!isGone(error)) killAlone(child);
  }
}

function killAlone(child: Deno.ChildProcess): void {
  try {
    child.kill("SIGKILL");
  } catch {
    // It is gone, or another user's by now: thrown in a listener, an error would end this process.
  }
}

function isGone(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound || (error as { code?: string }).code === "ESRCH";
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

async function collect(reader: Reader, max: number, onExcess: () => void) {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    // A copy: a chunk of two bytes keeps the whole buffer alive that it was read into.
    const part = read.value.slice(0, Math.max(0, max - length));
    chunks.push(part);
    length += part.length;
    if (part.length < read.value.length) onExcess();
  }
  return concat(chunks);
}

async function pass(reader: Reader, onOutput: (chunk: Uint8Array) => void, onError: () => void) {
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) onOutput(read.value);
    return concat([]);
  } catch (error) {
    onError();
    throw error;
  }
}

async function collectTail(reader: Reader, max: number) {
  let chunks: Uint8Array[] = [];
  let length = 0;
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    chunks.push(read.value.slice());
    length += read.value.length;
    if (length > 2 * max) {
      chunks = [concat(chunks).subarray(length - max)];
      length = max;
    }
  }
  return concat(chunks).subarray(Math.max(0, length - max));
}

async function feed(stdin: WritableStream<Uint8Array>, bytes: Uint8Array | undefined): Promise<void> {
  const writer = stdin.getWriter();
  try {
    if (bytes !== undefined) await writer.write(bytes);
    await writer.close();
  } catch {
    // It ended without reading everything; its exit code is the result.
  }
}
