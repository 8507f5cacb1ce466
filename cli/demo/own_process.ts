/**
 * This program itself, run as processes of the demo: commands that end, and daemons that are started, spoken to, killed.
 */

import { TaskdError } from "../../lib/errors.ts";
import { ownCommand } from "../table/own_command.ts";

/** What a daemon that was asked to end may take: a broker ends its sandboxes. */
const STOP_LIMIT_MS = 15_000;

export interface OwnProcessOptions {
  /** URL of this program's main module. */
  entry: string;
  /** Ends it at once. */
  signal: AbortSignal;
  /** Its environment; absent for that of this process. */
  env?: Readonly<Record<string, string>>;
  /** Its working directory; absent for that of this process. */
  cwd?: string;
}

/** Runs this program with `words` to its end; throws what it says when it fails. */
export async function runOwn(words: readonly string[], options: OwnProcessOptions): Promise<string> {
  const { success, stdout, stderr } = await prepared(words, options).output();
  const text = new TextDecoder().decode(stdout);
  if (success) return text;
  throw failure(words, new TextDecoder().decode(stderr).trim() || text.trim());
}

/** A running daemon, and a client of type `T` that speaks to it. */
export class DaemonProcess<T> implements AsyncDisposable {
  readonly #words: readonly string[];
  readonly #child: Deno.ChildProcess;
  readonly #log: Promise<string>;
  #client: T | undefined;
  #ended = false;

  private constructor(words: readonly string[], options: OwnProcessOptions) {
    this.#words = words;
    this.#child = prepared(words, options).spawn();
    this.#log = new Response(this.#child.stderr).text();
    this.#child.status.then(() => this.#ended = true);
  }

  /** Starts a daemon with `words`, waits until it serves, then connects to it. */
  static async start<T>(
    words: readonly string[],
    options: OwnProcessOptions,
    connect: () => T | Promise<T>,
  ): Promise<DaemonProcess<T>> {
    const daemon = new DaemonProcess<T>([...words, "--json"], options);
    try {
      await daemon.#serves(options.signal);
      daemon.#client = await connect();
      return daemon;
    } catch (error) {
      await daemon[Symbol.asyncDispose]();
      throw error;
    }
  }

  get pid(): number {
    return this.#child.pid;
  }

  get client(): T {
    return this.#client!;
  }

  /** Ends it as a crash would. */
  async kill(): Promise<void> {
    if (!this.#ended) this.#child.kill("SIGKILL");
    await this.#child.status;
  }

  /** Ends it in order, and returns all that it has logged; throws when it ends badly. */
  async stop(): Promise<string> {
    if (!this.#ended) this.#child.kill("SIGTERM");
    const { code } = await this.#child.status;
    const log = await this.#log;
    if (code !== 0) throw failure(this.#words, `it ended with ${code}: ${log.trim()}`);
    return log;
  }

  /** Ends it, if it is still there, so that it leaves nothing behind. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#ended) this.#child.kill("SIGTERM");
    const limit = setTimeout(() => this.#child.kill("SIGKILL"), STOP_LIMIT_MS);
    await this.#child.status;
    clearTimeout(limit);
    await this.#log;
  }

  /** It says where it is as soon as it serves, and its output ends if it never does. */
  async #serves(signal: AbortSignal): Promise<void> {
    for await (const _chunk of this.#child.stdout) return;
    signal.throwIfAborted();
    throw failure(this.#words, (await this.#log).trim());
  }
}

function prepared(words: readonly string[], options: OwnProcessOptions): Deno.Command {
  const [program, args] = ownCommand(options.entry, words);
  return new Deno.Command(program, { args, stdin: "null", stdout: "piped", stderr: "piped", ...placeOf(options) });
}

/** Where a command runs, with which environment, and what ends it. */
export function placeOf({ signal, env, cwd }: OwnProcessOptions): Deno.CommandOptions {
  return { signal, ...(env && { env: { ...env }, clearEnv: true }), ...(cwd && { cwd }) };
}

/** What a program prints, line by line. */
export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncIterableIterator<string> {
  let rest = "";
  for await (const chunk of stream.pipeThrough(new TextDecoderStream())) {
    const parts = (rest + chunk).split("\n");
    rest = parts.pop()!;
    yield* parts;
  }
  if (rest !== "") yield rest;
}

function failure(words: readonly string[], reason: string): TaskdError {
  return new TaskdError("internal", `taskd ${words.join(" ")} failed: ${reason}`);
}
