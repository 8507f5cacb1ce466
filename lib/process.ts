/**
 * Runs one program of the host with nothing inherited: the environment is what the caller gives, output is bounded,
 * and a deadline or an abort ends it together with everything that it started.
 */

import type { Clock } from "./clock.ts";
import { TaskdError } from "./errors.ts";
import { fileError } from "./fs.ts";
import { GatheredBytes } from "./gathered_bytes.ts";

export interface ProcessOptions {
  args: readonly string[];
  /** By default what has it speak so that its words can be read, and nothing else. */
  env?: Readonly<Record<string, string>>;
  /** Working directory, absolute; by default the root. */
  cwd?: string;
  stdin?: Uint8Array | undefined;
  /** What the system holds it to, and each program that it starts. */
  limits?: ProcessLimits;
  /** Milliseconds after which it is killed. */
  deadline_ms: number;
  /** Bytes of output that are taken. */
  max_bytes: number;
  /** What more output does: `refuse` is an error, `cut` ends the program and returns what came. */
  on_excess?: "refuse" | "cut";
  /** Takes the output as it comes; then none is kept, and there may be any amount of it. */
  onOutput?: (chunk: Uint8Array) => void;
  /** Asks for its end, where its group is not all of it; if it has not ended soon after that, the group is killed. */
  onEnd?: (pid: number) => Promise<void>;
  /** Ends it at once. Named by every caller: undefined is for what has to be done whatever else is ended. */
  signal: AbortSignal | undefined;
  clock: Clock;
  attempted: string;
}

/** Limits of each process alone; the system keeps them also when this process is gone. */
export interface ProcessLimits {
  /** Seconds of processor time; then signal 24 ends it. */
  cpu_s?: number;
  /** Bytes of memory that it may write to; more is refused. Files that it only reads by mapping them do not count. */
  memory_bytes?: number;
  /** Bytes of the largest file that it writes; then signal 25 ends it. */
  file_bytes?: number;
  /** A write beyond `file_bytes` fails, and ends nothing. */
  outlives_file_bytes?: true;
}

export interface ProcessResult {
  /** Exit code; 128 + n after signal n. */
  code: number;
  stdout: Uint8Array<ArrayBuffer>;
  /** The last 64 KiB of it, lossily decoded. */
  stderr: string;
  truncated: boolean;
}

/** Between the question for its end and the kill of its group, milliseconds. */
const END_MS = 5_000;
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
  const kill = () => {
    killGroup(child);
    // A descendant that outlives it may hold the pipes open: do not wait for it.
    void out.cancel();
    void err.cancel();
  };
  const end = (why: typeof ended) => {
    if (ended !== undefined) return;
    ended = why;
    if (options.onEnd === undefined) return kill();
    const asked = options.onEnd(child.pid).then(() => options.clock.sleep(END_MS, over.signal));
    void Promise.race([child.status, asked]).catch(() => {}).finally(kill);
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

function start(
  path: string,
  { args, env = { LC_ALL: "C" }, cwd = "/", attempted, limits }: ProcessOptions,
): Deno.ChildProcess {
  try {
    // A group of its own: git's helpers (ssh, remote-https) die with it, and no terminal is there to prompt on.
    const limited = limits === undefined ? { program: path, args } : withLimits(path, args, limits);
    return new Deno.Command(limited.program, {
      args: [...limited.args],
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

/** POSIX has it there; the runtime cannot limit what it starts. */
const SHELL = "/bin/sh";
/** Between signal 24, of which a report is left, and the signal that nothing outlives. */
const CPU_GRACE_S = 5;

/** A program under limits of the system: a shell sets them and becomes the program. */
export function withLimits(
  path: string,
  args: readonly string[],
  { cpu_s, memory_bytes, file_bytes, outlives_file_bytes }: ProcessLimits,
): { program: string; args: string[] } {
  // One that cannot be set is lower already.
  const set = (option: string, value: number) =>
    `{ ulimit ${option} ${value} 2>/dev/null || [ "$(ulimit ${option})" != unlimited ]; }`;
  const script = [
    ...cpu_s === undefined ? [] : [set("-t", cpu_s + CPU_GRACE_S), `{ ulimit -S -t ${cpu_s} 2>/dev/null || :; }`],
    // In KiB, and in blocks of 512 bytes.
    ...memory_bytes === undefined ? [] : [set("-d", Math.ceil(memory_bytes / 1_024))],
    ...file_bytes === undefined ? [] : [set("-f", Math.ceil(file_bytes / 512))],
    // What is ignored stays so in the program.
    ...outlives_file_bytes ? ["trap '' XFSZ"] : [],
    'exec "$0" "$@"',
  ].join(" && ");
  return { program: SHELL, args: ["-c", script, path, ...args] };
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
  const gathered = new GatheredBytes();
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    const part = read.value.subarray(0, Math.max(0, max - gathered.length));
    gathered.push(part);
    if (part.length < read.value.length) onExcess();
  }
  return gathered.whole();
}

async function pass(reader: Reader, onOutput: (chunk: Uint8Array) => void, onError: () => void) {
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) onOutput(read.value);
    return new Uint8Array();
  } catch (error) {
    onError();
    throw error;
  }
}

async function collectTail(reader: Reader, max: number) {
  let gathered = new GatheredBytes();
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    gathered.push(read.value);
    if (gathered.length <= 2 * max) continue;
    const tail = gathered.whole().subarray(gathered.length - max);
    gathered = new GatheredBytes();
    gathered.push(tail);
  }
  return gathered.whole().subarray(Math.max(0, gathered.length - max));
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
