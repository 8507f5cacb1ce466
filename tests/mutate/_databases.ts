/**
 * Random databases of every kind of table and storage, and random changes to them: SQL, a schema edited by hand, bytes of
 * pages.
 */

import { DatabaseSync } from "node:sqlite";
import type { SeededRandom } from "../support/writers/random.ts";

/** Literals of every storage class, those that drivers blur among them. */
const VALUES = [
  "NULL",
  "0",
  "1",
  "-7",
  "1.0",
  "0.0",
  "-0.0",
  "2.5",
  "9e999",
  "9007199254740993",
  "-9223372036854775808",
  "''",
  "'a'",
  "'A'",
  "'é🙂'",
  "'12'",
  "x''",
  "x'00'",
  "x'61'",
  "CAST(x'610062' AS TEXT)",
  "CAST(x'ff41' AS TEXT)",
  "zeroblob(700)",
  "printf('%.*c', 900, 'w')",
  "printf('%.*c', 4000, 'x')",
] as const;

/** Columns of tables, by what is particular about them. */
const TABLES: readonly (readonly [columns: string, options: string])[] = [
  ["a, b, c", ""],
  ["a INTEGER PRIMARY KEY, b TEXT, c", ""],
  ["a INTEGER PRIMARY KEY AUTOINCREMENT, b, c REAL", ""],
  ["a TEXT PRIMARY KEY, b, c", ""],
  ["a TEXT COLLATE NOCASE PRIMARY KEY, b, c", ""],
  ["a INTEGER PRIMARY KEY DESC, b, c", ""],
  ["a, b, c, PRIMARY KEY (b, a)", ""],
  ["a, b, c, PRIMARY KEY (a, b)", "WITHOUT ROWID"],
  ["a TEXT COLLATE NOCASE, b, c, PRIMARY KEY (a DESC)", "WITHOUT ROWID"],
  ["a, b UNIQUE, c NUMERIC", ""],
  ["a INT, b, c, d AS (typeof(b)) STORED, e AS (a || c)", ""],
  ["rowid, oid, _rowid_, a, b, c", ""],
  ["rowid, a, b, c", ""],
  ["a INTEGER PRIMARY KEY, b TEXT, c INT", "STRICT"],
];

const NAMES = ["t", "users", "odd \"na'me", "x;--", "ключ", "select", "12", "a b", "T_é"] as const;

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Runs statements one by one; those that fail do nothing. */
export function run(db: DatabaseSync, ...statements: string[]): void {
  for (const sql of statements) {
    try {
      db.exec(sql);
    } catch {
      // A constraint, a definition that does not fit: another change is as good.
    }
  }
}

export function open(path: string): DatabaseSync {
  return new DatabaseSync(path, { defensive: false, enableForeignKeyConstraints: false } as object);
}

export function makeDatabase(path: string, random: SeededRandom): void {
  const db = open(path);
  run(
    db,
    `PRAGMA page_size=${random.pick([512, 1024, 4096])}`,
    `PRAGMA encoding='${random.pick(["UTF-8", "UTF-8", "UTF-16le", "UTF-16be"])}'`,
    `PRAGMA auto_vacuum=${random.pick([0, 0, 1, 2])}`,
    "PRAGMA journal_mode=memory",
    "BEGIN",
  );
  const names = [...NAMES];
  for (let i = random.between(1, 4); i > 0; i--) {
    const name = names.splice(random.between(0, names.length - 1), 1)[0]!;
    const [columns, options] = random.pick(TABLES);
    run(db, `CREATE TABLE ${quoted(name)}(${columns}) ${options}`);
    for (let rows = random.pick([0, 3, 20, 60]); rows > 0; rows--) insert(db, random, name);
    if (random.chance(0.4)) addIndex(db, random, name);
    if (random.chance(0.2)) addTrigger(db, random, name);
  }
  if (random.chance(0.2)) {
    run(db, "CREATE VIRTUAL TABLE docs USING fts5(x, y)");
    for (let i = 0; i < 6; i++) run(db, `INSERT INTO docs VALUES ('one word${i}', 'two')`);
  }
  if (random.chance(0.1)) {
    run(db, "CREATE VIRTUAL TABLE box USING rtree(id, x0, x1)", "INSERT INTO box VALUES (1, 2, 3), (2, 3, 4.5)");
  }
  if (random.chance(0.3)) run(db, `CREATE VIEW seen AS SELECT count(*) AS n, ${literal(random)} AS v`);
  if (random.chance(0.2)) run(db, "ANALYZE");
  run(db, "COMMIT");
  if (random.chance(0.3)) change(db, random);
  db.close();
}

