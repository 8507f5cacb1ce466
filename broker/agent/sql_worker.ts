/**
 * The thread in which the built-in agent's statements run. SQLite cannot be interrupted from JavaScript, but a thread
 * that does not answer can be abandoned.
 *
 * The process may read neither this file nor any other of the program: the thread starts from the module's text, which
 * is part of the program, and so imports nothing but what Deno itself brings.
 *
 * The database may be whatever earlier statements made of it. So its schema is not trusted, nothing is kept in files but
 * the database with its log, and no statement reaches another one.
 */

import { DatabaseSync } from "node:sqlite";

export interface SqlRequest {
  path: string;
  sql: string;
  /** Rows of the last statement to return. */
  max_rows: number;
  /** UTF-16 units of a value to return. */
  max_value_length: number;
  max_memory_bytes: number;
}

export type SqlAnswer =
  | {
    ok: true;
    statements: number;
    changes: number;
    /** Of the last statement, when it returns rows; values as JSON text. */
    rows?: { columns: string[]; values: string[][]; more: boolean };
  }
  /** `done`: statements before the one that failed. */
  | { ok: false; message: string; done: number };

type Values = (null | bigint | number | string | Uint8Array)[];
type Statement = { columns(): { name: string }[]; all(): Values[]; run(): void };
/** The part of node:sqlite that is used here; its types lack setAuthorizer and rows as arrays. */
type Connection = {
  prepare(sql: string): Statement & { readonly sourceSQL: string };
  exec(sql: string): void;
  setAuthorizer(callback: (action: number, a: string | null, b: string | null) => number): void;
  close(): void;
};

// Codes of https://sqlite.org/c3ref/c_alter_table.html.
const [PRAGMA, ATTACH, DETACH, FUNCTION] = [19, 24, 25, 31];
const [SQLITE_OK, SQLITE_DENY] = [0, 1];
/** Pragmas that inspect a schema or set up one connection: none reaches another file or damages the database. */
const PRAGMAS = new Set(
  ("table_info table_xinfo table_list index_list index_info index_xinfo foreign_key_list foreign_key_check " +
    "foreign_keys defer_foreign_keys recursive_triggers integrity_check quick_check user_version application_id " +
    "data_version encoding page_count page_size freelist_count legacy_alter_table optimize").split(" "),
);
const BUSY_MS = 5_000;

function isAllowed(action: number, a: string | null, b: string | null): boolean {
  // VACUUM and VACUUM INTO attach the file that they write, and so are denied too.
  if (action === ATTACH || action === DETACH) return false;
  if (action === FUNCTION) return b?.toLowerCase() !== "load_extension";
  return action !== PRAGMA || PRAGMAS.has((a ?? "").toLowerCase());
}

/** `sql` from its first statement on: preparing blanks and comments alone makes Deno crash. */
function trimStart(sql: string): string {
  for (;;) {
    const rest = sql.replace(/^(?:[\s;\uFEFF]+|--[^\n]*(?:\n|$)|\/\*[^]*?(?:\*\/|$))/, "");
    if (rest === sql) return sql;
    sql = rest;
  }
}

function rowsOf(db: Connection, text: string, limit: number): Values[] {
  let limited: Statement;
  try {
    limited = db.prepare(`SELECT * FROM (${text.replace(/;\s*$/, "")}\n) LIMIT ${limit}`);
  } catch {
    // A PRAGMA, EXPLAIN or RETURNING is no subquery.
    return db.prepare(text).all();
  }
  return limited.all();
}

function formatValue(value: Values[number], max_length: number): string {
  if (value === null) return "null";
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number") return JSON.stringify(value) ?? "null";
  const cut = (length: number) => length > max_length ? ` [cut: ${length} in all]` : "";
  if (typeof value === "string") return JSON.stringify(value.slice(0, max_length)) + cut(value.length);
  return `x'${value.subarray(0, max_length >> 1).toHex()}'${cut(value.length * 2)}`;
}

function run(db: Connection, { sql, max_rows, max_value_length }: SqlRequest): SqlAnswer {
  let done = 0;
  const changed = () => Number(db.prepare("SELECT total_changes()").all()[0]![0]);
  const before = changed();
  let rows: (SqlAnswer & { ok: true })["rows"];
  try {
    for (let rest = trimStart(sql); rest !== "";) {
      const statement = db.prepare(rest);
      const text = statement.sourceSQL;
      rows = undefined;
      const columns = statement.columns().map(({ name }) => name);
      if (columns.length === 0) statement.run();
      else {
        const all = rowsOf(db, text, max_rows + 1);
        rows = {
          columns,
          values: all.slice(0, max_rows).map((row) => row.map((value) => formatValue(value, max_value_length))),
          more: all.length > max_rows,
        };
      }
      done++;
      rest = trimStart(rest.slice(text.length));
    }
    return { ok: true, statements: done, changes: changed() - before, ...(rows === undefined ? {} : { rows }) };
  } catch (error) {
    return { ok: false, message: messageOf(error), done };
  }
}

function rollBack(db: Connection): boolean {
  try {
    db.exec("ROLLBACK");
    return true;
  } catch {
    return false;
  }
}

function answer(request: SqlRequest): SqlAnswer {
  let db: Connection | undefined;
  try {
    const options = { timeout: BUSY_MS, readBigInts: true, returnArrays: true, defensive: true, allowExtension: false };
    db = new DatabaseSync(request.path, options) as unknown as Connection;
    db.exec(`PRAGMA hard_heap_limit=${request.max_memory_bytes}; PRAGMA trusted_schema=OFF; PRAGMA temp_store=MEMORY`);
    // An abandoned transaction then stays in the log, of which SQLite never reads a part.
    db.exec("PRAGMA journal_mode=WAL; PRAGMA foreign_keys=ON");
    db.setAuthorizer((action, a, b) => isAllowed(action, a, b) ? SQLITE_OK : SQLITE_DENY);
    const result = run(db, request);
    if (!rollBack(db) || !result.ok) return result;
    return {
      ok: false,
      message: "a transaction was left open and is rolled back: COMMIT it in the same call",
      done: 0,
    };
  } catch (error) {
    return { ok: false, message: messageOf(error), done: 0 };
  } finally {
    db?.close();
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const scope = globalThis as unknown as {
  onmessage: (event: { data: SqlRequest }) => void;
  postMessage(answer: SqlAnswer): void;
};
scope.onmessage = ({ data }) => scope.postMessage(answer(data));
