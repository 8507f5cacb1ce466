import { assert, assertEquals, assertThrows } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { rows, sql, withDirectory } from "../../tests/support/stores.ts";
import { bytesOf, followed, Replica, rowsIn, withApplication } from "../../tests/support/tails.ts";
import { CheckoutFile } from "./checkout_file.ts";
import { Connection } from "./connection.ts";
import { parseDatabaseHeader } from "./header.ts";
import { WalTail } from "./wal_tail.ts";

const NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)";

Deno.test("the pages of every commit are seen, at every page size", async () => {
  for (const page_size of [512, 1024, 4096, 65536]) {
    await followed(({ path, tail, directory }) => {
      const replica = new Replica(tail.image());
      const database = new DatabaseSync(path);
      for (let i = 0; i < 5; i++) {
        database.exec(`INSERT INTO t VALUES('${i}')`);
        database.exec(`${NUMBERS} INSERT INTO t SELECT hex(randomblob(20)) FROM n`);
        assert(tail.drain());
        replica.follow(tail);
      }
      assertEquals(rowsIn(tail.image(), directory), rows(path));
      database.close();
    }, { page_size });
  }
});

Deno.test("an open or rolled-back transaction is not seen, also when it spilled into the log", async () => {
  await followed(({ path, tail, directory }) => {
    const database = new DatabaseSync(path);
    database.exec("PRAGMA cache_size=5");
    database.exec(`BEGIN; ${NUMBERS} INSERT INTO t SELECT randomblob(3000) FROM n`);
    assert(Deno.statSync(`${path}-wal`).size > 100_000, "it did not spill");
    assertEquals(tail.drain(), false);
    assertEquals(tail.dirty, false);
    database.exec("ROLLBACK; INSERT INTO t VALUES('kept')");
    assert(tail.drain());
    assertEquals(tail.take().commits, 1);
    assertEquals(rowsIn(tail.image(), directory), "kept");
    database.close();
  });
});

Deno.test("a takeover folds the log, and what comes after it in the log that starts over is seen", async () => {
  await followed(({ path, tail, directory }) => {
    const replica = new Replica(tail.image());
    const database = new DatabaseSync(path);
    for (let round = 0; round < 4; round++) {
      const { generation } = tail;
      database.exec(`INSERT INTO t VALUES('${round}')`);
      assert(tail.takeover());
      assertEquals(tail.log_bytes, 0);
      database.exec(`INSERT INTO t VALUES('${round}+')`);
      assert(tail.drain());
      assert(tail.generation?.salt2 !== generation?.salt2, "the log was not started over");
      assertEquals(tail.generation?.offset, 32);
      replica.follow(tail);
    }
    assertEquals(rowsIn(tail.image(), directory), "0,0+,1,1+,2,2+,3,3+");
    database.close();
  });
});

Deno.test("a long log is folded completely while changes that were not taken yet stay", async () => {
  await followed(({ path, tail, directory }) => {
    const replica = new Replica(tail.image());
    const database = new DatabaseSync(path);
    database.exec("PRAGMA wal_autocheckpoint=0");
    for (let i = 0; i < 8; i++) database.exec(`${NUMBERS} INSERT INTO t SELECT randomblob(3000) FROM n`);
    tail.drain();
    assert(tail.takeover());
    replica.follow(tail);
    assertEquals(rowsIn(tail.image(), directory, "SELECT count(*) FROM t"), "1600");
    database.close();
  });
});

Deno.test("a long reader delays folding, and nothing is lost before or after it ends", async () => {
  await followed(({ path, tail, directory }) => {
    const replica = new Replica(tail.image());
    const [reader, writer] = [new DatabaseSync(path), new DatabaseSync(path)];
    writer.exec("INSERT INTO t VALUES('before')");
    reader.exec("BEGIN");
    assertEquals(reader.prepare("SELECT count(*) AS n FROM t").get()?.n, 1);
    for (let i = 0; i < 3; i++) {
      writer.exec(`INSERT INTO t VALUES('${i}')`);
      assertEquals(tail.takeover(), false);
      replica.follow(tail);
    }
    reader.exec("COMMIT");
    assert(tail.takeover());
    assertEquals(rowsIn(tail.image(), directory), "before,0,1,2");
    writer.close();
    reader.close();
  });
});

Deno.test("a writer in a transaction makes a takeover return false", async () => {
  await followed(({ path, tail }) => {
    const writer = new DatabaseSync(path);
    writer.exec("BEGIN IMMEDIATE; INSERT INTO t VALUES(1)");
    assertEquals(tail.takeover(), false);
    writer.exec("COMMIT");
    assert(tail.takeover());
    writer.close();
  });
});

Deno.test("a takeover has folded the log before it holds writers off", async () => {
  await followed(({ path, tail }) => {
    const writer = new DatabaseSync(path);
    const sizes = [1, 3_000, 300_000];
    const unfolded: number[] = [];
    const { checkpointPassive } = tail.file;
    tail.file.checkpointPassive = (connection) => {
      try {
        writer.exec("BEGIN IMMEDIATE; ROLLBACK");
      } catch {
        const { log, checkpointed } = tail.file.askCheckpoint(connection);
        unfolded.push(log - checkpointed);
      }
      return checkpointPassive.call(tail.file, connection);
    };
    for (const size of sizes) {
      writer.exec(`INSERT INTO t VALUES(zeroblob(${size}))`);
      assert(tail.takeover());
    }
    assertEquals(unfolded, sizes.map(() => 0));
    writer.close();
  });
});

