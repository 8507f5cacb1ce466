/**
 * The transactions that the stock writers run: made here from a seed as SQL text,
 * so that the clients differ and the decisions do not. Every committed transaction
 * leaves its number in `ack`, and money only moves between accounts: a lost commit
 * and a torn one are both visible in any later copy of the database.
 */

import type { SeededRandom } from "./random.ts";

/** Accounts and what each begins with; their sum never changes. */
export const ACCOUNTS = 50;
/** What every account begins with. */
export const OPENING_BALANCE = 1000;

/** One unit of work for a writer. */
export interface Job {
  /** Position in the writer's own sequence, from 1; what is acknowledged. */
  seq: number;
  /** `transaction`: within BEGIN IMMEDIATE and COMMIT. `plain`: one statement outside, allowed to fail. `reader`: see {@linkcode Job.reader}. */
  kind: "transaction" | "plain" | "reader";
  /** The statements. */
  sql: string[];
  /** Begins or ends a read transaction on the writer's second connection. */
  reader?: "begin" | "end";
}

/** What the database holds before any writer runs. */
export function initialSchema(): string[] {
  return [
    "CREATE TABLE ack(writer INTEGER, seq INTEGER, PRIMARY KEY(writer, seq)) WITHOUT ROWID",
    "CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)",
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${ACCOUNTS}) ` +
    `INSERT INTO account SELECT i, ${OPENING_BALANCE} FROM n`,
    "CREATE TABLE item(id INTEGER PRIMARY KEY, writer INTEGER, body TEXT, data BLOB)",
    "CREATE INDEX item_writer ON item(writer, body)",
    "CREATE TABLE pair(k TEXT PRIMARY KEY, v) WITHOUT ROWID",
    "CREATE VIRTUAL TABLE note USING fts5(body)",
  ];
}

/** Which rarer jobs a workload holds. */
export interface WorkloadOptions {
  /** VACUUM and checkpoints of the writer's own. */
  maintenance?: boolean;
  /** Read transactions that stay open over several jobs; the sqlite3 shell cannot hold one. */
  readers?: boolean;
}

/** An endless seeded sequence of jobs for the writer numbered `writer`. */
export function* workload(random: SeededRandom, writer: number, options: WorkloadOptions = {}): Generator<Job> {
  let reading = false;
  for (let seq = 1;; seq++) {
    if (options.readers && random.chance(0.04)) {
      reading = !reading;
      yield { seq, kind: "reader", sql: [], reader: reading ? "begin" : "end" };
    } else if (options.maintenance && !reading && random.chance(0.02)) {
      yield { seq, kind: "plain", sql: random.pick(MAINTENANCE) };
    } else {
      const sql = [`INSERT INTO ack VALUES(${writer}, ${seq})`];
      const steps = random.chance(0.1) ? random.between(5, 40) : random.between(1, 4);
      for (let step = 0; step < steps; step++) sql.push(...pickStep(random)(random, writer));
      yield { seq, kind: "transaction", sql };
    }
  }
}

/** How long a writer waits for another's lock, in milliseconds. */
export const BUSY_TIMEOUT_MS = 20_000;

const MAINTENANCE = [
  ["VACUUM"],
  ["ANALYZE"],
  ["PRAGMA wal_checkpoint(PASSIVE)"],
  // They keep every writer out while they wait for readers, which the writers themselves have: an application that asks
  // for one has to be brief.
  ...["FULL", "RESTART", "TRUNCATE"].map((mode) => [
    "PRAGMA busy_timeout=100",
    `PRAGMA wal_checkpoint(${mode})`,
    `PRAGMA busy_timeout=${BUSY_TIMEOUT_MS}`,
  ]),
];

type Step = (random: SeededRandom, writer: number) => string[];

/** Each kind of change with its weight. */
const STEPS: readonly (readonly [weight: number, step: Step])[] = [
  [6, transfer],
  [6, insertItems],
  [3, updateItems],
  [3, deleteItems],
  [4, upsertPairs],
  [3, writeNotes],
  [1, growAndShrink],
  [1, changeSchema],
];
const TOTAL_WEIGHT = STEPS.reduce((sum, [weight]) => sum + weight, 0);

function pickStep(random: SeededRandom): Step {
  let ticket = random.between(1, TOTAL_WEIGHT);
  for (const [weight, step] of STEPS) {
    ticket -= weight;
    if (ticket <= 0) return step;
  }
  return transfer;
}

function transfer(random: SeededRandom): string[] {
  const amount = random.between(1, 99);
  return [
    `UPDATE account SET balance = balance - ${amount} WHERE id = ${random.between(1, ACCOUNTS / 2)}`,
    `UPDATE account SET balance = balance + ${amount} WHERE id = ${random.between(ACCOUNTS / 2 + 1, ACCOUNTS)}`,
  ];
}

function insertItems(random: SeededRandom, writer: number): string[] {
  const rows = random.between(1, 8);
  return Array.from(
    { length: rows },
    () => `INSERT INTO item(writer, body, data) VALUES(${writer}, '${word(random)}', ${blob(random)})`,
  );
}

function updateItems(random: SeededRandom): string[] {
  const modulus = random.between(3, 60);
  return [
    `UPDATE item SET body = '${word(random)}', data = ${blob(random)} WHERE id % ${modulus} = ${
      random.between(0, modulus - 1)
    }`,
  ];
}

function deleteItems(random: SeededRandom): string[] {
  const modulus = random.between(3, 30);
  return [`DELETE FROM item WHERE id % ${modulus} = ${random.between(0, modulus - 1)}`];
}

function upsertPairs(random: SeededRandom): string[] {
  const value = random.pick(["NULL", "1.5e-7", "-9223372036854775808", `'${word(random)}'`, "x'00ff'"]);
  return [
    `INSERT INTO pair VALUES('${word(random).slice(0, 3)}', ${value}) ON CONFLICT(k) DO UPDATE SET v = excluded.v`,
  ];
}

function writeNotes(random: SeededRandom): string[] {
  return [
    `INSERT INTO note(body) VALUES('${word(random)} ${word(random)} ${word(random)}')`,
    `DELETE FROM note WHERE rowid % 17 = ${random.between(0, 16)}`,
  ];
}

/** Pages that are allocated and freed within one transaction, at the end of the file. */
function growAndShrink(random: SeededRandom): string[] {
  const bytes = random.between(20_000, 200_000);
  return [
    `INSERT INTO item(id, writer, body, data) VALUES(1000000000, 0, 'big', zeroblob(${bytes}))`,
    "DELETE FROM item WHERE id = 1000000000",
  ];
}

function changeSchema(random: SeededRandom, writer: number): string[] {
  const name = `extra_${writer}_${random.between(1, 3)}`;
  return random.pick([
    [`CREATE TABLE IF NOT EXISTS ${name}(a, b UNIQUE)`, `INSERT OR IGNORE INTO ${name} VALUES(1, '${word(random)}')`],
    [`DROP TABLE IF EXISTS ${name}`],
    [`DROP INDEX IF EXISTS item_extra_${writer}`],
    [`CREATE INDEX IF NOT EXISTS item_extra_${writer} ON item(body, id)`],
  ]);
}

function word(random: SeededRandom): string {
  return Array.from({ length: random.between(3, 12) }, () => String.fromCharCode(random.between(97, 122))).join("");
}

/** A blob literal; the longer ones are one repeated byte, so that the SQL stays short. */
function blob(random: SeededRandom): string {
  if (random.chance(0.7)) {
    return `x'${
      Array.from(random.bytes(random.between(0, 60)), (byte) => byte.toString(16).padStart(2, "0")).join("")
    }'`;
  }
  const letter = String.fromCharCode(random.between(97, 122));
  return `CAST(replace(hex(zeroblob(${random.between(50, 6000)})), '0', '${letter}') AS BLOB)`;
}
