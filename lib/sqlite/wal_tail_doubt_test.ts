import { assert, assertEquals, assertThrows } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { followed, followIn, rowsIn, unprove } from "../../tests/support/tails.ts";
import { fillDisk, makeRoom } from "../../tests/support/full_disk.ts";
import { whyNotMountable, withMount } from "../../tests/support/mounts.ts";
import { hasCode } from "../errors.ts";
import { LogPin } from "./_log_pin.ts";
import { parseWalHeader, readCommits, walStart } from "./wal.ts";
import { RebaseNeeded, type WalMark, WalTail } from "./wal_tail.ts";

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

Deno.test("attach() at a mark that is still in the log counts only what follows as changed", async () => {
  const all = "first,second,third";
  assertEquals(await resumeAt((end) => end), { resumed: true, commits: 2, rows: all });
});

Deno.test("attach() ignores a mark of another log, checksum or place, and reads everything", async () => {
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

Deno.test("a commit that never happened is not confirmed while another program waits to checkpoint", async () => {
  await followed(async ({ path, file, tail }) => {
    const application = new DatabaseSync(path);
    application.exec("INSERT INTO t VALUES('real')");
    tail.drain();
    const waiting = new Deno.Command("sqlite3", {
      args: ["-cmd", ".timeout 60000", path, "PRAGMA wal_checkpoint(TRUNCATE)"],
      stdout: "null",
    }).spawn();
    // It waits for our pin, and holds off writers and checkpoints meanwhile.
    const other = file.connect();
    while (file.checkpointPassive(other).log >= 0) await new Promise((resolve) => setTimeout(resolve, 5));
    tail.confirm();
    appendGhost(path, [2]);
    assert(tail.drain());
    assert(hasCode(assertThrows(() => tail.confirm()), "busy"));
    waiting.kill("SIGKILL");
    await waiting.status;
    assertThrows(() => tail.confirm(), RebaseNeeded, "never happened");
    application.close();
  });
});

Deno.test("a commit that never happened is not taken for folded when the log is started over", async () => {
  for (const begin of ["PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA wal_checkpoint(RESTART); CREATE TABLE other(v)"]) {
    await followed(({ path, tail, directory }) => {
      const application = new DatabaseSync(path);
      application.exec("INSERT INTO t VALUES('real')");
      appendGhost(path, [2]);
      assert(tail.drain());
      tail.followPin();
      application.exec("PRAGMA wal_checkpoint(PASSIVE)");
      tail.followPin();
      application.exec(begin);
      assertThrows(() => tail.drain(), RebaseNeeded);
      tail.resync();
      assertEquals(rowsIn(tail.image(), directory), "real");
      application.close();
    });
  }
});

Deno.test("a commit at the log's start that only happens later, in the same bytes, is seen", async (t) => {
  const looks: Record<string, (tail: WalTail, application: DatabaseSync) => void> = {
    "confirm": (tail) => tail.confirm(),
    "takeover": (tail) => tail.takeover(),
    "drain": (tail, application) => {
      application.exec("INSERT INTO t VALUES('next')");
      tail.drain();
    },
  };
  for (const [name, look] of Object.entries(looks)) {
    await t.step(name, () =>
      followed(async ({ path, file, tail, directory }) => {
        const application = new DatabaseSync(path);
        application.exec("INSERT INTO t VALUES('folded')");
        assert(tail.takeover());
        application.exec("PRAGMA wal_checkpoint(TRUNCATE)");
        await uncounted(path, () => application.exec("INSERT INTO t VALUES('retried')"));
        assert(tail.drain());
        assertThrows(() => tail.confirm(), RebaseNeeded, "never happened");
        tail.resync();
        assertEquals(rowsIn(tail.image(), directory), "folded");
        assertEquals(tail.drain(), false);
        tail.confirm();
        const { mark } = tail;
        application.exec("INSERT INTO t VALUES('retried')");
        assert(tail.in_doubt);
        assertThrows(() => look(tail, application), RebaseNeeded, "has happened since");
        // Resuming at the reported mark finds it, too.
        const again = WalTail.attach(file, mark);
        assert(again.resumed && again.tail.dirty);
        tail.resync();
        assertEquals(rowsIn(tail.image(), directory), `folded,retried${name === "drain" ? ",next" : ""}`);
        application.close();
      }));
  }
});

Deno.test("a commit behind others that only happens later, in the same bytes, is confirmed", async () => {
  await followed(async ({ path, tail, directory }) => {
    const [application, reader] = [new DatabaseSync(path), new DatabaseSync(path)];
    // Keeps the log from being folded whole, and so from being started over.
    reader.exec("BEGIN; SELECT * FROM t");
    application.exec("INSERT INTO t VALUES('real')");
    await uncounted(path, () => application.exec("INSERT INTO t VALUES('retried')"));
    tail.resync();
    assertEquals([tail.drain(), rowsIn(tail.image(), directory)], [false, "real"]);
    application.exec("INSERT INTO t VALUES('retried')");
    // Only SQLite's index distinguishes it from what was there before.
    assertEquals([tail.drain(), tail.in_doubt], [false, true]);
    tail.confirm();
    assertEquals([tail.dirty, rowsIn(tail.image(), directory)], [true, "real,retried"]);
    reader.close();
    application.close();
  });
});

/** Does `commit` and has SQLite's index forget it, as if the writer had died before it counted. */
async function uncounted(path: string, commit: () => void): Promise<void> {
  // In other processes: to close the index in this one would drop its locks.
  const dd = async (from: string, to: string) => {
    const { success } = await new Deno.Command("dd", {
      args: [`if=${from}`, `of=${to}`, "bs=136", "count=1", "conv=notrunc"],
      stderr: "null",
    }).output();
    assert(success);
  };
  await dd(`${path}-shm`, `${path}-kept`);
  commit();
  await dd(`${path}-kept`, `${path}-shm`);
}

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

Deno.test("a commit that SQLite counts and the log does not prove is in the image after a new start", async () => {
  for (const reading of [false, true]) {
    await followed(({ path, tail, directory }) => {
      const application = new DatabaseSync(path);
      application.exec("INSERT INTO t VALUES('proved')");
      // A reader keeps a part of the log from being folded.
      const reader = new DatabaseSync(path);
      if (reading) reader.exec("BEGIN; SELECT count(*) FROM t");
      assert(tail.drain());
      const { offset } = tail.mark!;
      assertEquals(tail.in_doubt, false);
      application.exec("BEGIN; INSERT INTO t VALUES('unproved'); CREATE TABLE other(v); COMMIT");
      unprove(path, offset);
      assertEquals(tail.drain(), false);
      assert(tail.in_doubt);
      assertThrows(() => tail.confirm(), RebaseNeeded, "cannot be read to its end");
      tail.resync();
      assertEquals(tail.in_doubt, false);
      assertEquals(rowsIn(tail.image(), directory), "proved,unproved");
      application.exec("INSERT INTO t VALUES('after it')");
      assert(tail.drain());
      tail.confirm();
      assertEquals(rowsIn(tail.image(), directory), "proved,unproved,after it");
      reader.close();
      application.close();
    });
  }
});

Deno.test("an application that spoils its schema does not take the log out of our hands", async () => {
  await followed(async ({ path, tail, directory }) => {
    await spoilSchema(path);
    tail.drain();
    assert(tail.takeover());
    await spoilSchema(path, "CREATE TABLE t(v)");
    assert(tail.drain());
    assert(tail.takeover());
    assertEquals(rowsIn(tail.image(), directory), "");
  });
});

Deno.test("a pin that could not be taken again is a reason to start anew, never a gap", async () => {
  await followed(({ path, tail, directory }) => {
    const application = new DatabaseSync(path);
    application.exec("INSERT INTO t VALUES(1)");
    const { take } = LogPin.prototype;
    LogPin.prototype.take = () => {
      throw new Error("no pin");
    };
    try {
      assertThrows(() => tail.takeover(), Error, "no pin");
    } finally {
      LogPin.prototype.take = take;
    }
    // With nothing in its way the application starts the log over twice.
    application.exec("INSERT INTO t VALUES(2)");
    application.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    application.exec("INSERT INTO t VALUES(3)");
    assertThrows(() => tail.drain(), RebaseNeeded, "pinned");
    tail.resync();
    assertEquals(rowsIn(tail.image(), directory), "1,2,3");
    application.exec("INSERT INTO t VALUES(4)");
    assert(tail.drain());
    application.close();
  });
});

Deno.test("a database file that was cut short is not read as zeros", async () => {
  await followed(({ path, tail }) => {
    const application = new DatabaseSync(path);
    application.exec("INSERT INTO t VALUES(zeroblob(20000))");
    application.close();
    assert(tail.takeover());
    Deno.truncateSync(path, 8192);
    const image = tail.image();
    assertThrows(() => image.readPages(1, image.page_count, new Uint8Array(65_536)), RebaseNeeded, "cut short");
  });
});

const why = await whyNotMountable("tmpfs");

Deno.test({
  name: `a new start that a full disk prevents can be made once there is room${why}`,
  ignore: why !== "",
  fn: () =>
    withMount("tmpfs", 8, (disk) =>
      followIn(disk, ({ path, tail, directory }) => {
        const application = new DatabaseSync(path);
        application.exec("PRAGMA wal_autocheckpoint=0");
        application.exec("INSERT INTO t VALUES(zeroblob(3000000))");
        tail.drain();
        fillDisk(`${disk}/filler`);
        assert(hasCode(assertThrows(() => tail.resync()), "no_space"));
        // A read meanwhile is not mistaken for anything.
        tail.drain();
        assert(hasCode(assertThrows(() => tail.takeover()), "no_space"));
        makeRoom(`${disk}/filler`);
        tail.resync();
        assertEquals(rowsIn(tail.image(), directory, "SELECT length(v) FROM t"), "3000000");
        application.exec("DELETE FROM t");
        assert(tail.drain());
        application.close();
      })),
});

/** Writes what no library can parse, or `instead`, in the place of the table's definition; as the shell can, and node:sqlite refuses. */
async function spoilSchema(path: string, instead = "CREATE TABLE t("): Promise<void> {
  const script = `PRAGMA writable_schema=ON;
    UPDATE sqlite_schema SET sql='${instead}' WHERE name='t'; PRAGMA schema_version=${instead.length + 1000};`;
  const { success, stderr } = await new Deno.Command("sqlite3", {
    args: ["-cmd", ".dbconfig defensive off", path, script],
  })
    .output();
  assert(success, new TextDecoder().decode(stderr));
}

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
