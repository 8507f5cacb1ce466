/**
 * All that queries answer about a database, read by other statements than the comparison's.
 */

import { DatabaseSync } from "node:sqlite";
import { quoted } from "./_databases.ts";

export interface ObservedTable {
  kind: string;
  columns: string;
  definition: string;
  /** Every row with its rowid, where that can be asked for: sorted. */
  rows: string[];
  with_rowid: boolean;
  /** The scan ended early. */
  damaged: boolean;
  /** Answers that go through an index, or through a rowid. */
  through: Record<string, string>;
  /** Values that are computed. */
  computed: string;
}

export interface Observed {
  settings: Record<string, string>;
  schema: string[];
  trigger_order: string;
  tables: Map<string, ObservedTable>;
  views: Record<string, string>;
}

const SETTINGS = [
  ..."user_version application_id encoding page_size auto_vacuum schema_version default_cache_size".split(" "),
];

type Row = unknown[];

function shown(value: unknown): string {
  if (value instanceof Uint8Array) return `x${value.toHex()}`;
  if (Object.is(value, -0)) return "-0.0";
  return `${typeof value} ${value}`;
}

/** Everything, or undefined of a file that SQLite cannot open. */
export function observe(path: string): Observed | undefined {
  const db = new DatabaseSync(path, { readOnly: true, readBigInts: true, returnArrays: true } as object);
  try {
    db.exec("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON");
    const all = (sql: string, ...parameters: string[]) => db.prepare(sql).all(...parameters) as unknown as Row[];
    const answer = (sql: string) => {
      try {
        return all(sql).map((row) => row.map(shown).join("|")).join("\n");
      } catch (error) {
        return `error ${(error as Error).message}`;
      }
    };
    const text = (column: string) => `typeof(${column}), hex(CAST(${column} AS BLOB))`;
    const entry = ["type", "name", "tbl_name", "sql"].map(text).join(", ");
    const schema = all(`SELECT ${entry} FROM sqlite_schema`).map((row) => row.join("|")).sort();
    const tables = new Map<string, ObservedTable>();
    const names = all(
      "SELECT name, type FROM pragma_table_list WHERE schema='main' AND type<>'view' AND name<>'sqlite_schema'",
    );
    for (const [name, kind] of names as string[][]) tables.set(name!, observeTable(all, answer, name!, kind!));
    const views = all("SELECT name FROM sqlite_schema WHERE type = 'view'").map(([name]) => String(name));
    return {
      settings: Object.fromEntries(SETTINGS.map((name) => [name, answer(`PRAGMA ${name}`)])),
      schema,
      trigger_order: answer("SELECT name FROM sqlite_schema WHERE type = 'trigger'"),
      tables,
      views: Object.fromEntries(views.map((name) => [name, answer(`SELECT * FROM ${quoted(name)}`)])),
    };
  } catch {
    return undefined;
  } finally {
    db.close();
  }
}

function observeTable(
  all: (sql: string, ...parameters: string[]) => Row[],
  answer: (sql: string) => string,
  name: string,
  kind: string,
): ObservedTable {
  const table = `main.${quoted(name)}`;
  let columns: Row[] = [];
  try {
    columns = all("SELECT name, hidden, type FROM pragma_table_xinfo(?) ORDER BY cid", name);
  } catch {
    // A module that does not exist.
  }
  const stored = columns.filter(([, hidden]) => hidden === 0n || hidden === 3n).map(([column]) => String(column));
  const computed = columns.filter(([, hidden]) => hidden === 2n).map(([column]) => quoted(String(column)));
  const value = (column: string) => {
    const c = quoted(column);
    return `typeof(${c}), CASE typeof(${c}) WHEN 'real' THEN ${c} ELSE hex(CAST(${c} AS BLOB)) END`;
  };
  const values = stored.map(value).join(", ") || "1";
  const taken = new Set(columns.map(([column]) => String(column).toLowerCase()));
  const rowid = ["rowid", "_rowid_", "oid"].find((word) => !taken.has(word));
  const [definition] = all("SELECT hex(sql) FROM sqlite_schema WHERE type = 'table' AND name = ?", name);
  const observed: ObservedTable = {
    kind,
    columns: columns.map((column) => column.join(" ")).join(", "),
    definition: String(definition?.[0]),
    rows: [],
    with_rowid: false,
    damaged: false,
    through: {},
    computed: computed.length === 0 ? "" : answer(`SELECT ${computed} FROM ${table}`),
  };
  const [keyed] = kind === "virtual" ? [] : all(
    "SELECT i.name FROM pragma_table_list AS t, pragma_index_list(t.name) AS i WHERE t.name = ? AND t.wr = 1 AND i.origin = 'pk'",
    name,
  );
  const of_key = keyed === undefined ? " NOT INDEXED" : ` INDEXED BY ${quoted(String(keyed[0]))}`;
  const not_indexed = kind === "virtual" ? "" : of_key;
  const scan = (first: string) =>
    all(`SELECT ${first}, ${values} FROM ${table}${not_indexed}`).map((row) => row.map(shown).join("|"));
  let with_rowid = rowid !== undefined;
  try {
    observed.rows = scan(rowid ?? "0");
  } catch (error) {
    try {
      if (!/no such column/.test((error as Error).message)) throw error;
      with_rowid = false;
      observed.rows = scan("0");
    } catch {
      observed.damaged = true;
    }
  }
  observed.rows.sort();
  if (kind === "virtual") {
    observed.through.match = answer(`SELECT rowid FROM ${table} WHERE ${table} MATCH 'one'`);
    return observed;
  }
  observed.with_rowid = with_rowid;
  if (with_rowid) {
    observed.through.rowid = answer(
      `SELECT count(*) FROM ${table} AS x WHERE EXISTS (SELECT 1 FROM ${table} AS y NOT INDEXED WHERE y.${rowid} = x.${rowid})`,
    );
  }
  const indexes = all("SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?", name);
  for (const index of indexes.map(([index]) => String(index))) {
    const keys = all("SELECT name FROM pragma_index_info(?)", index).map(([column]) => column);
    const key = keys[0] === null || keys[0] === undefined ? "1" : quoted(String(keys[0]));
    observed.through[index] = answer(
      `SELECT count(*), group_concat(hex(k), ',') FROM (SELECT ${key} AS k FROM ${table} INDEXED BY ${
        quoted(index)
      } ORDER BY ${key})`,
    );
  }
  return observed;
}
