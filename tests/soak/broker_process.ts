/**
 * The broker of a run as its operating system sees it: started, killed, stopped, measured.
 */

import { systemClock } from "../../lib/clock.ts";

/** Events of the log that no run may have. */
const DEFECTS = new Set(["defect", "background_failed", "trace_damaged", "queue_item_damaged", "queue_write_failed"]);
/** Lines of the log that are kept for the report. */
const KEPT_LINES = 400;
/** How long a broker may take to serve, and to stop: a machine under this load is slow. */
const WAIT_MS = 120_000;

/** How a broker is started. */
export interface BrokerPlaceOptions {
  home: string;
  env: Readonly<Record<string, string>>;
}

/** What a broker has used. */
export interface Use {
  rss_bytes: number;
  open_files: number;
}

/** One broker's process. */
export class BrokerProcess {
  /** The end of its log. */
  readonly lines: string[] = [];
  /** Entries of its log that report a defect. */
  readonly defects: string[] = [];
  readonly pid: number;
  /** Resolves when it serves; false when it ended before. */
  readonly serving: Promise<boolean>;
  /** Resolves when it has ended. */
  readonly ended: Promise<Deno.CommandStatus>;
  readonly #child: Deno.ChildProcess;
  readonly #started = Promise.withResolvers<boolean>();

  /** Starts it. */
  constructor({ home, env }: BrokerPlaceOptions) {
    this.#child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-prompt", "--no-check", new URL("./broker_main.ts", import.meta.url).pathname],
      clearEnv: true,
      env: { ...env, HOME: home },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    this.pid = this.#child.pid;
    this.serving = this.#started.promise;
    const read = Promise.all([this.#read(this.#child.stdout), this.#read(this.#child.stderr)]);
    this.ended = this.#child.status.then(async (status) => {
      await read;
      this.#started.resolve(false);
      return status;
    });
  }

  async #read(stream: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<void> {
    let rest = "";
    for await (const chunk of stream.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop()!;
      for (const line of lines) this.#take(line);
    }
    if (rest !== "") this.#take(rest);
  }

  #take(line: string): void {
    this.lines.push(line);
    if (this.lines.length > KEPT_LINES) this.lines.shift();
    const { event } = parsed(line);
    if (event === "broker_started") this.#started.resolve(true);
    if (event === undefined || DEFECTS.has(event) || line.includes("defect: ")) this.defects.push(line);
  }

  /** SIGKILL. */
  async kill(): Promise<void> {
    this.#signal("SIGKILL");
    await this.ended;
  }

  /** SIGTERM; the exit code, or undefined when it did not end and had to be killed. */
  async stop(): Promise<number | undefined> {
    this.#signal("SIGTERM");
    const status = await within(this.ended, WAIT_MS);
    if (status === undefined) await this.kill();
    return status?.code;
  }

  /** Whether it serves, waiting for it. */
  async isServing(): Promise<boolean> {
    return await within(this.serving, WAIT_MS) ?? false;
  }

  /** What it uses now; undefined where that cannot be known. */
  use(): Use | undefined {
    try {
      const pages = Number(Deno.readTextFileSync(`/proc/${this.pid}/statm`).split(" ")[1]);
      return { rss_bytes: pages * 4_096, open_files: [...Deno.readDirSync(`/proc/${this.pid}/fd`)].length };
    } catch {
      return undefined;
    }
  }

  #signal(signal: Deno.Signal): void {
    try {
      this.#child.kill(signal);
    } catch {
      // It has ended by itself.
    }
  }
}

function parsed(line: string): { event?: string } {
  try {
    return JSON.parse(line);
  } catch {
    return {};
  }
}

/** What `promise` resolves with; undefined after `ms`. */
async function within<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  const over = new AbortController();
  try {
    return await Promise.race([promise, systemClock.sleep(ms, over.signal).then(() => undefined, () => undefined)]);
  } finally {
    over.abort();
  }
}
