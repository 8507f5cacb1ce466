/**
 * The broker of the demo, run as a process: started, spoken to, killed.
 *
 * @module
 */

import { BrokerClient } from "../../broker/client/client.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { BrokerHome } from "./broker_home.ts";

/** What a broker that was told to end may take: it ends its sandboxes. */
const STOP_LIMIT_MS = 15_000;

/** A running `taskd start`. */
export class BrokerProcess implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #client: BrokerClient;
  readonly #log: Promise<string>;
  #ended = false;

  private constructor(child: Deno.ChildProcess, client: BrokerClient) {
    this.#child = child;
    this.#client = client;
    this.#log = new Response(child.stderr).text();
    child.status.then(() => this.#ended = true);
  }

  /** Starts the broker of `home` and waits until it serves. */
  static async start(home: BrokerHome, signal: AbortSignal): Promise<BrokerProcess> {
    const child = home.command(["start", "--json"], { stdout: "piped", stderr: "piped", signal }).spawn();
    const broker = new BrokerProcess(child, new BrokerClient({ socket: home.socket }, { signal }));
    try {
      // It says where it is as soon as it serves, and its output ends if it never does.
      for await (const _chunk of child.stdout) return broker;
      signal.throwIfAborted();
      throw new TaskdError("internal", `The broker did not start: ${(await broker.#log).trim()}`);
    } catch (error) {
      await broker[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Process id. */
  get pid(): number {
    return this.#child.pid;
  }

  /** Asks it. */
  get client(): BrokerClient {
    return this.#client;
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
    if (code !== 0) throw new TaskdError("internal", `The broker ended with ${code}: ${log.trim()}`);
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
}