Deno.test("growing, shrinking and VACUUM are followed, and what lies past the end is dropped", async () => {
  await followed(({ path, tail }) => {
    const replica = new Replica(tail.image());
    const database = new DatabaseSync(path);
    for (
      const statement of [
        `${NUMBERS} INSERT INTO t SELECT randomblob(3000) FROM n`,
        "DELETE FROM t WHERE rowid > 20",
        "VACUUM",
        `${NUMBERS} INSERT INTO t SELECT randomblob(900) FROM n`,
        "DELETE FROM t",
        "PRAGMA incremental_vacuum",
        "VACUUM",
      ]
    ) {
      database.exec(statement);
      tail.drain();
      replica.follow(tail);
    }
    // All at once: shrunk below the start and grown again between two looks.
    database.exec(`${NUMBERS} INSERT INTO t SELECT randomblob(3000) FROM n`);
    tail.drain();
    replica.follow(tail);
    database.exec("DELETE FROM t");
    database.exec("VACUUM");
    database.exec(`${NUMBERS} INSERT INTO t SELECT randomblob(2000) FROM n`);
    tail.drain();
    replica.follow(tail);
    database.close();
  });
});

Deno.test("checkpoints of every kind by the application cost nothing that was not read", async () => {
  await followed(async ({ path, tail, directory }) => {
    const replica = new Replica(tail.image());
    await withApplication(path, async (run) => {
      await run("PRAGMA busy_timeout=0");
      for (const kind of ["PASSIVE", "FULL", "RESTART", "TRUNCATE"]) {
        await run(`INSERT INTO t VALUES('${kind}')`, `PRAGMA wal_checkpoint(${kind})`);
        await run(`INSERT INTO t VALUES('after ${kind}')`);
        tail.drain();
        replica.follow(tail);
        // Folded by us, everything is the application's to truncate.
        assert(tail.takeover());
        await run(`PRAGMA wal_checkpoint(${kind})`);
        assertEquals(tail.drain(), false);
        await run(`INSERT INTO t VALUES('later')`);
        assert(tail.drain());
        replica.follow(tail);
      }
    });
    assertEquals(rowsIn(tail.image(), directory, "SELECT count(*) FROM t"), "12");
  });
});

Deno.test("an application that opens and closes beside the tail never takes the log away", async () => {
  await followed(async ({ path, file, tail }) => {
    for (let i = 0; i < 3; i++) {
      await withApplication(path, (run) => run(`INSERT INTO t VALUES(${i})`));
      // The last connection to leave deletes the log, unless it sees our locks.
      assert(Deno.statSync(`${path}-wal`).size > 0);
      assert(tail.drain());
      // Neither raw reads nor reading the header costs a lock.
      file.header();
      file.readMain(0, new Uint8Array(512));
      file.assertInPlace();
    }
    assertEquals(tail.take().commits, 3);
  });
});

Deno.test("a database in a rollback journal mode is converted, and the tail says so", async () => {
  await withDirectory((directory) => {
    const path = `${directory}/x.db`;
    sql(path, "CREATE TABLE t(v)");
    const file = CheckoutFile.open(path, { busy_timeout_ms: 0 });
    const { tail } = WalTail.attach(file);
    assert(tail.converted);
    sql(path, "INSERT INTO t VALUES(1)");
    assert(tail.drain());
    file.close();
    return Promise.resolve();
  });
});

Deno.test("changes that could not be stored come back, together with what was committed since", async () => {
  await followed(({ path, tail }) => {
    const replica = new Replica(tail.image());
    const application = new DatabaseSync(path);
    application.exec(`${NUMBERS} INSERT INTO t SELECT randomblob(900) FROM n`);
    tail.drain();
    const taken = tail.take();
    assertEquals(tail.dirty, false);
    application.exec("DELETE FROM t WHERE rowid > 3");
    application.exec("VACUUM");
    tail.drain();
    tail.giveBack(taken);
    assertEquals(tail.image().page_count, parseDatabaseHeader(bytesOf(tail.image()))?.page_count);
    replica.follow(tail);
    application.close();
  });
});

Deno.test("hold() keeps writers off until it is released", async () => {
  await followed(({ path, tail }) => {
    const application = new DatabaseSync(path);
    application.exec("INSERT INTO t VALUES(1)");
    const held = tail.hold();
    assert(held.complete);
    assertThrows(() => application.exec("INSERT INTO t VALUES(2)"), Error, "locked");
    held.release();
    application.exec("INSERT INTO t VALUES(2)");
    application.close();
  });
});