function literal(random: SeededRandom): string {
  return random.chance(0.3)
    ? `'k${random.between(0, 99)}'`
    : random.chance(0.3)
    ? String(random.between(-5, 90))
    : random.pick(VALUES);
}

/** Ordinary tables of the application's. */
function tables(db: DatabaseSync): string[] {
  return db.prepare(
    "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite%'",
  ).all().map(({ name }) => String(name));
}

function columnsOf(db: DatabaseSync, table: string): string[] {
  return db.prepare("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0").all(table).map(({ name }) =>
    String(name)
  );
}

function insert(db: DatabaseSync, random: SeededRandom, table: string): void {
  const columns = columnsOf(db, table);
  run(
    db,
    `INSERT INTO ${quoted(table)}(${columns.map(quoted)}) VALUES (${columns.map(() => literal(random))})`,
  );
}

function addIndex(db: DatabaseSync, random: SeededRandom, table: string): void {
  const column = quoted(random.pick(columnsOf(db, table)));
  const name = quoted(`i${random.between(0, 999)}`);
  const tail = random.pick(["", "", " DESC", " COLLATE NOCASE"]);
  const where = random.chance(0.2) ? ` WHERE ${column} IS NOT NULL` : "";
  run(db, `CREATE INDEX ${name} ON ${quoted(table)}(${column}${tail})${where}`);
}

function addTrigger(db: DatabaseSync, random: SeededRandom, table: string): void {
  const name = quoted(`g${random.between(0, 999)}`);
  run(db, `CREATE TRIGGER ${name} AFTER DELETE ON ${quoted(table)} BEGIN SELECT ${literal(random)}; END`);
}

/** Some number of a row: SQLite's own random() would be another one at every run. */
const DRAWN = "unicode(hex(b || a))";

type Mutation = (db: DatabaseSync, random: SeededRandom, table: string) => void;

const some = (random: SeededRandom) =>
  random.pick(["1", `${DRAWN} % 3 = 0`, `${DRAWN} % 20 = 1`, `rowid = ${random.between(1, 30)}`, "a IS NOT NULL"]);

