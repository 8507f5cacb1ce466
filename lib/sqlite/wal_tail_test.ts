import { assert, assertEquals, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { DatabaseSync } from "node:sqlite";
import { rows, sql, withDirectory } from "../../tests/support/stores.ts";
import { Writer } from "../../tests/support/writers.ts";
import { CheckoutFile } from "./checkout_file.ts";
import { parseDatabaseHeader } from "./header.ts";
import { parseWalHeader, readCommits, walStart } from "./wal.ts";
import { type Image, RebaseNeeded, type WalMark, WalTail } from "./wal_tail.ts";

const NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)";

interface Followed {
  path: string;
  file: CheckoutFile;
  tail: WalTail;
  directory: string;
}

/** A database `t(v)` in WAL mode with a tail on it. */
async function followed(
  work: (followed: Followed) => Promise<void> | void,
  options: { page_size?: number; before?: string[] } = {},
): Promise<void> {
  await withDirectory(async (directory) => {
    const path = `${directory}/x.db`;
    const { page_size = 4096, before = [] } = options;
    sql(path, `PRAGMA page_size=${page_size}`, "PRAGMA journal_mode=WAL", "CREATE TABLE t(v)", ...before);
    const file = CheckoutFile.open(path, { busy_timeout_ms: 500 });
    try {
      const { tail } = WalTail.attach(file);
      await work({ path, file, tail, directory });
    } finally {
      file.close();
    }
  });
}

/** An application of its own process, so that its locks are not ours. */
async function withApplication(path: string, work: (run: (...sql: string[]) => Promise<void>) => Promise<void>) {
  const writer = await Writer.start("shell", path);
  let seq = 0;
  try {
    await work(async (...statements) => {
      const { result, text } = await writer.run({ seq: ++seq, kind: "plain", sql: statements });
      assertEquals(result, "ack", text);
    });
    assertEquals(writer.complaints, "");
  } finally {
    await writer.end();
  }
}

function bytesOf(image: Image): Uint8Array {
  const bytes = new Uint8Array(image.page_count * image.page_size);
  image.readPages(1, image.page_count, bytes);
  return bytes;
}

/** What the rows are in the image, as SQLite sees it. */
function rowsIn(image: Image, directory: string, query = "SELECT v FROM t ORDER BY rowid"): string {
  const path = `${directory}/image-${crypto.randomUUID()}.db`;
  Deno.writeFileSync(path, bytesOf(image));
  assertEquals(rows(path, "PRAGMA integrity_check"), "ok");
  return rows(path, query);
}

/** A copy of a database that changes are applied to, as a reader of segments does. */
class Replica {
  #bytes: Uint8Array;

  constructor(image: Image) {
    this.#bytes = bytesOf(image);
  }

