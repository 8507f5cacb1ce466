import { assert, assertEquals, assertThrows } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { scaled, scaledTest } from "../../tests/support/long.ts";
import { followed, Replica, rowsIn } from "../../tests/support/tails.ts";
import { rows } from "../../tests/support/stores.ts";
import { SeededRandom } from "../../tests/support/writers/random.ts";
import { hasCode } from "../errors.ts";
import type { WalTail } from "./wal_tail.ts";

const NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)";

/** What an application may do to its database and to its log. */
const WORK = [
  "INSERT INTO t VALUES(hex(randomblob(20)))",
  "UPDATE t SET v = hex(randomblob(30)) WHERE rowid % 7 = 1",
  // There and back: what was stored in between must not stay.
  "UPDATE k SET v = 'a'",
  "UPDATE k SET v = 'b'",
  "UPDATE k SET v = 'a'; PRAGMA wal_checkpoint(TRUNCATE)",
  "UPDATE k SET v = 'b'; PRAGMA wal_checkpoint(TRUNCATE)",
  `${NUMBERS} INSERT INTO t SELECT hex(randomblob(400)) FROM n`,
  "DELETE FROM t WHERE rowid % 3 = 1",
  "DELETE FROM t WHERE length(v) > 100",
  "CREATE TABLE IF NOT EXISTS other(v); INSERT INTO other VALUES(zeroblob(50000))",
  "DROP TABLE IF EXISTS other",
  "VACUUM",
  "PRAGMA auto_vacuum=FULL; VACUUM",
  "PRAGMA wal_checkpoint(PASSIVE)",
  "PRAGMA wal_checkpoint(FULL)",
  "PRAGMA wal_checkpoint(RESTART)",
  "PRAGMA wal_checkpoint(TRUNCATE)",
  "PRAGMA wal_checkpoint(TRUNCATE)",
];

function unpin(tail: WalTail): void {
  catchUp(tail);
  while (!tail.prepareToUnpin());
  tail.unpin();
}

function catchUp(tail: WalTail, between: () => void = () => {}): void {
  if (tail.unpinned) tail.repin();
  while (!tail.compare()) between();
}

scaledTest("whatever was committed while the tail was off its pin, it knows every page that changed", async () => {
  for (let seed = 1; seed <= scaled({ short: 60, long: 200, longest: 400 }); seed++) {
    const random = new SeededRandom(seed);
    const page_size = random.pick([512, 4096, 65536]);
    await followed(({ path, tail }) => {
      const application = new DatabaseSync(path, { timeout: 0 });
      let replica = new Replica(tail.image());
      const act = () => application.exec(random.pick(WORK));
      const steps: (() => void)[] = [
        act,
        act,
        act,
        () => tail.drain(),
        () => tail.followPin(),
        () => tail.prepareToUnpin(),
        () => tail.unpinned || unpin(tail),
        () => tail.unpinned || tail.takeover(),
        () => {
          tail.resync();
          replica = new Replica(tail.image());
        },
        () => {
          catchUp(tail, act);
          tail.confirm();
          replica.follow(tail);
        },
      ];
      for (let step = 0; step < 60; step++) random.pick(steps)();
      catchUp(tail, act);
      tail.confirm();
      replica.follow(tail);
      application.close();
    }, { page_size, before: ["CREATE TABLE k(v)", "INSERT INTO k VALUES('a')"] });
  }
});

Deno.test("a page that was seen to change, and went back off the pin, is as SQLite has put it there", async () => {
  for (const checkpoint of ["TRUNCATE", "PASSIVE"]) {
    await followed(({ path, tail }) => {
      const application = new DatabaseSync(path);
      const replica = new Replica(tail.image());
      tail.prepareToUnpin();
      application.exec("UPDATE k SET v = 'b'");
      tail.drain();
      unpin(tail);
      application.exec(`UPDATE k SET v = 'a'; PRAGMA wal_checkpoint(${checkpoint})`);
      catchUp(tail);
      replica.follow(tail);
      application.close();
    }, { before: ["CREATE TABLE k(v)", "INSERT INTO k VALUES('a')"] });
  }
});

Deno.test("a comparison that was given up begins anew after the next time off the pin", async () => {
  await followed(({ path, tail }) => {
    const application = new DatabaseSync(path);
    application.exec(`${NUMBERS} INSERT INTO t SELECT zeroblob(100000) FROM n`);
    assert(tail.takeover());
    const replica = new Replica(tail.image());
    tail.take();
    unpin(tail);
    tail.repin();
    assertEquals(tail.compare(), false);
    tail.unpin();
    application.exec("UPDATE k SET v = 'b'; PRAGMA wal_checkpoint(TRUNCATE)");
    catchUp(tail);
    replica.follow(tail);
    application.close();
  }, { before: ["CREATE TABLE k(v)", "INSERT INTO k VALUES('a')"] });
});

Deno.test("a log that was started over many times off the pin costs no commit and no copy", async () => {
  await followed(({ path, tail, directory }) => {
    const application = new DatabaseSync(path);
    const replica = new Replica(tail.image());
    unpin(tail);
    for (let i = 0; i < 5; i++) {
      application.exec(`INSERT INTO t VALUES(${i}); PRAGMA wal_checkpoint(TRUNCATE)`);
      assertEquals(tail.drain(), false);
    }
    assert(tail.dirty);
    catchUp(tail);
    replica.follow(tail);
    assertEquals(rowsIn(tail.image(), directory), "0,1,2,3,4");
    // Nothing since: nothing to store, off the pin or on it.
    unpin(tail);
    assert(tail.dirty);
    catchUp(tail);
    tail.confirm();
    assertEquals(tail.dirty, false);
    application.close();
  });
});

