/**
 * This program's own daemon, run as a process: started, spoken to, killed.
 *
 * @module
 */

import { type Client, connect } from "../../lib/client/client.ts";
import { hasCode, TaskdError } from "../../lib/errors.ts";
import { ownCommand } from "../table/own_command.ts";
import { systemClock } from "../../lib/clock.ts";

/** Where the daemon works. */
export interface DaemonOptions {
  /** Directory of the store. */
  store: string;
  /** Path of its socket. */
  socket: string;
  /** Words after `serve`. */
  flags?: readonly string[];
  /** Ends it, and what waits for it, at once. */
  signal: AbortSignal;
}

// A start takes a fraction of a second; past this something is wrong.
const START_LIMIT_MS = 15_000;
const POLL_MS = 15;
const LOG_CHARS = 4_000;

/** A running daemon with a connection to it. */
export class DaemonProcess implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #log: Promise<string>;
  #client: Client | undefined;
  #ended = false;

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
    this.#log = tail(child.stderr);
    child.status.then(() => this.#ended = true);
  }

  /** Starts a daemon and waits until it answers. */
  static async start(options: DaemonOptions): Promise<DaemonProcess> {
    const words = ["serve", "--store", options.store, "--socket", options.socket, ...options.flags ?? []];
    const [program, args] = ownCommand(words);
    const stdio = { stdin: "null", stdout: "null", stderr: "piped" } as const;
    const daemon = new DaemonProcess(new Deno.Command(program, { args, ...stdio, signal: options.signal }).spawn());
    try {
      daemon.#client = await daemon.#connect(options);
      return daemon;
    } catch (error) {
      await daemon[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Process id. */
  get pid(): number {
    return this.#child.pid;
  }

  /** The connection. */
  get client(): Client {
    return this.#client!;
  }

  /** Ends it as a crash would. */
  async kill(): Promise<void> {
    if (!this.#ended) this.#child.kill("SIGKILL");
    this.#client?.close();
    await this.#child.status;
    await this.#log;
  }

  /** Asks it to stop and waits until it has; throws when it ends badly. */
  async stop(): Promise<void> {
    await this.client.call("shutdown", {});
    const { code } = await this.#child.status;
    if (code !== 0) throw new TaskdError("internal", `The daemon ended with ${code}: ${await this.#log}`);
  }

  /** Kills it if it is still there. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  async #connect({ socket, signal }: DaemonOptions): Promise<Client> {
    const deadline = performance.now() + START_LIMIT_MS;
    for (;;) {
      try {
        return await connect(socket, { signal });
      } catch (error) {
        if (!hasCode(error, "daemon_unreachable")) throw error;
        if (this.#ended) {
          throw new TaskdError("internal", `The daemon did not start: ${await this.#log}`, { cause: error });
        }
        if (performance.now() > deadline) throw error;
        await systemClock.sleep(POLL_MS);
      }
    }
  }
}

/** Runs this program with other words to its end; throws what it says when it fails. */
export async function runOwn(words: readonly string[], signal: AbortSignal): Promise<string> {
  const [program, args] = ownCommand(words);
  const { success, stdout, stderr } = await new Deno.Command(program, { args, stdin: "null", signal }).output();
  if (success) return new TextDecoder().decode(stdout);
  const reason = new TextDecoder().decode(stderr).trim() || new TextDecoder().decode(stdout).trim();
  throw new TaskdError("internal", `taskd ${words.join(" ")} failed: ${reason}`);
}

async function tail(stream: ReadableStream<Uint8Array>): Promise<string> {
  let text = "";
  for await (const chunk of stream.pipeThrough(new TextDecoderStream())) text = (text + chunk).slice(-LOG_CHARS);
  return text.trim();
}
