/**
 * An application beside the operations under test: one connection of Python's sqlite3, that runs what it is given and
 * stays as it is in between, with the locks that it then has.
 */

const APPLICATION = `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=5)
for line in sys.stdin:
    for statement in line.split(";"):
        db.execute(statement).fetchall()
    print("done", flush=True)
`;

/** The process. */
export class Application {
  readonly #child: Deno.ChildProcess;
  readonly #in: WritableStreamDefaultWriter<Uint8Array>;
  readonly #out: ReadableStreamDefaultReader<Uint8Array>;

  /** Opens the database at `path`. */
  constructor(path: string) {
    this.#child = new Deno.Command("python3", {
      args: ["-c", APPLICATION, path],
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    this.#in = this.#child.stdin.getWriter();
    this.#out = this.#child.stdout.getReader();
  }

  /** Its id, as messages name it. */
  get pid(): number {
    return this.#child.pid;
  }

  /** Runs statements, separated by semicolons; resolves when they are done. */
  async run(statements: string): Promise<void> {
    await this.#in.write(new TextEncoder().encode(`${statements}\n`));
    for (let text = ""; !text.endsWith("\n");) text += new TextDecoder().decode((await this.#out.read()).value);
  }

  /** Closes the connection and ends the process. */
  async end(): Promise<void> {
    await this.#in.close();
    await this.#out.cancel();
    await this.#child.status;
  }
}