/** Statements that an application can run. */
const STATEMENTS: readonly Mutation[] = [
  (db, random, table) => insert(db, random, table),
  (db, random, table) => insert(db, random, table),
  (db, random, table) => run(db, `DELETE FROM ${quoted(table)} WHERE ${some(random)}`),
  ...Array.from({ length: 5 }, (): Mutation => (db, random, table) => {
    const column = quoted(random.pick(columnsOf(db, table)));
    run(db, `UPDATE OR IGNORE ${quoted(table)} SET ${column} = ${literal(random)} WHERE ${some(random)}`);
  }),
  (db, random, table) => run(db, `UPDATE OR IGNORE ${quoted(table)} SET rowid = rowid + 100 WHERE ${some(random)}`),
  (db, _random, table) =>
    // Two rows exchange their places.
    run(
      db,
      `UPDATE ${quoted(table)} SET rowid = -1 WHERE rowid = 1`,
      `UPDATE ${quoted(table)} SET rowid = 1 WHERE rowid = 2`,
      `UPDATE ${quoted(table)} SET rowid = 2 WHERE rowid = -1`,
    ),
  (db, random, table) => run(db, `UPDATE ${quoted(table)} SET b = b WHERE ${some(random)}`),
  (db, random, table) => {
    const tail = random.pick(["", "INT DEFAULT 0", "TEXT DEFAULT 7", "DEFAULT 'x'", "DEFAULT NULL"]);
    run(db, `ALTER TABLE ${quoted(table)} ADD COLUMN n${random.between(0, 9)} ${tail}`);
    if (random.chance(0.5)) STATEMENTS[4]!(db, random, table);
  },
  (db, random, table) =>
    run(db, `ALTER TABLE ${quoted(table)} DROP COLUMN ${quoted(random.pick(columnsOf(db, table)))}`),
  (db, random, table) =>
    run(db, `ALTER TABLE ${quoted(table)} RENAME COLUMN ${quoted(random.pick(columnsOf(db, table)))} TO z`),
  (db, random, table) => run(db, `ALTER TABLE ${quoted(table)} RENAME TO ${quoted(random.pick(NAMES))}`),
  (db, _random, table) => run(db, `DROP TABLE ${quoted(table)}`),
  (db, random, table) => {
    const [columns, options] = random.pick(TABLES);
    run(
      db,
      "BEGIN",
      `CREATE TABLE copy(${columns}) ${options}`,
      `INSERT INTO copy(a, b) SELECT a, b FROM ${quoted(table)}`,
    );
    run(db, `DROP TABLE ${quoted(table)}`, `ALTER TABLE copy RENAME TO ${quoted(table)}`, "COMMIT");
  },
  (db, random, table) => addIndex(db, random, table),
  (db, random, table) => addTrigger(db, random, table),
  (db, random) => {
    const found = db.prepare("SELECT type, name FROM sqlite_schema WHERE type <> 'table' AND sql IS NOT NULL").all();
    if (found.length === 0) return;
    const { type, name } = random.pick(found);
    run(db, `DROP ${type} ${quoted(String(name))}`);
  },
  (db, random) => run(db, `CREATE VIEW v${random.between(0, 9)} AS SELECT ${literal(random)} AS v`),
  (db) => run(db, "VACUUM"),
  (db) => run(db, "REINDEX"),
  (db) => run(db, "ANALYZE"),
  (db, random) => run(db, `PRAGMA user_version=${random.between(-3, 9)}`),
  (db, random) => run(db, `PRAGMA application_id=${random.between(-3, 9)}`),
  (db, random) => run(db, `PRAGMA default_cache_size=${random.between(1, 9)}`),
  (db, random) => run(db, `PRAGMA page_size=${random.pick([512, 1024, 2048])}`, "VACUUM"),
  (db, random) => run(db, `PRAGMA auto_vacuum=${random.between(0, 2)}`, "VACUUM", "PRAGMA incremental_vacuum(2)"),
  (db, random) => run(db, `INSERT INTO docs VALUES (${literal(random)}, 'one three')`),
  (db) => run(db, "INSERT INTO docs(docs) VALUES ('optimize')"),
  (db) => run(db, "INSERT INTO docs(docs, rank) VALUES ('rank', 'bm25(0.5)')"),
  (db) => run(db, "UPDATE docs_data SET block = x'00' WHERE id = 1"),
  (db) => run(db, "UPDATE box SET x1 = x1 + 4"),
  (db, random) => run(db, `UPDATE sqlite_sequence SET seq = ${random.between(0, 900)}`),
  (db, random) => run(db, `UPDATE sqlite_stat1 SET stat = '${random.between(1, 99)} 1'`),
];

const EDIT = "UPDATE sqlite_schema SET";

/** Half of the entries, one or the other. */
const half = (random: SeededRandom) => `rowid % 2 = ${random.between(0, 1)}`;

/** Edits of the schema by hand. */
const EDITS: readonly Mutation[] = [
  (db) =>
    run(
      db,
      `${EDIT} rootpage = (SELECT sum(rootpage) FROM sqlite_schema WHERE type = 'index') - rootpage WHERE type = 'index'`,
    ),
  (db, random) => run(db, `${EDIT} sql = sql || ' ' WHERE ${half(random)}`),
  (db, random) => run(db, `${EDIT} sql = replace(sql, 'c', 'C') WHERE ${half(random)}`),
  (db, random) => run(db, `${EDIT} sql = replace(sql, 'b', 'b CHECK (1)') WHERE type = 'table' AND ${half(random)}`),
  (db, random) => run(db, `${EDIT} sql = replace(sql, ', c', '') WHERE type = 'table' AND ${half(random)}`),
  (db) => run(db, `${EDIT} sql = replace(sql, ', c', ', c, d DEFAULT 5') WHERE type = 'table'`),
  (db) => run(db, `${EDIT} sql = replace(sql, 'b,', 'b INT,') WHERE type = 'table'`),
  (db) =>
    run(
      db,
      `${EDIT} rootpage = (SELECT max(rootpage) + 3 - sqlite_schema.rootpage FROM sqlite_schema) WHERE type = 'table'`,
    ),
  (db, random) =>
    run(db, `DELETE FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL AND ${half(random)}`),
  (db) =>
    run(
      db,
      "INSERT INTO sqlite_schema SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema WHERE type = 'view'",
    ),
  (db) => run(db, "INSERT INTO sqlite_schema VALUES ('junk', 'junk', 'junk', 0, NULL)"),
  (db, random) => run(db, `${EDIT} rowid = rowid + 100 WHERE type = 'trigger' AND ${half(random)}`),
  (db) =>
    // The stored value of a generated column, which the definition does not give.
    run(
      db,
      `${EDIT} sql = replace(sql, 'd AS (typeof(b)) STORED', 'd') WHERE type = 'table'`,
      "PRAGMA schema_version=100",
    ),
  (db, random) => run(db, `${EDIT} sql = CAST(sql AS BLOB) WHERE ${half(random)}`),
];

