/**
 * A stock SQLite client in a process of its own: the sqlite3 shell, or else Python's
 * sqlite3 module. Statements go in, one to a line; rows come out, columns joined by `|`.
 *
 * To the store it is what any application is: another process that has the checkout open.
 */

import { TaskdError } from "../../lib/errors.ts";

export interface SqlProgram {
  name: string;
  command(path: string): string[];
  /** Ends its clients at once. */
  signal?: AbortSignal;
}

// The shell speaks statements and rows already; this teaches Python to, and to stop at the first error.
const PYTHON = `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
for line in sys.stdin:
    for row in db.execute(line):
        print("|".join("" if value is None else str(value) for value in row))
    sys.stdout.flush()
`;

const PROGRAMS: readonly SqlProgram[] = [
  { name: "sqlite3", command: (path) => ["sqlite3", "-batch", "-bail", path] },
  { name: "python3", command: (path) => ["python3", "-c", PYTHON, path] },
];

/** The first client that this machine has; `signal` ends all its clients at once. */
export async function findSqlProgram(signal?: AbortSignal): Promise<SqlProgram> {
  for (const found of PROGRAMS) {
    const program = signal === undefined ? found : { ...found, signal };
    const [first, second] = await runSql(program, ":memory:", ["SELECT sqlite_version()"]).catch(() => []);
    if (first !== undefined && second === undefined) return program;
  }
  const message = "Cannot write to a database as an application would: no SQLite client is installed";
  throw new TaskdError("not_found", message, { hint: "Install the sqlite3 shell or Python 3" });
}

/** Runs statements to their end; answers the rows. An error in any of them is thrown. */
export async function runSql(program: SqlProgram, path: string, statements: readonly string[]): Promise<string[]> {
  await using client = SqlClient.start(program, path);
  client.send(statements);
  const rows: string[] = [];
  for await (const row of client.end()) rows.push(row);
  return rows;
}

export class SqlClient implements AsyncDisposable {
  readonly #name: string;
  readonly #child: Deno.ChildProcess;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;
  readonly #rows: AsyncIterableIterator<string>;
  readonly #complaints: Promise<string>;
  #sent: Promise<void> = Promise.resolve();

  private constructor(program: SqlProgram, child: Deno.ChildProcess) {
    this.#name = program.name;
    this.#child = child;
    this.#input = child.stdin.getWriter();
    this.#rows = lines(child.stdout);
    this.#complaints = new Response(child.stderr).text();
  }

  static start(program: SqlProgram, path: string): SqlClient {
    const [name, ...args] = program.command(path);
    const signal = program.signal === undefined ? {} : { signal: program.signal };
    const options = { args, stdin: "piped", stdout: "piped", stderr: "piped", ...signal } as const;
    return new SqlClient(program, new Deno.Command(name!, options).spawn());
  }

  /** Sends statements; they run in order. A client that has failed says so when its rows are read. */
  send(statements: readonly string[]): void {
    const text = statements.map((statement) => statement.replaceAll(/\s+/g, " ").trim() + ";\n").join("");
    const bytes = new TextEncoder().encode(text);
    this.#sent = this.#sent.then(() => this.#input.write(bytes)).catch(() => {});
  }

  /** The next row; throws when the client ended instead. */
  async row(): Promise<string> {
    const next = await this.#rows.next();
    if (!next.done) return next.value;
    throw await this.#failure();
  }

  /** Lets it finish: the rows that are left. Throws if it failed. */
  async *end(): AsyncIterableIterator<string> {
    await this.#sent;
    await this.#input.close().catch(() => {});
    yield* this.#rows;
    if (!(await this.#child.status).success) throw await this.#failure();
  }

  /** Ends it at once if it is still there. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // It has ended.
    }
    await this.#input.abort().catch(() => {});
    await this.#rows.return?.();
    await Promise.all([this.#child.status, this.#complaints]);
  }

  async #failure(): Promise<TaskdError> {
    const complaint = (await this.#complaints).trim().split("\n").at(-1);
    return new TaskdError("internal", `${this.#name} failed: ${complaint || "it ended early"}`);
  }
}

async function* lines(stream: ReadableStream<Uint8Array>): AsyncIterableIterator<string> {
  let rest = "";
  for await (const chunk of stream.pipeThrough(new TextDecoderStream())) {
    const parts = (rest + chunk).split("\n");
    rest = parts.pop()!;
    yield* parts;
  }
}
