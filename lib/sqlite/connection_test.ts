import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { sql, withDirectory } from "../../tests/support/stores.ts";
import { type ErrorCode, TaskdError } from "../errors.ts";
import { Connection, sqliteError, sqliteVersion } from "./connection.ts";

function refuses(code: ErrorCode, work: () => unknown): TaskdError {
  const error = assertThrows(work, TaskdError);
  assertEquals(error.code, code, error.message);
  return error;
}

Deno.test("a connection never makes a file", () =>
  withDirectory((directory) => {
    refuses("not_found", () => new Connection(`${directory}/none.db`, { busy_timeout_ms: 0 }));
    assertEquals([...Deno.readDirSync(directory)], []);
    return Promise.resolve();
  }));

Deno.test("names with the characters of URIs are names", () =>
  withDirectory((directory) => {
    for (const name of ["a?mode=memory.db", "b#c.db", "100%25.db", "ü b.db"]) {
      sql(`${directory}/${name}`, "CREATE TABLE t(v)");
      const connection = new Connection(`${directory}/${name}`, { busy_timeout_ms: 0 });
      assertEquals(connection.get("SELECT name FROM sqlite_schema")?.name, "t", name);
      connection.close();
    }
    return Promise.resolve();
  }));

Deno.test("SQLite's failures have codes, and say what was attempted", () =>
  withDirectory((directory) => {
    const path = `${directory}/x.db`;
    sql(path, "PRAGMA journal_mode=WAL", "CREATE TABLE t(v)");
    const connection = new Connection(path, { busy_timeout_ms: 0 });
    const other = new DatabaseSync(path);
    other.exec("BEGIN IMMEDIATE");
    const busy = refuses("busy", () => connection.run("BEGIN IMMEDIATE"));
    assertMatch(busy.message, /^Cannot run BEGIN IMMEDIATE on .*x\.db: /);
    assert(busy.hint !== undefined);
    other.close();
    refuses("capture_failed", () => connection.run("SELECT * FROM none"));
    connection.close();

    Deno.writeTextFileSync(`${directory}/text.db`, "no database, but long enough to look like one".repeat(50));
    refuses("not_a_database", () => {
      const text = new Connection(`${directory}/text.db`, { busy_timeout_ms: 0 });
      try {
        text.get("SELECT * FROM sqlite_schema");
      } finally {
        text.close();
      }
    });
    sql(`${directory}/wal.db`, "PRAGMA journal_mode=WAL", "CREATE TABLE t(v)");
    const opened = new Connection(`${directory}/wal.db`, { busy_timeout_ms: 0 });
    Deno.mkdirSync(`${directory}/wal.db-wal`);
    assert(refuses("unavailable", () => opened.get("SELECT * FROM t")).hint?.includes("another file"));
    opened.close();
    assertEquals(sqliteError(new Error("disk I/O error"), "Cannot copy").code, "unavailable");

    assertEquals(sqliteError(new Error("locking protocol"), "Cannot copy").code, "busy");

    const known = new TaskdError("busy", "as it is");
    assertEquals(sqliteError(known, "Cannot"), known);
    assertEquals(sqliteError(new Error("something new"), "Cannot do it").message, "Cannot do it: something new");
    return Promise.resolve();
  }));

/** Keeps every reader of the database from marking its place in the log, until stdin ends or a minute is over. */
const KEEP_READ_MARKS = `
import fcntl, select, sys
with open(sys.argv[1] + "-shm", "r+b") as shm:
    fcntl.lockf(shm, fcntl.LOCK_EX, 4, 124)
    print("kept", flush=True)
    select.select([sys.stdin], [], [], 60)
`;
import { longTest } from "../../tests/support/long.ts";

longTest(
  "a lost race for the log's index is busy, and is not retried after SQLite's own wait",
  () =>
    withDirectory(async (directory) => {
      const path = `${directory}/x.db`;
      using held = new DatabaseSync(path);
      held.exec("PRAGMA journal_mode=WAL; CREATE TABLE t(v)");
      const connection = new Connection(path, { busy_timeout_ms: 0 });
      const rival = new Deno.Command("python3", {
        args: ["-c", KEEP_READ_MARKS, path],
        stdin: "piped",
        stdout: "piped",
      }).spawn();
      try {
        const out = rival.stdout.getReader();
        await out.read();
        const error = refuses("busy", () => connection.beginImmediate());
        assertMatch(error.message, /^Cannot run BEGIN IMMEDIATE on .*x\.db: locking protocol$/);
        assert(error.hint !== undefined);
        await out.cancel();
      } finally {
        await rival.stdin.close();
        await rival.status;
      }
      connection.beginImmediate();
      connection.close();
    }),
);

Deno.test("pin() takes its snapshot at once, and rollback() ends it", () =>
  withDirectory((directory) => {
    const path = `${directory}/x.db`;
    sql(path, "PRAGMA journal_mode=WAL", "CREATE TABLE t(v)");
    const connection = new Connection(path, { busy_timeout_ms: 0 });
    const count = () => connection.get("SELECT count(*) AS n FROM t")?.n;
    connection.pin();
    sql(path, "INSERT INTO t VALUES(1)");
    assertEquals(count(), 0);
    connection.rollback();
    assertEquals(count(), 1);
    connection.rollback();
    connection.close();
    return Promise.resolve();
  }));

Deno.test("the SQLite library is one without the WAL-reset defect of 3.51.2 and before", () => {
  const [major, minor, patch] = sqliteVersion().split(".").map(Number) as [number, number, number];
  assert(major * 1e6 + minor * 1e3 + patch > 3_051_002, sqliteVersion());
});

Deno.test("SQLite's error of a disk that is full or fails has a hint", () => {
  // SQLITE_IOERR, SQLITE_FULL, SQLITE_IOERR_SHMSIZE: https://sqlite.org/rescode.html.
  for (const [errcode, hint] of [[10, "dmesg"], [13, "Free space"], [4874, "Free space"]] as const) {
    assertStringIncludes(sqliteError({ errcode, message: "failed" }, "Cannot run it").hint!, hint);
  }
});