Deno.test("a tail that cannot be pinned again yet stays off its pin, and misses nothing later", async () => {
  await followed(({ path, tail, directory }) => {
    const application = new DatabaseSync(path);
    const replica = new Replica(tail.image());
    unpin(tail);
    application.exec(
      "INSERT INTO t VALUES(1); PRAGMA wal_checkpoint(TRUNCATE); BEGIN IMMEDIATE; INSERT INTO t VALUES(2)",
    );
    assert(hasCode(assertThrows(() => tail.repin()), "busy"));
    assert(tail.unpinned && tail.dirty);
    application.exec("COMMIT; PRAGMA wal_checkpoint(RESTART); INSERT INTO t VALUES(3)");
    catchUp(tail);
    replica.follow(tail);
    assertEquals(rowsIn(tail.image(), directory), rows(path));
    application.close();
  });
});

Deno.test("a page that is changed back off the pin is found, whatever was stored of it in between", async (t) => {
  const between: Record<string, (tail: WalTail, application: DatabaseSync, replica: Replica) => Replica> = {
    "a flush": (tail, application, replica) => {
      application.exec("UPDATE k SET v = 'b'");
      tail.drain();
      replica.follow(tail);
      return replica;
    },
    "a new start": (tail, application) => {
      tail.unpin();
      application.exec("UPDATE k SET v = 'b'; PRAGMA wal_checkpoint(TRUNCATE)");
      tail.resync();
      return new Replica(tail.image());
    },
  };
  for (const [name, store] of Object.entries(between)) {
    await t.step(name, () =>
      followed(({ path, tail, directory }) => {
        const application = new DatabaseSync(path);
        while (!tail.prepareToUnpin());
        const replica = store(tail, application, new Replica(tail.image()));
        unpin(tail);
        application.exec("UPDATE k SET v = 'a'; PRAGMA wal_checkpoint(TRUNCATE)");
        catchUp(tail);
        replica.follow(tail);
        assertEquals(rowsIn(tail.image(), directory, "SELECT v FROM k"), "a");
        application.close();
      }, { before: ["CREATE TABLE k(v)", "INSERT INTO k VALUES('a')"] }));
  }
});

Deno.test("a page that was changed off the pin is never kept as the one before", async () => {
  await followed(({ path, tail }) => {
    const application = new DatabaseSync(path);
    const replica = new Replica(tail.image());
    unpin(tail);
    application.exec("UPDATE k SET v = 'b'; PRAGMA wal_checkpoint(TRUNCATE)");
    tail.repin();
    application.exec("UPDATE k SET v = 'c'");
    assert(tail.drain());
    catchUp(tail);
    assertEquals(replica.follow(tail), 0);
    application.close();
  }, { before: ["CREATE TABLE k(v)", "INSERT INTO k VALUES('a')"] });
});

Deno.test("pinning again reads only what is not folded, however long the log is", async () => {
  await followed(({ path, tail, directory }) => {
    const application = new DatabaseSync(path);
    application.exec("PRAGMA wal_autocheckpoint=0");
    const replica = new Replica(tail.image());
    unpin(tail);
    application.exec("INSERT INTO t VALUES(zeroblob(3000000)); DELETE FROM t; INSERT INTO t VALUES('last')");
    const { read_bytes } = tail;
    tail.repin();
    assertEquals(tail.read_bytes, read_bytes);
    application.exec("INSERT INTO t VALUES('next')");
    catchUp(tail);
    tail.drain();
    tail.confirm();
    replica.follow(tail);
    assertEquals(rowsIn(tail.image(), directory), "last,next");
    application.close();
  });
});

Deno.test("a log that is folded before it is pinned is read from the main file, and may start over", async () => {
  await followed(({ path, file, tail, directory }) => {
    const [application, reader] = [new DatabaseSync(path), new DatabaseSync(path)];
    reader.exec("BEGIN; SELECT * FROM t");
    application.exec("INSERT INTO t VALUES(1)");
    const ask = file.askCheckpoint;
    let asked = false;
    file.askCheckpoint = (connection) => {
      const answer = ask.call(file, connection);
      if (!asked) reader.exec("ROLLBACK");
      if (!asked) application.exec("PRAGMA wal_checkpoint(PASSIVE)");
      asked = true;
      return answer;
    };
    tail.resync();
    const image = tail.image();
    application.exec("INSERT INTO t VALUES(2)");
    assertEquals(rowsIn(image, directory), "1");
    tail.endImage();
    reader.close();
    application.close();
  });
});

Deno.test("a mark is in the main file once it was folded, by any checkpoint, and in a new log", async () => {
  await followed(({ path, tail }) => {
    const application = new DatabaseSync(path);
    application.exec("INSERT INTO t VALUES(1)");
    tail.drain();
    tail.followPin();
    const { mark } = tail;
    assertEquals(tail.mainHas(mark), false);
    application.exec("PRAGMA wal_checkpoint(PASSIVE)");
    assert(!tail.main_is_whole && tail.mainHas(mark));
    application.exec("INSERT INTO t VALUES(2)");
    assertEquals([tail.mainHas(mark), tail.mainHas(tail.mark)], [true, false]);
    tail.followPin();
    application.exec("PRAGMA wal_checkpoint(TRUNCATE); INSERT INTO t VALUES(3)");
    assert(tail.mainHas(mark));
    application.close();
  });
});
