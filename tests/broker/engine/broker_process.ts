/**
 * A broker in a process of its own, for tests that kill it.
 */

import { BrokerClient } from "../../../broker/client/client.ts";
import type { Row } from "../../../broker/task/rows.ts";
import type { BrokerBench } from "./bench.ts";

/** A broker in a process of its own. */
export class BrokerProcess implements AsyncDisposable {
  /** Asks it, over its socket. */
  readonly client: BrokerClient;
  readonly #child: Deno.ChildProcess;
  readonly #events: { event: string; stage?: string }[] = [];
  readonly #reading: Promise<void>;
  #killed = false;
  #news = Promise.withResolvers<void>();

  /** Starts one for the home of `bench`; it kills itself as soon as a row like `kill_after` is on the disk. */
  constructor(bench: BrokerBench, { kill_after }: { kill_after?: Partial<Row> } = {}) {
    this.#child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-prompt", "--no-check", new URL("./_broker_main.ts", import.meta.url).pathname],
      clearEnv: true,
      env: {
        ...Object.fromEntries(
          ["HOME", "DENO_DIR", "ENDPOINT_KEY", "SANDBOX_PROGRAMS"].flatMap((name) => {
            const value = bench.env(name);
            return value === undefined ? [] : [[name, value]];
          }),
        ),
        ...kill_after && { KILL_AFTER_ROW: JSON.stringify(kill_after) },
      },
      stdin: "null",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    this.client = new BrokerClient({ socket: `${bench.root}/s/taskd.sock` });
    this.#reading = this.#read();
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** Resolves once something has ended it. */
  async died(): Promise<void> {
    await this.#child.status;
    this.#killed = true;
    await this.#reading;
  }

  async #read(): Promise<void> {
    let text = "";
    for await (const chunk of this.#child.stdout.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      const lines = text.split("\n");
      text = lines.pop()!;
      for (const line of lines) this.#events.push(JSON.parse(line));
      this.#news.resolve();
      this.#news = Promise.withResolvers();
    }
  }

  /** Resolves once the log has such an entry. */
  async says(event: string, stage?: string): Promise<void> {
    while (!this.#events.some((entry) => entry.event === event && entry.stage === stage)) await this.#news.promise;
  }

  /** Ends it by SIGKILL. */
  async kill(): Promise<void> {
    if (this.#killed) return;
    this.#killed = true;
    this.#child.kill("SIGKILL");
    await this.#child.status;
    await this.#reading;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }
}
