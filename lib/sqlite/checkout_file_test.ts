import { assert, assertEquals, assertThrows } from "@std/assert";
import { rows, sql, withDirectory } from "../../tests/support/stores.ts";
import { type ErrorCode, TaskdError } from "../errors.ts";
import { CheckoutFile, hasWal, ImageFile, readChangeCounter, requirePlainFile, stampFile } from "./checkout_file.ts";

function refuses(code: ErrorCode, work: () => unknown): TaskdError {
  const error = assertThrows(work, TaskdError);
  assertEquals(error.code, code, error.message);
  return error;
}

/** A database in WAL mode and a file that has it open. */
function onFile(work: (file: CheckoutFile, path: string) => Promise<void> | void): Promise<void> {
  return withDirectory(async (directory) => {
    const path = `${directory}/x.db`;
    sql(path, "PRAGMA journal_mode=WAL", "CREATE TABLE t(v)", "INSERT INTO t VALUES(1)");
    const file = CheckoutFile.open(path, { busy_timeout_ms: 0 });
    try {
      await work(file, path);
    } finally {
      file.close();
    }
  });
}

/** A statement of a stock client in another process. */
function shell(path: string, statement: string): void {
  const { success, stderr } = new Deno.Command("sqlite3", { args: [path, statement] }).outputSync();
  assert(success, new TextDecoder().decode(stderr));
}

/** A stock client in another process: it deletes the -wal on leaving unless it sees another process's locks. */
async function visit(path: string): Promise<void> {
  const { success, stderr } = await new Deno.Command("sqlite3", { args: [path, "SELECT count(*) FROM t"] }).output();
  assert(success, new TextDecoder().decode(stderr));
}

Deno.test("no use of an open checkout costs SQLite's locks on it", () =>
  onFile(async (file, path) => {
    const connection = file.connect();
    connection.run("INSERT INTO t VALUES(2)");
    const uses: Record<string, () => unknown> = {
      "header": () => file.header(),
      "readMain": () => file.readMain(0, new Uint8Array(4096)),
      "readWal": () => file.readWal(0, new Uint8Array(4096)),
      "sizes": () => [file.mainSize(), file.walSize()],
      "assertInPlace": () => file.assertInPlace(),
      "stampFile": () => stampFile(path),
      "hasWal": () => hasWal(path),
      "requirePlainFile": () => requirePlainFile(path),
      "connect": () => file.connect().get("SELECT 1"),
      "checkpointPassive": () => file.checkpointPassive(connection),
      "askCheckpoint": () => file.askCheckpoint(connection),
    };
    for (const [name, use] of Object.entries(uses)) {
      use();
      await visit(path);
      assert(hasWal(path), `${name} dropped the locks`);
    }
  }));

Deno.test("another open and close of a file in the process drops SQLite's locks on it", () =>
  onFile(async (file, path) => {
    file.connect().run("INSERT INTO t VALUES(2)");
    readChangeCounter(path);
    await visit(path);
    assertEquals(hasWal(path), false);
  }));

Deno.test("only a plain file that can hold a database is opened", () =>
  withDirectory(async (directory) => {
    const open = (name: string) => CheckoutFile.open(`${directory}/${name}`, { busy_timeout_ms: 0 }).close();
    refuses("not_found", () => open("none"));
    Deno.mkdirSync(`${directory}/directory`);
    refuses("denied", () => open("directory"));
    sql(`${directory}/real.db`, "CREATE TABLE t(v)");
    Deno.symlinkSync(`${directory}/real.db`, `${directory}/link.db`);
    refuses("denied", () => open("link.db"));
    await new Deno.Command("mkfifo", { args: [`${directory}/fifo`] }).output();
    refuses("denied", () => open("fifo"));
    for (const bytes of [0, 1, 511]) {
      Deno.writeFileSync(`${directory}/short`, new Uint8Array(bytes));
      refuses("not_a_database", () => open("short"));
    }
    open("real.db");
  }));

Deno.test("a checkout or log that goes away is noticed", async () => {
  await onFile((file, path) => {
    file.assertInPlace();
    Deno.removeSync(path);
    refuses("capture_failed", () => file.assertInPlace());
  });
  await onFile((file, path) => {
    Deno.copyFileSync(path, `${path}.copy`);
    Deno.renameSync(`${path}.copy`, path);
    assert(refuses("capture_failed", () => file.assertInPlace()).message.includes("replaced"));
  });
  await onFile((file, path) => {
    file.connect().run("INSERT INTO t VALUES(2)");
    file.readWal(0, new Uint8Array(32));
    Deno.removeSync(`${path}-wal`);
    assert(refuses("capture_failed", () => file.assertInPlace()).message.includes("-wal"));
  });
  await onFile((file, path) => {
    file.connect().run("INSERT INTO t VALUES(2)");
    file.assertInPlace();
    Deno.removeSync(`${path}-shm`);
    assert(refuses("capture_failed", () => file.assertInPlace()).message.includes("-shm"));
  });
});

