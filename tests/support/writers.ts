/**
 * Stock SQLite clients in processes of their own: the sqlite3 shell, Python's sqlite3
 * module and node:sqlite. Each acknowledges a commit by a line on stdout after it, so
 * when one is killed the set of commits it was promised is known.
 */

import { BUSY_TIMEOUT_MS, type Job } from "./writers/workload.ts";

/** The clients there are. */
export const WRITER_KINDS = ["shell", "python", "node_sqlite"] as const;
/** A client. */
export type WriterKind = typeof WRITER_KINDS[number];

/** Result of a job. */
export interface Outcome {
  /** `lost`: the process ended before it answered; the commit may have happened or not. */
  result: "ack" | "busy" | "error" | "lost";
  /** The client's message, for `busy` and `error`. */
  text: string;
}

/** One writing process. */
export class Writer {
  /** Which client it is. */
  readonly kind: WriterKind;
  /** Sequence numbers of the transactions whose commit was acknowledged. */
  readonly acknowledged: number[] = [];
  /** What it wrote to stderr, the last few kilobytes. */
  complaints = "";
  #child: Deno.ChildProcess;
  #input: WritableStreamDefaultWriter<Uint8Array>;
  #waiting = new Map<number, { job: Job; settle: (outcome: Outcome) => void }>();
  #ready = Promise.withResolvers<void>();
  #done: Promise<void>;

  private constructor(kind: WriterKind, child: Deno.ChildProcess) {
    this.kind = kind;
    this.#child = child;
    this.#input = child.stdin.getWriter();
    this.#done = this.#read();
  }

  /** Starts a client on the database at `path`; resolves once it has the file open. */
  static async start(kind: WriterKind, path: string): Promise<Writer> {
    const [command, ...args] = COMMANDS[kind](path);
    const child = new Deno.Command(command!, { args, stdin: "piped", stdout: "piped", stderr: "piped" }).spawn();
    const writer = new Writer(kind, child);
    if (kind === "shell") {
      await writer.#send(`.bail off\n.timeout ${BUSY_TIMEOUT_MS}\nPRAGMA schema_version;\nSELECT 'ready';\n`);
    }
    await writer.#ready.promise;
    return writer;
  }

  /** Sends one job; several may be under way. Never rejects: a dead process settles it as `lost`. */
  async run(job: Job): Promise<Outcome> {
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    this.#waiting.set(job.seq, { job, settle: resolve });
    await this.#send(this.kind === "shell" ? shellText(job) : JSON.stringify(job) + "\n");
    return await promise;
  }

  /** Ends it as a crash would, and waits until it is gone. */
  async kill(): Promise<void> {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // It has ended.
    }
    await this.#done;
  }

  /** Lets it finish what it was given, close its connections and exit. */
  async end(): Promise<void> {
    await this.#input.close().catch(() => {});
    await this.#done;
  }

  async #send(text: string): Promise<void> {
    try {
      await this.#input.write(new TextEncoder().encode(text));
    } catch {
      // The process is gone; its end settles what was waiting.
    }
  }

  async #read(): Promise<void> {
    const complaining = this.#listen();
    let rest = "";
    for await (const chunk of this.#child.stdout.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop()!;
      for (const line of lines) this.#take(line);
    }
    await complaining;
    await this.#child.status;
    for (const { settle } of this.#waiting.values()) settle({ result: "lost", text: "" });
    this.#waiting.clear();
    this.#ready.resolve();
    this.#input.releaseLock();
  }

  async #listen(): Promise<void> {
    for await (const chunk of this.#child.stderr.pipeThrough(new TextDecoderStream())) {
      this.complaints = (this.complaints + chunk).slice(-4096);
    }
  }

  #take(line: string): void {
    if (line === "ready") return this.#ready.resolve();
    const match = /^(ack|busy|error) (\d+) ?(.*)$/.exec(line);
    if (match === null) return;
    const seq = Number(match[2]);
    const waiting = this.#waiting.get(seq);
    if (waiting === undefined) return;
    this.#waiting.delete(seq);
    if (match[1] === "ack" && waiting.job.kind === "transaction") this.acknowledged.push(seq);
    waiting.settle({ result: match[1] as Outcome["result"], text: match[3]! });
  }
}

const COMMANDS: Record<WriterKind, (path: string) => string[]> = {
  shell: (path) => ["sqlite3", "-batch", path],
  python: (path) => ["python3", script("python_writer.py"), path, String(BUSY_TIMEOUT_MS)],
  node_sqlite: (path) => [
    Deno.execPath(),
    "run",
    "-A",
    "--no-prompt",
    "--quiet",
    script("deno_writer.ts"),
    path,
    String(BUSY_TIMEOUT_MS),
  ],
};

function script(name: string): string {
  return new URL(`./writers/${name}`, import.meta.url).pathname;
}

/**
 * A job as the shell reads it. The shell has no conditions, so the answer is computed
 * by SQL itself: the transaction's own row in `ack` is there after COMMIT or it is not.
 */
function shellText(job: Job): string {
  if (job.kind === "reader") return `SELECT 'ack ${job.seq}';\n`;
  if (job.kind === "plain") return `${job.sql.join(";\n")};\nSELECT 'ack ${job.seq}';\n`;
  return `.bail on\nBEGIN IMMEDIATE;\n${job.sql.join(";\n")};\nCOMMIT;\nSELECT 'ack ${job.seq}';\n.bail off\n`;
}
