/**
 * The databases of a task, for the built-in agent: SQL on copies of branches, bounded in rows, bytes, memory and time.
 * A statement can reach nothing but its database: no other file is attached, no extension loaded, and of the pragmas
 * only those are allowed that read, or set up the connection.
 *
 * A database is opened only where all its files are plain ones and no journal is to be replayed. Between that look and
 * SQLite's own nothing comes: calls are done one after the other, those for files reach another folder, and no statement
 * writes a file of its choice.
 */

import { stripTypeScriptTypes } from "node:module";
import type { Clock } from "../../lib/clock.ts";
import { lstatIfPresent } from "../../lib/fs.ts";
import { isHotJournal } from "../../lib/sqlite/hot_journal.ts";
import type { ToolAnswer } from "./calls.ts";
import type { AgentDatabase } from "./config.ts";
import sql_worker from "./sql_worker.ts" with { type: "text" };
import type { SqlAnswer, SqlRequest } from "./sql_worker.ts";
import { ToolError } from "./work_tree.ts";
import { plural } from "../../lib/text/plural.ts";

const MAX_ROWS = 200;
/** The longest value that is shown, in UTF-16 units. */
const MAX_VALUE_LENGTH = 1_000;
/** The longest call, in UTF-16 units. */
const MAX_SQL_LENGTH = 1 << 20;
/** What SQLite may allocate: in all of the process, and never more again while it lives. */
const MAX_MEMORY_BYTES = 256 << 20;
const SQL_MS = 60_000;

type SqlResult = Pick<ToolAnswer, "text" | "summary">;

export class AgentDatabases {
  readonly #databases: ReadonlyMap<string, string>;
  readonly #clock: Clock;
  readonly #max_memory_bytes: number;
  /** Those with an abandoned statement, which may hold the database's lock. */
  readonly #stuck = new Set<string>();
  #module: string | undefined;

  /** Of files that only this process uses. SQLite's memory limit is the process's: a test that shares one raises it. */
  constructor(databases: readonly AgentDatabase[], clock: Clock, max_memory_bytes: number = MAX_MEMORY_BYTES) {
    this.#max_memory_bytes = max_memory_bytes;
    this.#databases = new Map(databases.map(({ name, path }) => [name, path]));
    this.#clock = clock;
  }

  get names(): string[] {
    return [...this.#databases.keys()];
  }

  /** @throws {ToolError} What is wrong with the statements, for the model. */
  async run(name: string, sql: string): Promise<SqlResult> {
    const path = this.#databases.get(name);
    if (path === undefined) {
      throw new ToolError(
        `There is no database ${JSON.stringify(name.slice(0, 64))}; use ${
          this.names.join(", ") || "none, there is none"
        }`,
      );
    }
    if (sql.length > MAX_SQL_LENGTH) throw new ToolError(`The SQL has more than ${MAX_SQL_LENGTH} characters`);
    if (sql.includes("\0")) throw new ToolError("The SQL has a NUL character");
    if (this.#stuck.has(name)) {
      throw new ToolError(`The database ${name} is still busy with a statement that took too long; do without it`);
    }
    await requireSafe(name, path);
    const answer = await this.#ask(name, {
      path,
      sql,
      max_rows: MAX_ROWS,
      max_value_length: MAX_VALUE_LENGTH,
      max_memory_bytes: this.#max_memory_bytes,
    });
    if (!answer.ok) {
      const before = answer.done === 0 ? "" : `; done before it: ${plural(answer.done, "statement")}`;
      throw new ToolError(`SQLite says: ${answer.message}${before}`);
    }
    return inWords(name, answer);
  }

  async #ask(name: string, request: SqlRequest): Promise<SqlAnswer> {
    const source = () => new Blob([stripTypeScriptTypes(sql_worker)], { type: "text/javascript" });
    const worker = new Worker(this.#module ??= URL.createObjectURL(source()), { type: "module" });
    const over = new AbortController();
    const { promise, resolve } = Promise.withResolvers<SqlAnswer>();
    worker.onmessage = ({ data }: MessageEvent<SqlAnswer>) => resolve(data);
    worker.onerror = (event) => {
      event.preventDefault();
      resolve({ ok: false, message: event.message, done: 0 });
    };
    const late = this.#clock.sleep(SQL_MS, over.signal).then(
      () => {
        this.#stuck.add(name);
        resolve({ ok: false, message: `it did not end within ${SQL_MS / 1_000} seconds`, done: 0 });
      },
      () => {},
    );
    worker.postMessage(request);
    const answer = await promise;
    over.abort();
    await late;
    worker.terminate();
    return answer;
  }
}

/** Refuses what would lead SQLite to another file: a link, a second name, a journal that names one. */
async function requireSafe(name: string, path: string): Promise<void> {
  for (const file of [path, `${path}-wal`, `${path}-shm`]) {
    const info = lstatIfPresent(file);
    if (info === undefined && file !== path) continue;
    if (!info?.isFile || info.nlink !== 1) throw new ToolError(`The database ${name} is no longer a plain file`);
  }
  if (await isHotJournal(`${path}-journal`)) {
    throw new ToolError(`The database ${name} was left in the middle of a transaction; do without it`);
  }
}

function inWords(name: string, { statements, changes, rows }: SqlAnswer & { ok: true }): SqlResult {
  const changed = `${plural(statements, "statement")}, ${plural(changes, "row")} changed`;
  if (rows === undefined) return { text: `done: ${changed}`, summary: `${name}: ${changed}` };
  const { columns, values, more } = rows;
  const lines = [columns.join(" | "), ...values.map((row) => row.join(" | "))];
  if (more) lines.push(`(only the first ${plural(values.length, "row")} shown)`);
  const found = more ? `${values.length} or more rows` : plural(values.length, "row");
  return { text: [found, ...lines].join("\n"), summary: `${name}: ${changes > 0 ? `${changed}, ` : ""}${found}` };
}