Deno.test("what was committed just before hold() can be confirmed, folded and taken while it lasts", async () => {
  await followed(({ path, tail }) => {
    const application = new DatabaseSync(path);
    application.exec("INSERT INTO t VALUES(1)");
    const held = tail.hold();
    assert(tail.dirty);
    tail.confirm();
    assert(tail.takeover());
    assertEquals(tail.take().commits, 1);
    tail.resync();
    held.release();
    application.exec("INSERT INTO t VALUES(2)");
    assert(tail.takeover());
    application.close();
  });
});

Deno.test("previous pages are those of the last take(), wherever the log was folded since", async () => {
  await followed(({ path, tail }) => {
    const replica = new Replica(tail.image());
    const database = new DatabaseSync(path);
    database.exec(`PRAGMA wal_autocheckpoint=1; ${NUMBERS} INSERT INTO t SELECT i || hex(zeroblob(300)) FROM n`);
    tail.drain();
    replica.follow(tail);
    const between: (() => void)[] = [
      () => {},
      () => void tail.takeover(),
      () => tail.followPin(),
      () => database.exec("PRAGMA wal_checkpoint(PASSIVE)"),
      () => tail.confirm(),
    ];
    let kept = 0;
    for (const before of between) {
      for (const after of between) {
        before();
        database.exec("UPDATE t SET v = v || 'a' WHERE rowid = 7; UPDATE t SET v = v || 'b' WHERE rowid = 190");
        tail.drain();
        after();
        database.exec("UPDATE t SET v = v || 'c' WHERE rowid = 7");
        tail.confirm();
        kept += replica.follow(tail);
      }
    }
    assertEquals(kept, 2 * between.length ** 2);
    database.close();
  });
});

Deno.test("changes that could not be stored come back with their previous pages", async () => {
  await followed(({ path, tail }) => {
    const replica = new Replica(tail.image());
    const database = new DatabaseSync(path);
    database.exec("INSERT INTO t VALUES('stored')");
    tail.drain();
    replica.follow(tail);
    database.exec("INSERT INTO t VALUES('lost at first')");
    tail.drain();
    const changes = tail.take();
    assertEquals(changes.before?.size, 1);
    database.exec("INSERT INTO t VALUES('meanwhile')");
    tail.drain();
    tail.giveBack(changes);
    assertEquals(replica.follow(tail), 1);
    database.close();
  });
});

Deno.test("only as many pages are kept as there is room for", async () => {
  for (const [page_size, most] of [[512, 512], [4096, 64], [65536, 4]] as const) {
    await followed(({ path, tail }) => {
      const database = new DatabaseSync(path);
      database.exec(
        `${NUMBERS} INSERT INTO t SELECT zeroblob(${page_size}) FROM n, (SELECT 1 UNION SELECT 2 UNION SELECT 3)`,
      );
      tail.drain();
      tail.take();
      database.exec(`UPDATE t SET v = randomblob(${page_size})`);
      tail.drain();
      assertEquals(tail.take().before?.size, most);
      database.close();
    }, { page_size });
  }
});

Deno.test("no page is kept as the one before that was given back without, or that is past the end", async () => {
  await followed(({ path, tail }) => {
    const replica = new Replica(tail.image());
    const database = new DatabaseSync(path);
    database.exec(`${NUMBERS} INSERT INTO t SELECT randomblob(60000) FROM n LIMIT 12`);
    tail.drain();
    replica.follow(tail);
    database.exec("UPDATE t SET v = randomblob(60000)");
    tail.drain();
    const changes = tail.take();
    const without = changes.pages.filter((pgno) => !changes.before?.has(pgno));
    assert(without.length > 4);
    database.exec("UPDATE t SET v = randomblob(60000) WHERE rowid > 6");
    tail.drain();
    tail.giveBack(changes);
    database.exec("UPDATE t SET v = randomblob(60000) WHERE rowid > 3");
    tail.drain();
    replica.follow(tail);
    assert(tail.takeover(), "the main file has to have the pages that go");
    database.exec("DELETE FROM t WHERE rowid > 2; VACUUM");
    tail.drain();
    replica.follow(tail);
    database.exec(`${NUMBERS} INSERT INTO t SELECT randomblob(60000) FROM n LIMIT 9`);
    tail.drain();
    replica.follow(tail);
    database.close();
  }, { page_size: 65536 });
});

Deno.test("a takeover never waits for the write lock: its holder may wait for the pin", async () => {
  await followed(({ path, tail }) => {
    const writer = new DatabaseSync(path);
    writer.exec("BEGIN IMMEDIATE; INSERT INTO t VALUES(1)");
    const { get } = Connection.prototype;
    const waits: string[] = [];
    Connection.prototype.get = function (statement) {
      waits.push(statement);
      return get.call(this, statement);
    };
    try {
      assertEquals(tail.takeover(), false);
    } finally {
      Connection.prototype.get = get;
    }
    // Each BEGIN IMMEDIATE comes while no busy timeout is set.
    const timeouts = waits.filter((statement) => /^PRAGMA busy_timeout|^BEGIN IMMEDIATE/.test(statement));
    assertEquals(timeouts.at(-1), "PRAGMA busy_timeout=500");
    writer.exec("COMMIT");
    assert(tail.takeover());
    writer.close();
  });
});
