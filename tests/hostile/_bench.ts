/**
 * The bench that hostile tests work on: a store in a temporary directory, operations that
 * run in a child process (so that a FIFO or a lock can block only the child), and an audit
 * that proves afterwards that nothing was lost or left half done.
 */

import { assert, assertEquals } from "@std/assert";
import { createHash } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import type { ErrorCode } from "../../lib/errors.ts";
import { ERROR_CODES } from "../../lib/errors.ts";
import { parseAddress } from "../../lib/store/names.ts";
import { sqlite3Write } from "../support/writers/oracle.ts";
import type { Answer } from "./_child.ts";
import { textLines } from "../support/text_lines.ts";

/** An operation may take this long before it counts as hung; far above what any needs. */
const HANG_MS = 60_000;

const CHILD = new URL("./_child.ts", import.meta.url).pathname;

/** A child process that runs operations on one store. */
export class Operator {
  readonly #child: Deno.ChildProcess;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;
  readonly #lines: AsyncGenerator<string>;
  #ended = false;

  /** Starts it; `kill_at` is `<backend call>:<before|after>`. */
  constructor(location: string, kill_at?: string) {
    this.#child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-prompt", "--quiet", CHILD, location, ...(kill_at === undefined ? [] : [kill_at])],
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    this.#input = this.#child.stdin.getWriter();
    this.#lines = textLines(this.#child.stdout);
  }

  /** Runs `op`; undefined when the process died before it answered. */
  async run(op: string, ...args: unknown[]): Promise<Answer | undefined> {
    const hung = setTimeout(() => this.#child.kill("SIGKILL"), HANG_MS);
    try {
      await this.#input.write(new TextEncoder().encode(JSON.stringify({ op, args }) + "\n"));
      const next = await this.#lines.next();
      return next.done ? undefined : JSON.parse(next.value) as Answer;
    } catch {
      return undefined;
    } finally {
      clearTimeout(hung);
    }
  }

  /** Runs `op`, which must succeed. */
  async ok(op: string, ...args: unknown[]): Promise<Record<string, unknown>> {
    const answer = await this.run(op, ...args);
    assert(answer !== undefined, `${op} did not answer`);
    assert(answer.ok, `${op} failed: ${JSON.stringify(answer)}`);
    return answer.value as Record<string, unknown>;
  }

  /** Runs `op`, which must fail with one of `codes`, words for a person, and no secret stack. */
  async fails(codes: ErrorCode | ErrorCode[], op: string, ...args: unknown[]): Promise<void> {
    const answer = await this.run(op, ...args);
    assert(answer !== undefined, `${op} hung or died`);
    assert(!answer.ok, `${op} succeeded: ${JSON.stringify(answer)}`);
    const expected = [codes].flat() as string[];
    assert(answer.code in ERROR_CODES, `${op}: ${answer.code}: ${answer.message}`);
    assert(expected.includes(answer.code), `${op}: expected ${expected}, got ${answer.code}: ${answer.message}`);
    assert(answer.message.length > 10 && !/\n\s+at /.test(answer.message), answer.message);
  }

  /** SIGKILL. */
  async kill(): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // It has died already.
    }
    for await (const _ of this.#lines) { /* drained */ }
    await this.#child.status;
    await this.#input.abort().catch(() => {});
  }

  /** A normal end. */
  async end(): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    await this.#input.close().catch(() => {});
    for await (const _ of this.#lines) { /* drained */ }
    await this.#child.status;
  }
}

/** A store to be mistreated. */
export class Bench implements AsyncDisposable {
  /** Temporary directory of everything. */
  readonly directory: string;
  /** The store's location. */
  readonly location: string;
  /** What each address must hold, as {@linkcode contentOf} returns it. */
  readonly expected = new Map<string, string>();
  #operators: Operator[] = [];
  #files = 0;

  private constructor(directory: string, location: string) {
    this.directory = directory;
    this.location = location;
  }

  /** Makes an empty one; `location` when the store is to lie elsewhere, for example on a small disk. */
  static async make(location?: string): Promise<Bench> {
    const directory = await Deno.makeTempDir({ prefix: "hostile-" });
    return new Bench(directory, location ?? `${directory}/store`);
  }

  /** A new child process on the store. */
  operator(kill_at?: string): Operator {
    const operator = new Operator(this.location, kill_at);
    this.#operators.push(operator);
    return operator;
  }

  /** A new path for a file of the test's own. */
  file(name = "file"): string {
    return `${this.directory}/${name}-${this.#files++}.db`;
  }

  /** A database with `rows` rows of about 100 bytes, made by the stock shell. */
  async database(options: { rows?: number; page_size?: number; pragmas?: string } = {}): Promise<string> {
    const path = this.file("source");
    await sqlite3Write(
      path,
      `PRAGMA page_size=${options.page_size ?? 4096}; ${options.pragmas ?? ""};
       CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT);
       WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${options.rows ?? 200})
       INSERT INTO t SELECT i, printf('%0100d', i) FROM n;`,
    );
    return path;
  }

  /** Notes that `address` holds what it holds now. */
  async expect(operator: Operator, address: string): Promise<void> {
    this.expected.set(address, await this.read(operator, address));
  }

  /** The content of `address`, read through an export. */
  async read(operator: Operator, address: string): Promise<string> {
    const file = this.file("export");
    await operator.ok("export", parseAddress(address), file);
    const content = contentOf(file);
    await Deno.remove(file);
    return content;
  }

  /** A new process finds every expected address intact, and no others than those and `also`. */
  async audit(also: string[] = []): Promise<void> {
    const operator = this.operator();
    const listed = await operator.ok("branches") as unknown as { db: string; branch: string }[];
    const found = listed.map(({ db, branch }) => `${db}@${branch}`);
    const branches = [...this.expected.keys()].filter((address) => address.split("@").length === 2);
    assertEquals(branches.filter((address) => !found.includes(address)), [], "branches are missing");
    assertEquals(
      found.filter((address) => !branches.includes(address) && !also.includes(address)),
      [],
      "branches too many",
    );
    for (const [address, content] of this.expected) {
      assertEquals(await this.read(operator, address), content, address);
      const verified = await operator.ok("verify", parseAddress(address));
      assertEquals(verified.problems, [], address);
    }
    await operator.end();
  }

  /** Ends the children and removes the files. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const operator of this.#operators) await operator.kill();
    await Deno.remove(this.directory, { recursive: true });
  }
}

/** SHA-256 over schema and rows of all tables of a database file that no other process uses; its integrity is checked first. */
export function contentOf(path: string): string {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    assertEquals(database.prepare("PRAGMA integrity_check").get()?.integrity_check, "ok");
    const hash = createHash("sha256");
    const schema = database.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").all();
    hash.update(JSON.stringify(schema));
    for (const { type, name } of schema) {
      if (type !== "table" || String(name).startsWith("sqlite_")) continue;
      const rows = database.prepare(`SELECT * FROM "${name}" ORDER BY 1`);
      for (const row of rows.iterate()) hash.update(JSON.stringify(row));
    }
    return hash.digest("hex");
  } finally {
    database.close();
  }
}
