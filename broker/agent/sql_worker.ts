/**
 * The thread in which the built-in agent's statements run: SQLite cannot be interrupted from JavaScript, a thread that
 * does not answer can be left behind.
 *
 * The thread is made from the text of {@linkcode serveSql}, because a module of its own would have to be readable for
 * the sandboxed process, wherever the program was installed from. So the function uses nothing but its parameters.
 *
 * @module
 */

/** Statements for one database, and what of their answer is wanted. */
export interface SqlRequest {
  /** Absolute path of the database. */
  path: string;
  /** One or more statements. */
  sql: string;
  /** Rows of the last statement that are shown. */
  max_rows: number;
  /** UTF-16 units of a value that are shown. */
  max_value_length: number;
  /** Bytes that SQLite may allocate. */
  max_memory_bytes: number;
}

/** What came of them. */
export type SqlAnswer =
  | {
    ok: true;
    statements: number;
    /** Rows that the statements have changed. */
    changes: number;
    /** Of the last statement, when it answers rows; values as JSON text. */
    rows?: { columns: string[]; values: string[][]; more: boolean };
  }
  /** `done`: statements before the one that failed. */
  | { ok: false; message: string; done: number };

/** The part of a worker's global object that is used. */
export interface WorkerScope {
  onmessage: ((event: { data: SqlRequest }) => void) | null;
  postMessage(answer: SqlAnswer): void;
}

/** Answers each request that comes to `scope`. Uses nothing outside of itself: see above. */
export function serveSql(scope: WorkerScope, { DatabaseSync }: typeof import("node:sqlite")): void {
  type Values = (null | bigint | number | string | Uint8Array)[];
  type Statement = { columns(): { name: string }[]; all(): Values[]; run(): { changes: bigint } };
  type Database = {
    prepare(sql: string): Statement & { readonly sourceSQL: string };
    exec(sql: string): void;
    setAuthorizer(callback: (action: number, a: string | null, b: string | null) => number): void;
    close(): void;
  };
  // Codes of https://sqlite.org/c3ref/c_alter_table.html.
  const [PRAGMA, ATTACH, DETACH, FUNCTION] = [19, 24, 25, 31];
  /** What looks at a schema, and settings of one connection: nothing that leads out of the database or damages it. */
  const PRAGMAS = new Set(
    ("table_info table_xinfo table_list index_list index_info index_xinfo foreign_key_list foreign_key_check " +
      "foreign_keys defer_foreign_keys recursive_triggers integrity_check quick_check user_version application_id " +
      "data_version encoding page_count page_size freelist_count legacy_alter_table optimize").split(" "),
  );

  function isAllowed(action: number, a: string | null, b: string | null): boolean {
    if (action === ATTACH || action === DETACH) return false;
    if (action === FUNCTION) return b?.toLowerCase() !== "load_extension";
    return action !== PRAGMA || PRAGMAS.has((a ?? "").toLowerCase());
  }

  /** Without leading blanks, comments and semicolons: of nothing, SQLite makes no statement, and Deno then crashes. */
  function trimmed(sql: string): string {
    for (;;) {
      const rest = sql.replace(/^(?:[\s;\uFEFF]+|--[^\n]*(?:\n|$)|\/\*[^]*?(?:\*\/|$))/, "");
      if (rest === sql) return sql;
      sql = rest;
    }
  }

  /** All rows, or the first ones where the statement can be made to answer no more. */
  function rowsOf(db: Database, text: string, limit: number): Values[] {
    let limited: Statement;
    try {
      limited = db.prepare(`SELECT * FROM (${text.replace(/;\s*$/, "")}\n) LIMIT ${limit}`);
    } catch {
      // A PRAGMA, EXPLAIN or RETURNING is no subquery.
      return db.prepare(text).all();
    }
    return limited.all();
  }

  function shown(value: Values[number], max_length: number): string {
    if (value === null) return "null";
    if (typeof value === "bigint") return String(value);
    if (typeof value === "number") return JSON.stringify(value) ?? "null";
    const cut = (length: number) => length > max_length ? ` [cut: ${length} in all]` : "";
    if (typeof value === "string") return JSON.stringify(value.slice(0, max_length)) + cut(value.length);
    const bytes = value.subarray(0, max_length >> 1);
    return `x'${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}'${cut(value.length * 2)}`;
  }

  function run(db: Database, { sql, max_rows, max_value_length }: SqlRequest): SqlAnswer {
    let done = 0;
    let changes = 0;
    let rows: (SqlAnswer & { ok: true })["rows"];
    try {
      for (let rest = trimmed(sql); rest !== "";) {
        const statement = db.prepare(rest);
        const text = statement.sourceSQL;
        rows = undefined;
        const columns = statement.columns().map(({ name }) => name);
        if (columns.length === 0) changes += Number(statement.run().changes);
        else {
          const all = rowsOf(db, text, max_rows + 1);
          rows = {
            columns,
            values: all.slice(0, max_rows).map((row) => row.map((value) => shown(value, max_value_length))),
            more: all.length > max_rows,
          };
        }
        done++;
        rest = trimmed(rest.slice(text.length));
      }
      return { ok: true, statements: done, changes, ...(rows === undefined ? {} : { rows }) };
    } catch (error) {
      return { ok: false, message: error instanceof Error ? error.message : String(error), done };
    }
  }

  /** Rolls a transaction back that was left open; whether there was one. */
  function wasLeftOpen(db: Database): boolean {
    try {
      db.exec("ROLLBACK");
      return true;
    } catch {
      return false;
    }
  }

  function answer(request: SqlRequest): SqlAnswer {
    let db: Database | undefined;
    try {
      const options = { timeout: 5_000, readBigInts: true, returnArrays: true };
      db = new DatabaseSync(request.path, options) as unknown as Database;
      db.exec(`PRAGMA hard_heap_limit=${request.max_memory_bytes}; PRAGMA trusted_schema=OFF`);
      // What is cut off in the middle is then left in the log, which is never half of a transaction.
      db.exec("PRAGMA journal_mode=WAL; PRAGMA foreign_keys=ON");
      db.setAuthorizer((action, a, b) => isAllowed(action, a, b) ? 0 : 1);
      const result = run(db, request);
      if (!wasLeftOpen(db) || !result.ok) return result;
      return {
        ok: false,
        message: "a transaction was left open and is rolled back: COMMIT it in the same call",
        done: 0,
      };
    } catch (error) {
      return { ok: false, message: error instanceof Error ? error.message : String(error), done: 0 };
    } finally {
      db?.close();
    }
  }

  scope.onmessage = ({ data }) => scope.postMessage(answer(data));
}
