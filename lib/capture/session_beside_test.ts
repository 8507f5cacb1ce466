/** What an application may do to its database while a session captures it, each in a process of its own. */

import { assert, assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import type { Backend } from "../backend/backend.ts";
import { MemoryBackend } from "../../tests/support/memory_backend.ts";
import { insert, inSession, raiseDoubt } from "../../tests/support/session.ts";
import { scaled, scaledTest } from "../../tests/support/long.ts";
import { at, fails, openAt, rows, sql, stored, withDirectory } from "../../tests/support/stores.ts";
import { CheckoutFile } from "../sqlite/checkout_file.ts";
import { WalTail } from "../sqlite/wal_tail.ts";
import { CaptureSession, type SessionOptions } from "./session.ts";

/** Runs a script in the sqlite3 shell and returns the lines that it prints. */
async function shell(path: string, script: string): Promise<string[]> {
  const child = new Deno.Command("sqlite3", {
    args: ["-batch", "-cmd", ".timeout 10000", path],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const input = child.stdin.getWriter();
  await input.write(new TextEncoder().encode(script));
  await input.close();
  const { stdout, stderr } = await child.output();
  assertEquals(new TextDecoder().decode(stderr), "");
  return new TextDecoder().decode(stdout).trim().split("\n");
}

/** Runs `work` beside a session on a database with the table `t(v)`; time is real. */
async function beside(
  work: (session: CaptureSession, log: string[]) => Promise<void>,
  backend: Backend = new MemoryBackend(),
  { flush_every_ms = 0 }: Partial<SessionOptions> = {},
): Promise<void> {
  await withDirectory(async (directory) => {
    const store = await openAt(directory, { backend });
    await store.create("app");
    const log: string[] = [];
    const session = await CaptureSession.open(store, at("app"), {
      flush_every_ms,
      snapshot_every: 16,
      log: (line) => log.push(line),
    });
    try {
      sql(session.checkout, "CREATE TABLE t(v)");
      await work(session, log);
      await session.flush();
      const query = "SELECT count(*) || '/' || sum(v) FROM t";
      assertEquals(await stored(store, "app", query), rows(session.checkout, query));
    } finally {
      await session.close();
      store.close();
    }
  });
}

const INSERTS = "INSERT INTO t VALUES(1);\nINSERT INTO t VALUES(2);\n";

for (const mode of ["FULL", "RESTART", "TRUNCATE"]) {
  Deno.test(`wal_checkpoint(${mode}) succeeds beside a session, which sees every commit without a copy`, () =>
    beside(async (session) => {
      const writers = [1, 2].map(() => shell(session.checkout, INSERTS.repeat(60)));
      const checkpoints = await shell(session.checkout, `${INSERTS}PRAGMA wal_checkpoint(${mode});\n`.repeat(30));
      await Promise.all(writers);
      // The shell prints: busy|frames in the log|frames in the database.
      for (const line of checkpoints) assert(line.startsWith("0|"), line);
      assertEquals(rows(session.checkout, "SELECT count(*) FROM t"), "300");
      assertEquals(session.status().rebases, 0);
    }));
}

/** Stores nothing of the second segment and later ones before it may. */
class SlowBackend extends MemoryBackend {
  readonly asked = Promise.withResolvers<void>();
  readonly may = Promise.withResolvers<void>();
  #segments = 0;

  override async put(...args: Parameters<MemoryBackend["put"]>): ReturnType<MemoryBackend["put"]> {
    if (args[0].includes("segment") && ++this.#segments > 1) {
      this.asked.resolve();
      await this.may.promise;
    }
    return await super.put(...args);
  }
}

for (const flush_every_ms of [0, 50]) {
  Deno.test(`a checkpoint does not wait for what a session is storing, flushed every ${flush_every_ms} ms`, () => {
    const backend = new SlowBackend();
    return beside(
      async (session) => {
        await session.flush();
        await shell(session.checkout, INSERTS);
        const flushing = flush_every_ms === 0 ? session.flush() : undefined;
        await backend.asked.promise;
        try {
          const [line] = await shell(session.checkout, `${INSERTS}PRAGMA wal_checkpoint(TRUNCATE);\n`);
          assertEquals(line, "0|0|0");
          await shell(session.checkout, INSERTS);
        } finally {
          backend.may.resolve();
        }
        await flushing;
      },
      backend,
      { flush_every_ms },
    );
  });
}

Deno.test("a session that has ended in error lets the application checkpoint", () =>
  withDirectory(async (directory) => {
    const store = await openAt(directory, { backend: new MemoryBackend() });
    await store.create("app");
    const session = await CaptureSession.open(store, at("app"), { flush_every_ms: 0, snapshot_every: 16 });
    sql(session.checkout, "CREATE TABLE t(v)");
    Deno.renameSync(session.checkout, `${session.checkout}.away`);
    await fails("capture_failed", session.flush());
    Deno.renameSync(`${session.checkout}.away`, session.checkout);
    const [line] = await shell(session.checkout, `${INSERTS}PRAGMA wal_checkpoint(RESTART);\n`);
    assert(line?.startsWith("0|"), line);
    await session.close();
    store.close();
  }));

/** More than a session reads: it then gets out of the way. */
const OUTGROWN = "INSERT INTO t VALUES(zeroblob(70000000)); DELETE FROM t WHERE typeof(v) = 'blob'";

Deno.test("a log that is outgrown is left to the application, and the next flush stores everything", () =>
  inSession(async (scene, session) => {
    const application = new DatabaseSync(session.checkout);
    application.exec(`PRAGMA wal_autocheckpoint=0; ${OUTGROWN}; INSERT INTO t VALUES(1)`);
    await scene.pass(200, 15);
    assertEquals(scene.counted, ["stepped_aside"]);
    application.exec("PRAGMA wal_checkpoint(TRUNCATE); INSERT INTO t VALUES(2)");
    assertEquals((await session.flush()).kind, "segment");
    assertEquals(await stored(scene.store, "app"), "1,2");
    assertEquals(session.status().rebases, 0);
    application.close();
  }));

Deno.test("a session that ends in error while it gets out of the way does not go on with that", () =>
  inSession(async (scene, session) => {
    const application = new DatabaseSync(session.checkout);
    application.exec(`PRAGMA wal_autocheckpoint=0; ${OUTGROWN}`);
    const { prepareToUnpin } = WalTail.prototype;
    WalTail.prototype.prepareToUnpin = function () {
      this.unpin();
      return false;
    };
    try {
      await scene.pass(200, 15);
      await session.flush();
    } finally {
      WalTail.prototype.prepareToUnpin = prepareToUnpin;
    }
    application.close();
  }));

Deno.test("off the log, a session folds for an application that never does", () =>
  inSession(async (scene, session) => {
    const application = new DatabaseSync(session.checkout);
    application.exec(`PRAGMA wal_autocheckpoint=0; ${OUTGROWN}`);
    await scene.pass(3_000);
    const { log, checkpointed } = application.prepare("PRAGMA wal_checkpoint(NOOP)").get() as Record<string, number>;
    assertEquals(checkpointed, log);
    assertEquals(scene.counted, ["stepped_aside"]);
    application.close();
  }));

Deno.test("a file too large to compare is copied whole for its application's sake, once a minute", async () => {
  const { mainSize } = CheckoutFile.prototype;
  CheckoutFile.prototype.mainSize = () => 2 ** 31;
  try {
    await inSession(async (scene, session) => {
      const application = new DatabaseSync(session.checkout);
      application.exec("PRAGMA wal_autocheckpoint=0");
      for (const [seconds, copies] of [[0, 1], [10, 1], [30, 1], [25, 2]] as const) {
        await scene.pass(seconds * 1_000);
        application.exec(`${OUTGROWN}; INSERT INTO t VALUES(${seconds})`);
        await scene.pass(200, 15);
        await session.flush();
        assertEquals(scene.counted, Array(copies).fill(["rebase", "stepped_aside"]).flat(), `${seconds}`);
      }
      assertEquals(await stored(scene.store, "app"), "0,10,30,25");
      application.close();
    });
  } finally {
    CheckoutFile.prototype.mainSize = mainSize;
  }
});

Deno.test("full copies that no one asks for are a minute apart, whatever the timer", () =>
  inSession(async (scene, session) => {
    for (let second = 0; second < 150; second++) {
      insert(session, second);
      // Seen, and not pinned yet: it must not go.
      session.status();
      raiseDoubt(session);
      await scene.pass(1_000);
    }
    const copies = scene.uploads.filter((key) => key.includes("snapshot")).length;
    assertEquals(copies, 3);
    insert(session, "asked for");
    raiseDoubt(session);
    assertEquals((await session.flush()).kind, "snapshot");
    assertEquals(await stored(scene.store, "app"), rows(session.checkout));
  }, { flush_every_ms: 1_000, snapshot_every: 1_000 }));

/** Writes and checkpoints without end, and prints the number of each row that is committed. */
const FOLDING_APPLICATION = `
import sqlite3, sys, threading
def fold():
    db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=5)
    while True:
        try: db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.OperationalError: pass
threading.Thread(target=fold, daemon=True).start()
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=20)
n = 0
while True:
    n += 1
    try:
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO t VALUES(?)", (n,))
        # Pages come and go, with content that they had before.
        for i in range(n % 9): db.execute("INSERT INTO u VALUES(zeroblob(3000))")
        if n % 7 == 0: db.execute("DELETE FROM u")
        db.execute("COMMIT")
        print(n, flush=True)
    except sqlite3.OperationalError:
        if db.in_transaction: db.execute("ROLLBACK")
`;

scaledTest(
  "sessions come and go beside an application that folds all the time, and none ends in error",
  () =>
    withDirectory(async (directory) => {
      const store = await openAt(directory, { backend: new MemoryBackend() });
      await store.create("app");
      const { path } = await store.checkout(at("app"));
      sql(path, "CREATE TABLE t(v)", "CREATE TABLE u(v)");
      await store.checkpoint(at("app"), "empty");
      const args = ["-c", FOLDING_APPLICATION, path];
      const application = new Deno.Command("python3", { args, stdout: "piped" }).spawn();
      let printed = "";
      const reading = (async () => {
        for await (const text of application.stdout.pipeThrough(new TextDecoderStream())) printed += text;
      })();
      try {
        for (let opening = 0; opening < scaled({ short: 2, long: 40, longest: 200 }); opening++) {
          const session = await CaptureSession.open(store, at("app"), { flush_every_ms: 0, snapshot_every: 5 });
          for (let flush = 0; flush < 8; flush++) {
            await session.flush();
            await new Promise((resolve) => setTimeout(resolve, (opening * 8 + flush) * 7 % 50));
          }
          await session.close();
        }
      } finally {
        application.kill("SIGKILL");
        await application.status;
        await reading;
      }
      await store.checkpoint(at("app"), "end");
      const acknowledged = printed.trim().split("\n");
      const found = new Set((await stored(store, "app", "SELECT v FROM t")).split(","));
      assertEquals(acknowledged.filter((row) => !found.has(row)), []);
      // Of a session that found no moment for its last look, the head before is kept beside the branch.
      const kept = (await store.branches("app")).map(({ branch }) => branch).filter((branch) => branch !== "main");
      assertEquals(kept.filter((branch) => !branch.startsWith("main-pre-recovery")), []);
      store.close();
    }),
);

Deno.test("an idle session polls as soon as its log is written to, and rarely before", () =>
  inSession(async (scene, session) => {
    // The main file takes up what was flushed, and polls grow rare.
    await scene.pass(12_000);
    assert(scene.clock.sleeping.includes(2_000), `${scene.clock.sleeping}`);
    // The time stands still: no poll would come without the write.
    insert(session, 1);
    await scene.clock.sleeper(15);
    assertEquals(scene.clock.sleeping.includes(2_000), false);
  }, { watch_log: true }));