/** Applies one random change by SQL. */
export function change(db: DatabaseSync, random: SeededRandom): void {
  const found = tables(db);
  const table = found.length === 0 ? "t" : random.pick(found);
  try {
    random.pick(STATEMENTS)(db, random, table);
  } catch {
    // There is no such table.
  }
}

function edit(path: string, random: SeededRandom): void {
  const db = open(path);
  run(db, "PRAGMA journal_mode=memory", "PRAGMA writable_schema=ON");
  const forge = EDITS.indexOf(EDITS.at(-2)!);
  const at = random.between(0, EDITS.length - 1);
  EDITS[at]!(db, random, "t");
  db.close();
  if (at !== forge) return;
  const again = open(path);
  run(
    again,
    "PRAGMA journal_mode=memory",
    "PRAGMA writable_schema=ON",
    `UPDATE t SET d = 'forged' WHERE ${DRAWN} % 3 = 0`,
  );
  run(again, `UPDATE users SET d = 'forged' WHERE ${DRAWN} % 3 = 0`);
  run(again, `${EDIT} sql = replace(sql, 'c, d, e', 'c, d AS (typeof(b)) STORED, e') WHERE type = 'table'`);
  again.close();
}

/** Changes bytes of a file. */
function scribble(path: string, random: SeededRandom): void {
  const bytes = Deno.readFileSync(path);
  const view = new DataView(bytes.buffer);
  const page_size = view.getUint16(16) === 1 ? 65536 : view.getUint16(16);
  const pages = bytes.length / page_size;
  const at = random.between(0, bytes.length - 1);
  const page = random.between(0, pages - 1) * page_size;
  const ways = [
    () => bytes[at] = bytes[at]! ^ 1 << random.between(0, 7),
    () => bytes[at] = random.between(0, 255),
    () => bytes.set(random.bytes(Math.min(random.between(1, 20), bytes.length - at)), at),
    () => bytes[page + random.between(0, 40)] = random.between(0, 255),
    () => bytes[random.between(16, 99)] = random.between(0, 255),
    () => bytes[page + page_size - random.between(1, 200)] = random.between(0, 255),
    () => {
      const other = random.between(0, pages - 1) * page_size;
      const copy = bytes.slice(page, page + page_size);
      bytes.copyWithin(page, other, other + page_size);
      bytes.set(copy, other);
    },
    () => bytes.fill(0, page + random.between(100, page_size - 1), page + page_size),
    () => {
      // An entry of the pointer map, where there is one.
      const entry = page_size + 5 * random.between(0, pages);
      if (view.getUint32(52) === 0 || entry + 5 > bytes.length) return;
      bytes[entry] = random.between(0, 5);
      view.setUint32(entry + 1, random.between(1, pages));
    },
    () => {
      // A character of a value.
      const letter = bytes.indexOf(0x6b, at);
      if (letter > 0) bytes[letter] = 0x71;
    },
  ];
  for (let i = random.pick([1, 1, 1, 3]); i > 0; i--) random.pick(ways)();
  const more = random.chance(0.05) ? random.bytes(page_size) : new Uint8Array();
  if (more.length > 0) view.setUint32(28, pages + 1);
  const all = new Uint8Array(bytes.length + more.length);
  all.set(bytes);
  all.set(more, bytes.length);
  Deno.writeFileSync(path, all);
}

/** Changes a database in some way: its kinds, for a report. */
export function mutate(path: string, random: SeededRandom): string[] {
  const kinds: string[] = [];
  for (let i = random.pick([1, 1, 1, 2, 4]); i > 0; i--) {
    const kind = random.pick(["sql", "sql", "sql", "schema", "pages", "pages"]);
    kinds.push(kind);
    try {
      if (kind === "pages") scribble(path, random);
      else if (kind === "schema") edit(path, random);
      else {
        const db = open(path);
        run(db, "PRAGMA journal_mode=memory");
        for (let n = random.pick([1, 1, 2, 5]); n > 0; n--) change(db, random);
        db.close();
      }
    } catch {
      // The file cannot be opened any more: what is left of it is compared, or refused.
    }
  }
  return kinds;
}