for (const removed of [["-shm"], ["-shm", "-wal"]]) {
  Deno.test(`closing leaves what was committed after ${removed.join(" and ")} went away`, () =>
    withDirectory((directory) => {
      const path = `${directory}/x.db`;
      sql(path, "PRAGMA journal_mode=WAL", "CREATE TABLE t(v)");
      const file = CheckoutFile.open(path, { busy_timeout_ms: 0 });
      const pin = file.connect();
      pin.run("INSERT INTO t VALUES(1)");
      file.checkpointPassive(pin);
      file.assertInPlace();
      for (const suffix of removed) Deno.removeSync(path + suffix);
      shell(path, "INSERT INTO t VALUES(2)");
      file.close();
      assertEquals(rows(path), "1,2");
      return Promise.resolve();
    }));
}

Deno.test("a log is read at the requested offset, however it has grown since", () =>
  onFile((file, path) => {
    const connection = file.connect();
    const read = (offset: number, bytes: number) => {
      const into = new Uint8Array(bytes);
      return into.subarray(0, file.readWal(offset, into));
    };
    connection.run("INSERT INTO t VALUES(2)");
    const ends: number[] = [];
    for (let round = 0; round < 3; round++) {
      const bytes = Deno.readFileSync(`${path}-wal`);
      ends.push(bytes.length);
      // Twice the same place, on from there, back, and past the end.
      for (
        const [offset, count] of [
          [0, 32],
          [0, 32],
          [32, 24],
          [8, 100],
          ...ends.map((end) => [end, 24] as const),
        ] as const
      ) {
        assertEquals(read(offset, count), bytes.slice(offset, offset + count));
      }
      assertEquals(read(bytes.length - 10, 24).length, 10);
      assertEquals(read(bytes.length, 24).length, 0);
      connection.run("INSERT INTO t VALUES(randomblob(5000))");
      assert(read(bytes.length, 24).length === 24, "what was put where the last read had ended");
    }
  }));

Deno.test("the change counter is read where there is one", () =>
  withDirectory((directory) => {
    const path = `${directory}/x.db`;
    sql(path, "CREATE TABLE t(v)");
    const before = readChangeCounter(path)!;
    sql(path, "INSERT INTO t VALUES(1)");
    assertEquals(readChangeCounter(path), before + 1);
    Deno.writeFileSync(path, new Uint8Array(50));
    assertEquals(readChangeCounter(path), undefined);
    return Promise.resolve();
  }));

Deno.test("an image reads whole pages, refuses a part of one, and never runs on past its end", () =>
  withDirectory((directory) => {
    const path = `${directory}/x.db`;
    sql(path, "PRAGMA page_size=1024", "CREATE TABLE t(v)", "INSERT INTO t VALUES(randomblob(5000))");
    const bytes = Deno.readFileSync(path);
    const image = ImageFile.open(path);
    assertEquals([image.page_size, image.page_count], [1024, bytes.length / 1024]);
    const into = new Uint8Array(2048);
    image.readPages(2, 2, into);
    assertEquals(into, bytes.subarray(1024, 3072));
    refuses("corrupt", () => image.readPages(image.page_count, 2, into));
    image.close();
    Deno.truncateSync(path, bytes.length - 1);
    refuses("corrupt", () => ImageFile.open(path));
    Deno.writeTextFileSync(path, "not a database at all".repeat(100));
    refuses("not_a_database", () => ImageFile.open(path));
    refuses("not_found", () => ImageFile.open(`${path}.none`));
    return Promise.resolve();
  }));

Deno.test("closing a file closes its connections first, so that the last one folds the log", () =>
  withDirectory((directory) => {
    const path = `${directory}/x.db`;
    sql(path, "PRAGMA journal_mode=WAL", "CREATE TABLE t(v)");
    const file = CheckoutFile.open(path, { busy_timeout_ms: 0 });
    file.connect().run("INSERT INTO t VALUES(2)");
    assert(hasWal(path));
    file.close();
    assertEquals([hasWal(path), rows(path)], [false, "2"]);
    return Promise.resolve();
  }));

Deno.test("requirePlainFile() gives the reason, and denied only where access is refused", () =>
  withDirectory((directory) => {
    const path = `${directory}/${"x".repeat(300)}`;
    const { message } = refuses("unavailable", () => requirePlainFile(path));
    assert(/name too long/i.test(message), message);
    return Promise.resolve();
  }));