  /** Applies what changed and holds the result against the whole image. */
  follow(tail: WalTail): void {
    const image = tail.image();
    const { pages, page_count } = tail.take();
    const grown = new Uint8Array(page_count * image.page_size);
    grown.set(this.#bytes.subarray(0, grown.length));
    for (const pgno of pages) {
      image.readPages(pgno, 1, grown.subarray((pgno - 1) * image.page_size));
    }
    this.#bytes = grown;
    assertEquals(Buffer.compare(grown, bytesOf(image)), 0, "what changed and the whole image differ");
  }
}

/** Bytes that look like a commit of `pages` behind the last one in the log, as a writer leaves them that dies before it counts. */
function appendGhost(path: string, pages: number[]): void {
  const wal = Deno.readFileSync(`${path}-wal`);
  const header = parseWalHeader(wal)!;
  const commit = readCommits(header, walStart(header), (offset, into) => {
    const part = wal.subarray(offset, offset + into.length);
    into.set(part);
    return part.length;
  })!;
  const frame_bytes = 24 + header.page_size;
  const bytes = new Uint8Array(pages.length * frame_bytes);
  const view = new DataView(bytes.buffer);
  let [s1, s2] = [commit.end.checksum1, commit.end.checksum2];
  const add = (from: number, to: number) => {
    for (let at = from; at < to; at += 8) {
      s1 = (s1 + view.getUint32(at, true) + s2) >>> 0;
      s2 = (s2 + view.getUint32(at + 4, true) + s1) >>> 0;
    }
  };
  for (const [i, pgno] of pages.entries()) {
    const at = i * frame_bytes;
    bytes.fill(0xee, at + 24, at + frame_bytes);
    view.setUint32(at, pgno);
    view.setUint32(at + 4, i === pages.length - 1 ? commit.page_count : 0);
    view.setUint32(at + 8, header.salt1);
    view.setUint32(at + 12, header.salt2);
    add(at, at + 8);
    add(at + 24, at + frame_bytes);
    view.setUint32(at + 16, s1);
    view.setUint32(at + 20, s2);
  }
  using file = Deno.openSync(`${path}-wal`, { write: true });
  file.seekSync(commit.end.offset, Deno.SeekMode.Start);
  file.writeSync(bytes);
}

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

Deno.test("a transaction that is not committed, or rolled back, is not seen, also when it spilled into the log", async () => {
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

Deno.test("a long reader holds the fold back and nothing is lost, until it ends and the fold goes through", async () => {
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

Deno.test("a writer in a transaction makes a takeover give up, not fail", async () => {
  await followed(({ path, tail }) => {
    const writer = new DatabaseSync(path);
    writer.exec("BEGIN IMMEDIATE; INSERT INTO t VALUES(1)");
    assertEquals(tail.takeover(), false);
    writer.exec("COMMIT");
    assert(tail.takeover());
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
      // Neither raw reads nor a look at the header costs a lock.
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

/** Commits `first`, follows, commits `second` unseen, and attaches anew at `mark(of the end of first)`. */
async function resumeAt(mark: (end: WalMark) => WalMark): Promise<{ resumed: boolean; commits: number; rows: string }> {
  let answer!: { resumed: boolean; commits: number; rows: string };
  await followed(({ path, file, tail, directory }) => {
    const application = new DatabaseSync(path);
    application.exec("INSERT INTO t VALUES('first')");
    tail.drain();
    const end = tail.mark!;
    application.exec("INSERT INTO t VALUES('second')");
    application.exec("INSERT INTO t VALUES('third')");
    const again = WalTail.attach(file, mark(end));
    const rows = rowsIn(again.tail.image(), directory);
    answer = { resumed: again.resumed, commits: again.tail.take().commits, rows };
    application.close();
  });
  return answer;
}

Deno.test("attach() goes on at a mark that is still in the log: exactly what lies behind it counts as changed", async () => {
  const all = "first,second,third";
  assertEquals(await resumeAt((end) => end), { resumed: true, commits: 2, rows: all });
});

Deno.test("attach() takes no mark of another log, another checksum or another place, and still reads everything", async () => {
  const none = { resumed: false, commits: 0, rows: "first,second,third" };
  assertEquals(await resumeAt((end) => ({ ...end, salt1: end.salt1 + 1 })), none);
  assertEquals(await resumeAt((end) => ({ ...end, salt2: end.salt2 ^ 1 })), none);
  assertEquals(await resumeAt((end) => ({ ...end, checksum2: end.checksum2 ^ 1 })), none);
  assertEquals(await resumeAt((end) => ({ ...end, offset: end.offset - 8 })), none);
  assertEquals(await resumeAt((end) => ({ ...end, offset: end.offset + (1 << 20) })), none);
});

Deno.test("a commit that looks whole and never happened is not confirmed", async () => {
  await followed(({ path, tail, directory }) => {
    const application = new DatabaseSync(path);
    application.exec("INSERT INTO t VALUES('real')");
    appendGhost(path, [2]);
    assert(tail.drain());
    assertThrows(() => tail.confirm(), RebaseNeeded, "never happened");
    assertEquals(tail.resync(), false);
    assertEquals(rowsIn(tail.image(), directory), "real");
    // It lies there still, and is not taken up again until a writer has overwritten it.
    assertEquals(tail.drain(), false);
    tail.confirm();
    application.exec("INSERT INTO t VALUES('after it')");
    assert(tail.drain());
    tail.confirm();
    assertEquals(rowsIn(tail.image(), directory), "real,after it");
    application.close();
  });
});

Deno.test("a commit that never happened and was overwritten by one of the same length is noticed", async () => {
  await followed(({ path, tail, directory }) => {
    const application = new DatabaseSync(path);
    application.exec("CREATE TABLE other(v)");
    application.exec("INSERT INTO t VALUES('real')");
    appendGhost(path, [3]);
    assert(tail.drain());
    application.exec("INSERT INTO t VALUES('over it')"); // one frame, of another page
    assertThrows(() => tail.drain(), RebaseNeeded, "never happened");
    assertThrows(() => tail.takeover(), RebaseNeeded, "never happened");
    tail.resync();
    assertEquals(rowsIn(tail.image(), directory), "real,over it");
    application.close();
  });
});

Deno.test("confirm() reads on to what counts and leaves what it cannot vouch for to the next look", async () => {
  await followed(({ path, tail }) => {
    const application = new DatabaseSync(path);
    application.exec("INSERT INTO t VALUES('real')");
    tail.confirm();
    assertEquals(tail.take().commits, 1);
    application.exec("INSERT INTO t VALUES('real too')");
    tail.drain();
    tail.confirm();
    assertEquals(tail.take().commits, 1);
    application.close();
  });
});

Deno.test("a log that was started over or cut short unread asks for a new start", async () => {
  for (
    const [spoil, message] of [
      [(wal: Deno.FsFile) => wal.truncateSync(0), "cut short"],
      [(wal: Deno.FsFile) => wal.writeSync(new Uint8Array(32)), "cut short"],
      [(wal: Deno.FsFile) => wal.writeSync(otherHeader()), "started over"],
    ] as const
  ) {
    await followed(({ path, tail }) => {
      const application = new DatabaseSync(path);
      application.exec("INSERT INTO t VALUES(1)");
      tail.drain();
      using wal = Deno.openSync(`${path}-wal`, { write: true });
      spoil(wal);
      assertThrows(() => tail.drain(), RebaseNeeded, message);
      application.close();
    });
  }
});

/** The first 32 bytes of some other log of the same page size. */
function otherHeader(): Uint8Array {
  const directory = Deno.makeTempDirSync();
  try {
    const database = new DatabaseSync(`${directory}/y.db`);
    database.exec("PRAGMA journal_mode=WAL; CREATE TABLE t(v)");
    const header = Deno.readFileSync(`${directory}/y.db-wal`).subarray(0, 32);
    database.close();
    return header;
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

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
