/** A checkout that something else than SQLite writes to while a session captures it. */

import { assert, assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { Application } from "../../tests/support/application.ts";
import { scaledTest, shortened } from "../../tests/support/long.ts";
import { insert, inSession, raiseDoubt, type Scene } from "../../tests/support/session.ts";
import { at, fails, rows, sql, stored, withApp } from "../../tests/support/stores.ts";
import { hasCode } from "../errors.ts";
import { WalTail } from "../sqlite/wal_tail.ts";
import { CaptureSession } from "./session.ts";

/** Runs a program: a file that this process closed itself would lose the session's locks. */
function run(program: string, ...args: string[]): void {
  const { success, stderr } = new Deno.Command(program, { args, stdout: "null" }).outputSync();
  assert(success, new TextDecoder().decode(stderr));
}

const SUM = "SELECT count(*) || '/' || sum(length(v)) FROM t";

/** What a person does to the file at `path`; `backup` is a database that was copied from it earlier. */
const OVERWRITES: Record<string, (path: string, backup: string) => void> = {
  "an older backup copied over it": (path, backup) => run("cp", backup, path),
  "zeros in the middle": (path) =>
    run("dd", "if=/dev/zero", `of=${path}`, "bs=4096", "seek=3", "count=2", "conv=notrunc"),
  "zeros at its start": (path) => run("dd", "if=/dev/zero", `of=${path}`, "bs=4096", "count=1", "conv=notrunc"),
  "all of it removed": (path) => run("truncate", "-s", "0", path),
  "its end cut off": (path) => run("truncate", "-s", "8192", path),
  "a backup renamed to it": (path, backup) => run("mv", backup, path),
  "removed and made anew": (path, backup) => {
    run("rm", path);
    run("cp", backup, path);
  },
  "another database copied over it": (path, backup) => {
    sql(`${backup}2`, "CREATE TABLE other(v)", "INSERT INTO other VALUES(zeroblob(60000))");
    run("cp", `${backup}2`, path);
  },
};

/** What was going on just before. */
const MOMENTS: Record<string, (session: CaptureSession, application: DatabaseSync, scene: Scene) => Promise<void>> = {
  "all flushed and folded": (_session, _application, scene) => scene.pass(3_000),
  "all flushed, still in the log": () => Promise.resolve(),
  "commits that wait in the log": (session) => Promise.resolve(insert(session, "waiting")),
  "commits that are folded already": async (session, application, scene) => {
    insert(session, "waiting");
    await scene.pass(250);
    application.exec("UPDATE t SET v = 'folded' WHERE rowid = 2; PRAGMA wal_checkpoint(PASSIVE)");
    await scene.pass(3_000);
  },
  "commits since, by an application that goes on": async (session, application, scene) => {
    await scene.pass(3_000);
    application.exec("INSERT INTO t VALUES('waiting')");
    session.status();
  },
};

const CASES = Object.keys(MOMENTS).flatMap((moment) => Object.keys(OVERWRITES).map((overwrite) => [moment, overwrite]));

scaledTest("a checkout that is overwritten beside a session is never stored, and can be put right", async (t) => {
  for (const [moment, overwrite] of shortened(CASES, 14)) {
    await t.step(`${moment}: ${overwrite}`, () =>
      inSession(async (scene, session) => {
        const application = new DatabaseSync(session.checkout, { timeout: 5_000 });
        const backup = `${scene.directory}/backup.db`;
        insert(session, "early");
        application.exec(`VACUUM INTO '${backup}'`);
        insert(session, "late", "x".repeat(50_000));
        await session.flush();
        const before = await stored(scene.store, "app", SUM);
        await MOMENTS[moment!]!(session, application, scene);
        const expected = rows(session.checkout, SUM);
        OVERWRITES[overwrite!]!(session.checkout, backup);
        let flushed = true;
        await session.flush().catch((error) => {
          assert(hasCode(error, "capture_failed", "session_failed"), String(error));
          flushed = false;
        });
        // What was waiting may be stored from the log, as it was committed; nothing of what was written over it.
        assertEquals(await stored(scene.store, "app", SUM), flushed ? expected : before);
        await scene.pass(5_000);
        const { error } = session.status();
        // Where the log holds every page it puts the file right when it is folded: nothing was lost.
        assertEquals(error?.code, flushed && moment!.includes("in the log") ? error?.code : "capture_failed");
        application.close();
        await session.close();
        await putRight(scene, await stored(scene.store, "app", SUM), expected);
      }));
  }
});

/** What is there is kept until a person drops it, and then the branch is what was flushed. */
async function putRight(scene: Scene, expected: string, all: string): Promise<void> {
  let session = await scene.open().catch((error) => {
    assert(hasCode(error, "dirty") && error.hint?.includes("--force"), String(error));
  });
  if (!session) {
    assertEquals((await scene.store.status(at("app"))).state, "dirty");
    await scene.store.checkout(at("app"), { force: true });
    session = await scene.open();
  }
  assertEquals(rows(session.checkout, "PRAGMA integrity_check"), "ok");
  // What was committed and not flushed may be there, too, where the log proves it.
  const found = rows(session.checkout, SUM);
  assert([expected, all].includes(found), found);
  await session.close();
  assertEquals(await stored(scene.store, "app", SUM), found);
}

/** When a person moves another database, which has a log and an application of its own, to the checkout's path. */
const REPLACED_AT: Record<string, (session: CaptureSession, scene: Scene, replace: () => void) => Promise<void>> = {
  "while the session idles": async (_session, scene, replace) => {
    replace();
    await scene.pass(5_000);
  },
  "just before the close": (_session, _scene, replace) => Promise.resolve(replace()),
  "in the middle of the close, before the file is recorded as the head": (session, scene, replace) => {
    insert(session, "late");
    const before = scene.uploads.length;
    // What the head is made of is looked up last of all.
    let moved = false;
    scene.plan = ({ method }) => {
      moved ||= method === "replace" && scene.uploads.length > before;
      if (method === "list" && moved) replace();
      return undefined;
    };
    return Promise.resolve();
  },
};

Deno.test("a database that is moved over a checkout with its log outlives the close of the session", async (t) => {
  for (const [moment, during] of Object.entries(REPLACED_AT)) {
    for (const same_folder of [true, false]) {
      await t.step(`${moment}${same_folder ? "" : ", from elsewhere"}`, () =>
        inSession(async (scene, session) => {
          insert(session, "old");
          await session.flush();
          const before = await stored(scene.store, "app");
          const { checkout } = session;
          // The same pages and the same change counter: only the file itself is another.
          const other = same_folder ? `${checkout}.other` : `${scene.directory}/other.db`;
          run("cp", checkout, other);
          run("cp", `${checkout}-wal`, `${other}-wal`);
          const application = new Application(other);
          await application.run("INSERT INTO t VALUES('theirs')");
          let replaced = false;
          let untouched = "";
          const replace = () => {
            if (replaced) return;
            replaced = true;
            untouched = String(Deno.lstatSync(other).mtime);
            for (const suffix of ["", "-wal", "-shm"]) run("mv", other + suffix, checkout + suffix);
          };
          try {
            await during(session, scene, replace);
            const files = () =>
              ["", "-wal"].map((suffix) => Deno.lstatSync(checkout + suffix)).map(({ ino, size }) => [ino, size]);
            const closing = session.close().catch(() => {});
            await closing;
            assert(replaced);
            scene.plan = () => undefined;
            const [main, log] = files();
            assert(log![1]! > 0, "the log of the new file is gone");
            // Nor is it stamped as what the session had.
            assertEquals(String(Deno.lstatSync(checkout).mtime), untouched);
            await application.run("INSERT INTO t VALUES('more')");
            assertEquals(files()[0]![0], main![0]);
          } finally {
            await application.end();
          }
          assertEquals(rows(checkout), "old,theirs,more");
          assert([before, `${before},late`].includes(await stored(scene.store, "app")));
          // It is never taken for the head: what it holds is refused, kept beside it, or taken up as a whole.
          const again = await scene.open().catch((error) => assert(hasCode(error, "dirty"), String(error)));
          if (!again) return;
          await again.flush();
          const contents: string[] = [];
          for (const { branch } of await scene.store.branches()) {
            contents.push(await stored(scene.store, `app@${branch}`));
          }
          assert(contents.includes("old,theirs,more"), contents.join(" | "));
          await again.close();
        }));
    }
  }
});

for (const unseen of [false, true]) {
  Deno.test(`a backup that SQLite itself puts in a database's place is captured${unseen ? ", unseen too" : ""}`, () =>
    inSession(async (scene, session) => {
      const backup = `${scene.directory}/backup.db`;
      sql(
        backup,
        "CREATE TABLE t(v)",
        "INSERT INTO t VALUES('restored')",
        "CREATE TABLE big(v)",
        "INSERT INTO big VALUES(zeroblob(90000))",
      );
      insert(session, "replaced", "x".repeat(50_000));
      // So that SQLite's count of changes is higher than the backup's.
      for (let i = 0; i < 9; i++) sql(session.checkout, "CREATE TABLE IF NOT EXISTS o(v)", "DROP TABLE o");
      await session.flush();
      if (unseen) {
        const application = new DatabaseSync(session.checkout, { timeout: 5_000 });
        await stepAside(scene, application);
        application.close();
      }
      run("sqlite3", session.checkout, `.restore ${backup}`);
      await session.flush();
      await scene.pass(5_000);
      assertEquals(session.status().error, undefined);
      assertEquals(await stored(scene.store, "app"), "restored");
      assertEquals(rows(session.checkout), "restored");
    }));
}

/** An application whose log is outgrown, so that the session is off its pin until the next flush. */
async function stepAside(scene: Scene, application: DatabaseSync): Promise<void> {
  const { outgrew } = WalTail.prototype;
  WalTail.prototype.outgrew = () => true;
  try {
    const before = scene.counted.length;
    application.exec("UPDATE t SET v = hex(randomblob(4)) WHERE rowid = 1");
    await scene.pass(1_000, 15);
    assertEquals(scene.counted.slice(before), ["stepped_aside"]);
  } finally {
    WalTail.prototype.outgrew = outgrew;
  }
}

/** What is written over the file when no commit is seen; `kept` where what it undoes is kept beside what it made. */
const UNSEEN: Record<string, { overwrite: (path: string, backup: string) => void; kept: boolean }> = {
  "an older copy": { overwrite: (path, backup) => run("cp", backup, path), kept: false },
  "a part of an older copy": {
    overwrite: (path, backup) => run("dd", `if=${backup}`, `of=${path}`, "bs=4096", "seek=2", "skip=2", "conv=notrunc"),
    kept: true,
  },
};

for (const [name, { overwrite, kept }] of Object.entries(UNSEEN)) {
  for (const rebase of [false, true]) {
    const found = rebase ? "copied whole" : "compared";
    Deno.test(`${name} over a file that is ${found} undoes nothing that was flushed`, () =>
      inSession(async (scene, session) => {
        const application = new DatabaseSync(session.checkout, { timeout: 5_000 });
        application.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
          INSERT INTO t SELECT hex(randomblob(20)) FROM n`);
        await session.flush();
        const backup = `${scene.directory}/backup.db`;
        await scene.pass(3_000);
        run("cp", session.checkout, backup);
        sql(session.checkout, "INSERT INTO t VALUES('acknowledged')", "CREATE TABLE other(v)");
        await session.flush();
        await stepAside(scene, application);
        application.exec("UPDATE t SET v = 'unseen' WHERE rowid = 2; PRAGMA wal_checkpoint(TRUNCATE)");
        overwrite(session.checkout, backup);
        if (rebase) raiseDoubt(session);
        const flushed = session.flush();
        if (kept) await flushed;
        else await fails("capture_failed", flushed);
        const holder = kept ? "app@main-pre-recovery" : "app";
        assertEquals(await stored(scene.store, holder, "SELECT count(*) FROM t WHERE v = 'acknowledged'"), "1");
        assertEquals(scene.log.some((line) => line.includes("main-pre-recovery")), kept);
        application.close();
      }));
  }
}

Deno.test("an application that changes a page to and fro unseen has one branch kept an hour", () =>
  inSession(async (scene, session) => {
    const application = new DatabaseSync(session.checkout, { timeout: 5_000 });
    application.exec("CREATE TABLE k(v); INSERT INTO k VALUES('a'); INSERT INTO t VALUES('x')");
    await session.flush();
    const kept = async () => (await scene.store.branches()).length - 1;
    const counts: number[] = [];
    for (const value of ["b", "a", "b", "a", "later", "b", "a"]) {
      if (value === "later") {
        await scene.pass(3_600_000, 60_000);
        continue;
      }
      await stepAside(scene, application);
      application.exec(`UPDATE k SET v = '${value}'; PRAGMA wal_checkpoint(TRUNCATE)`);
      await session.flush();
      assertEquals(await stored(scene.store, "app", "SELECT v FROM k"), value);
      counts.push(await kept());
    }
    assertEquals(counts, [0, 1, 1, 1, 2, 2]);
    application.close();
  }));

Deno.test("a checkout that is overwritten in the middle of a flush is not stored", () =>
  inSession(async (scene, session) => {
    insert(session, "stored");
    await session.flush();
    insert(session, "too");
    assertEquals((await session.flush()).kind, "segment");
    insert(session, "folded");
    await scene.pass(500);
    sql(session.checkout, "PRAGMA wal_checkpoint");
    await scene.pass(500);
    scene.plan = ({ method }) => {
      if (method === "put") {
        run("dd", "if=/dev/zero", `of=${session.checkout}`, "bs=4096", "seek=1", "count=1", "conv=notrunc");
      }
      return undefined;
    };
    // The next one is a snapshot, which is read while it is stored.
    await fails("capture_failed", session.flush());
    scene.plan = () => undefined;
    assertEquals(await stored(scene.store, "app"), "stored,too");
  }, { snapshot_every: 1 }));

Deno.test("a disk that fails for a moment ends no session", () =>
  withApp([1], async ({ store, edit }) => {
    const path = await edit("main", "first");
    const session = await CaptureSession.open(store, at("app"), { flush_every_ms: 0, snapshot_every: 16 });
    const { readSync } = Deno.FsFile.prototype;
    const failing = async (work: () => Promise<unknown>) => {
      Deno.FsFile.prototype.readSync = () => {
        throw Object.assign(new Error("Input/output error (os error 5)"), { code: "EIO" });
      };
      try {
        await work();
      } finally {
        Deno.FsFile.prototype.readSync = readSync;
      }
    };
    try {
      sql(path, "INSERT INTO t VALUES('second')");
      await failing(() => session.flush().catch(() => {}));
      await session.flush();
      assertEquals([session.status().state, await stored(store, "app")], ["active", "1,first,second"]);
      Deno.renameSync(path, `${path}.moved`);
      await fails(["capture_failed", "session_failed"], session.flush().then(() => session.flush()));
      await failing(() => Promise.resolve(session.status()));
    } finally {
      await session.close().catch(() => {});
    }
  }));
