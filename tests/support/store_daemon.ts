/**
 * A daemon in a process of its own and a bare client of its socket, one JSON object per
 * line: nothing of the product's own client, so that a fault there cannot hide one here.
 */

import type { S3Server } from "./s3_server.ts";

/** What a socket answer says when it is not `ok`. */
export class AnswerError extends Error {
  override name = "AnswerError";
  /** The stable code. */
  readonly code: string;

  /** Makes the error from an answer's `code` and `error`. */
  constructor(op: string, code: string, message: string) {
    super(`${op}: ${code}: ${message}`);
    this.code = code;
  }
}

/** How the daemon is started. */
export interface DaemonOptions {
  /** File with the id of the machine's start that it is to see; needs root. */
  boot?: string;
  store: string;
  socket: string;
  /** As `-flush-every` takes it. */
  flush_every: string;
  snapshot_every: number;
  /** As `-reap-every`, `-gc-grace` and `-ro-cache-budget` take them. */
  reap_every: string;
  gc_grace: string;
  ro_cache_budget: string;
  /** For a store in a bucket. */
  bucket?: { server: S3Server; workspace: string };
}

/** Further arguments of a daemon on a bucket. */
function reach(bucket: DaemonOptions["bucket"]): { words: string[]; env: Record<string, string> } {
  if (bucket === undefined) return { words: [], env: {} };
  const { endpoint, credentials } = bucket.server;
  return {
    words: ["-s3-endpoint", endpoint, "-workspace", bucket.workspace],
    env: { AWS_ACCESS_KEY_ID: credentials.access_key_id, AWS_SECRET_ACCESS_KEY: credentials.secret_access_key },
  };
}

const MAIN = new URL("../../cli/main.ts", import.meta.url).pathname;
/** Gives a program another id of the machine's start, from a file: what a machine does that comes up again. */
const UNDER_BOOT = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"';
const START_POLL_MS = 20;

/** The daemon under test. */
export class Daemon {
  readonly options: DaemonOptions;
  /** The end of what it wrote to stderr. */
  log = "";
  #child: Deno.ChildProcess;
  #exited: Promise<Deno.CommandStatus>;
  #first: DaemonConnection | undefined;
  readonly #connections = new Set<DaemonConnection>();

  private constructor(options: DaemonOptions) {
    this.options = options;
    const { words, env } = reach(options.bucket);
    const boot = options.boot === undefined ? [] : ["--mount", "sh", "-c", UNDER_BOOT, options.boot, Deno.execPath()];
    this.#child = new Deno.Command(options.boot === undefined ? Deno.execPath() : "unshare", {
      args: [
        ...boot,
        "run",
        "-A",
        "--no-prompt",
        "--quiet",
        MAIN,
        "serve",
        "-store",
        options.store,
        "-socket",
        options.socket,
        "-flush-every",
        options.flush_every,
        "-snapshot-every",
        String(options.snapshot_every),
        "-reap-every",
        options.reap_every,
        "-gc-grace",
        options.gc_grace,
        "-ro-cache-budget",
        options.ro_cache_budget,
        ...words,
      ],
      env,
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const listening = this.#listen();
    this.#exited = this.#child.status.then(async (status) => {
      await listening;
      return status;
    });
  }

  /** Starts one; resolves once its socket answers. */
  static async start(options: DaemonOptions): Promise<Daemon> {
    const daemon = new Daemon(options);
    let exited: Deno.CommandStatus | undefined;
    daemon.#exited.then((status) => exited = status);
    for (;;) {
      if (exited !== undefined) throw new Error(`The daemon did not start (exit ${exited.code}):\n${daemon.log}`);
      try {
        daemon.#first = await daemon.connect();
        return daemon;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, START_POLL_MS));
      }
    }
  }

  /** A further connection: calls of several are answered beside each other. */
  async connect(): Promise<DaemonConnection> {
    const conn = await Deno.connect({ transport: "unix", path: this.options.socket });
    const connection = new DaemonConnection(conn, () => this.log);
    this.#connections.add(connection);
    return connection;
  }

  /** One request, one answer. */
  call(op: string, args: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    return this.#first!.call(op, args);
  }

  /** SIGKILL, as a crash would end it. */
  async kill(): Promise<void> {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // It has ended.
    }
    await this.#exited;
    this.#hangUp();
  }

  /** Asks it to stop, and returns its exit code. */
  async stop(): Promise<number> {
    this.#child.kill("SIGTERM");
    const status = await this.#exited;
    this.#hangUp();
    return status.code;
  }

  #hangUp(): void {
    for (const connection of this.#connections) connection.close();
  }

  async #listen(): Promise<void> {
    for await (const chunk of this.#child.stderr.pipeThrough(new TextDecoderStream())) {
      this.log = (this.log + chunk).slice(-16_384);
    }
  }
}

/** A connection to a daemon, for one call at a time. */
export class DaemonConnection {
  readonly #conn: Deno.Conn;
  readonly #lines: AsyncGenerator<string>;
  readonly #log: () => string;

  /** Takes over `conn`; `log` gives the end of the daemon's log. */
  constructor(conn: Deno.Conn, log: () => string) {
    this.#conn = conn;
    this.#lines = lines(conn);
    this.#log = log;
  }

  /** One request, one answer. */
  async call(op: string, args: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    const request = new TextEncoder().encode(JSON.stringify({ op, ...args }) + "\n");
    try {
      for (let written = 0; written < request.length;) written += await this.#conn.write(request.subarray(written));
    } catch (error) {
      throw new AnswerError(op, "disconnected", `${(error as Error).message}\n${this.#log()}`);
    }
    const next = await this.#lines.next();
    if (next.done) throw new AnswerError(op, "disconnected", `the daemon hung up\n${this.#log()}`);
    const answer = JSON.parse(next.value) as Record<string, unknown>;
    if (answer.ok !== true) throw new AnswerError(op, String(answer.code), String(answer.error));
    return answer;
  }

  /** Hangs up. */
  close(): void {
    try {
      this.#conn.close();
    } catch {
      // The other end did already.
    }
  }
}

async function* lines(conn: Deno.Conn): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const buffer = new Uint8Array(65_536);
  let rest = "";
  for (;;) {
    const count = await conn.read(buffer).catch(() => null);
    if (count === null) return;
    const parts = (rest + decoder.decode(buffer.subarray(0, count), { stream: true })).split("\n");
    rest = parts.pop()!;
    yield* parts;
  }
}
