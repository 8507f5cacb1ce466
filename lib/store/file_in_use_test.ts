import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { at, fails, OUTRIGHT, rows, sql, stored, type TestStore, withApp } from "../../tests/support/stores.ts";
import { Application } from "../../tests/support/application.ts";
import { scaled, scaledTest, shortened } from "../../tests/support/long.ts";
import { Writer, WRITER_KINDS, type WriterKind } from "../../tests/support/writers.ts";
import { CaptureSession } from "../capture/session.ts";
import { hasCode } from "../errors.ts";
import { CheckoutFile } from "../sqlite/checkout_file.ts";
import { Connection } from "../sqlite/connection.ts";

/** What an application does with the checkout while an operation comes: what it runs before, and how it then commits. */
const APPLICATIONS = {
  "an idle connection": ["SELECT count(*) FROM t", "INSERT INTO t VALUES('mine')"],
  "a reader": ["BEGIN; SELECT count(*) FROM t", "ROLLBACK; INSERT INTO t VALUES('mine')"],
  "a writer": ["BEGIN IMMEDIATE; INSERT INTO t VALUES('mine')", "COMMIT"],
  "an exclusive writer": ["BEGIN EXCLUSIVE; INSERT INTO t VALUES('mine')", "COMMIT"],
} as const;

/** What replaces or removes the checkout of main; each is refused with `busy`, or moves the branch and leaves the file. */
const OPERATIONS: Record<string, (test: TestStore) => Promise<unknown>> = {
  rollback: ({ store }) => moved(store.rollback(at("app@main@c1"))),
  promote: ({ store }) => moved(store.promote(at("app@other"), at("app"))),
  undo: ({ store }) => moved(store.undo(at("app"))),
  "rollback with refuse_in_use": ({ store }) => refused(store.rollback(at("app@main@c1"), { refuse_in_use: true })),
  "checkout --force": ({ store }) => refused(store.checkout(at("app"), { force: true })),
  destroy: ({ store }) => refused(store.destroy(at("app"), { confirm: true })),
  "destroy without a safety branch": ({ store }) => refused(store.destroy(at("app"), OUTRIGHT)),
  reap: async ({ store, clock }) => {
    await store.touch(at("app"), { ttl_ms: 1 });
    clock.advance(60_000);
    assertEquals(await store.reapExpired(), { reaped: [], failed: [] });
    await store.touch(at("app"), { ttl_ms: null });
  },
};

/**
 * Lets virtual time pass until `work` has ended, `rate` ms in one of real time; the processes that it waits for live in
 * real time.
 */
async function passTime(clock: TestStore["clock"], work: Promise<unknown>, rate = 100): Promise<void> {
  let ended = false;
  void work.catch(() => {}).finally(() => ended = true);
  while (!ended) {
    clock.advance(rate);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

async function moved(done: Promise<{ checkout_refreshed: boolean; checkout_problem?: string }>): Promise<string> {
  const { checkout_refreshed, checkout_problem } = await done;
  assertEquals(checkout_refreshed, false);
  return checkout_problem!;
}

async function refused(done: Promise<unknown>): Promise<string> {
  return (await fails("busy", done)).message;
}

for (const [name, operation] of Object.entries(OPERATIONS)) {
  scaledTest(`${name} leaves the file of an application that has it open`, async (t) => {
    for (const [kind, [before, after]] of shortened(Object.entries(APPLICATIONS), 2)) {
      await t.step(`of ${kind}`, () =>
        withApp([1, 2], async (test) => {
          const { store } = test;
          await store.fork(at("app@main@c1"), "other");
          if (name === "undo") await store.rollback(at("app@main@c2"));
          const { path } = await store.checkout(at("app"));
          const application = new Application(path);
          try {
            await application.run(before);
            const inode = Deno.statSync(path).ino;
            const message = await operation(test);
            if (message !== undefined) {
              assertStringIncludes(message as string, `python3 (process ${application.pid}) has `);
            }
            assertEquals(Deno.statSync(path).ino, inode);
            await application.run(after);
          } finally {
            await application.end();
          }
          assertEquals(rows(path), "1,2,mine");
        }));
    }
  });
}

Deno.test("every client that has a file open and idle keeps it", async (t) => {
  for (const kind of WRITER_KINDS as readonly WriterKind[]) {
    await t.step(kind, () =>
      withApp([1], async ({ store }) => {
        const { path } = await store.checkout(at("app"));
        const writer = await Writer.start(kind, path);
        await writer.run({ seq: 1, kind: "plain", sql: ["SELECT count(*) FROM t"] });
        assertMatch(await refused(store.checkout(at("app"), { force: true })), /\(process \d+\) has /);
        await writer.end();
        await store.checkout(at("app"), { force: true });
      }));
  }
});

Deno.test("a detached file that is in use is not replaced by a checkout or a session", () =>
  withApp([1, 2], async ({ store, clock }) => {
    const { path } = await store.checkout(at("app"));
    const application = new Application(path);
    await application.run("SELECT count(*) FROM t");
    assertStringIncludes(await moved(store.rollback(at("app@main@c1"))), "process");
    assertEquals((await store.status(at("app"))).state, "detached");
    await refused(store.checkout(at("app")));
    const opened = fails("busy", CaptureSession.open(store, at("app"), { flush_every_ms: 0, snapshot_every: 16 }));
    await passTime(clock, opened);
    await opened;
    await application.end();
    await store.checkout(at("app"));
    assertEquals(rows(path), "1");
  }));

Deno.test("an export does not replace a database that is in use", () =>
  withApp([1], async ({ store, directory }) => {
    const target = `${directory}/out.db`;
    sql(target, "PRAGMA journal_mode=WAL", "CREATE TABLE u(v)");
    const application = new Application(target);
    await application.run("SELECT count(*) FROM u");
    await refused(store.export(at("app"), target, { force: true }));
    await application.run("INSERT INTO u VALUES('mine')");
    await application.end();
    assertEquals(rows(target, "SELECT v FROM u"), "mine");
    await store.export(at("app"), target, { force: true });
    assertEquals(rows(target), "1");
  }));

Deno.test("an operation that waits goes on when the application closes the file", () =>
  withApp([1], async ({ store, clock }) => {
    const { path } = await store.checkout(at("app"));
    const application = new Application(path);
    await application.run("SELECT count(*) FROM t");
    const destroyed = store.destroy(at("app"), { confirm: true, wait_ms: 10_000 });
    clock.advance(5_000);
    await application.end();
    await passTime(clock, destroyed);
    assertEquals((await destroyed).safety_branch, "main-pre-destroy");
  }));

/** Inserts ever more numbers, each over a connection of its own, and prints each that is committed. */
const BUSY_APPLICATION = `
import sqlite3, sys
for n in range(1000000):
    try:
        db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0.01)
        db.execute("INSERT INTO t VALUES(?)", (n,))
        print(n, flush=True)
    except sqlite3.DatabaseError:
        pass
    finally:
        db.close()
`;

scaledTest(
  "beside operations that come at any moment every acknowledged commit stays readable",
  () =>
    withApp([0], async ({ store, clock }) => {
      await store.fork(at("app"), "other");
      const { path } = await store.checkout(at("app"));
      const child = new Deno.Command("python3", { args: ["-c", BUSY_APPLICATION, path], stdout: "piped" }).spawn();
      const acknowledged: string[] = [];
      const reading = (async () => {
        for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
          acknowledged.push(...text.split("\n").filter((line) => line !== ""));
        }
      })();
      const operations = [
        () => store.rollback(at("app@main@c0")),
        () => store.promote(at("app@other"), at("app")),
        () => store.undo(at("app")),
        () => store.checkout(at("app")),
        () => store.checkpoint(at("app"), `k${acknowledged.length}-${clock.now()}`),
      ];
      for (let round = 0; round < scaled({ short: 40, long: 300, longest: 1000 }); round++) {
        clock.advance(1);
        // An operation that meets a commit waits for its end and tries again.
        const done = operations[round * 7 % operations.length]!();
        await passTime(clock, done, 1);
        await done.catch((error) => {
          if (!hasCode(error, "busy", "dirty")) throw error;
        });
        await new Promise((resolve) => setTimeout(resolve, round % 11));
      }
      child.kill("SIGKILL");
      await child.status;
      await reading;
      const found = new Set(rows(path).split(","));
      for (const { branch, checkpoints } of await store.branches("app")) {
        for (const name of ["", ...checkpoints.map(({ name }) => `@${name}`)]) {
          for (const row of (await stored(store, `app@${branch}${name}`)).split(",")) found.add(row);
        }
      }
      assert(acknowledged.length > 10);
      assertEquals(acknowledged.filter((row) => !found.has(row)), []);
    }),
);

/**
 * Runs `work`, and has another process try to commit a row when this one has closed a database for the `nth` time.
 *
 * @returns The rows that were committed; undefined when there was no such moment.
 */
async function withCommitAtClose(
  path: string,
  nth: number,
  work: () => Promise<unknown>,
): Promise<string[] | undefined> {
  let committed: string[] | undefined;
  let count = 0;
  const restores = [Connection, CheckoutFile].map(({ prototype }) => {
    const close = prototype.close;
    prototype.close = function (this: Connection & CheckoutFile) {
      close.call(this);
      if (count++ !== nth) return;
      // There may be no file for a moment: by such an address none is made.
      const args = ["-bail", `file:${path}?mode=rw`, "INSERT INTO t VALUES('meanwhile')"];
      const { success } = new Deno.Command("sqlite3", { args, stderr: "null" }).outputSync();
      committed = success ? ["meanwhile"] : [];
    };
    return () => prototype.close = close;
  });
  try {
    await work();
  } finally {
    for (const restore of restores) restore();
  }
  return committed;
}

scaledTest("a commit at any moment in which an operation lets go of the file is kept", async (t) => {
  const operations: Record<string, (test: TestStore) => Promise<unknown>> = {
    rollback: ({ store }) => store.rollback(at("app@main@c1")),
    promote: ({ store }) => store.promote(at("app@other"), at("app")),
    undo: ({ store }) => store.undo(at("app")),
    checkpoint: ({ store }) => store.checkpoint(at("app"), "k"),
    session: async ({ store }) => {
      await (await CaptureSession.open(store, at("app"), { flush_every_ms: 0, snapshot_every: 16 })).close();
    },
  };
  for (const [name, operation] of shortened(Object.entries(operations), 3)) {
    await t.step(name, async () => {
      for (let nth = 0, met = true; met; nth++) {
        await withApp([1, 2], async (test) => {
          const { store, clock } = test;
          await store.fork(at("app@main@c1"), "other");
          await store.rollback(at("app@main@c2"));
          const { path } = await store.checkout(at("app"));
          sql(path, "INSERT INTO t VALUES('edit')");
          const committed = await withCommitAtClose(path, nth, async () => {
            for (const next of [operation, () => store.checkout(at("app"))]) {
              const done = next(test);
              await passTime(clock, done, 1);
              await done.catch((error) => {
                if (!hasCode(error, "busy", "dirty")) throw error;
              });
            }
          });
          met = committed !== undefined;
          const found = [rows(path)];
          for (const { branch } of await store.branches("app")) found.push(await stored(store, `app@${branch}`));
          const all = new Set(found.flatMap((list) => list.split(",")));
          assertEquals(["edit", ...committed ?? []].filter((row) => !all.has(row)), [], `close ${nth}`);
        });
      }
    });
  }
});

/** Runs `work` while the disk fails every `method` of the file at `path`. */
async function onBadDisk<T>(method: "openSync" | "lstatSync", path: string, work: () => T | Promise<T>): Promise<T> {
  const call = Deno[method] as (...args: unknown[]) => unknown;
  const failing = (...args: unknown[]) => {
    if (args[0] === path) throw Object.assign(new Error("Input/output error (os error 5)"), { code: "EIO" });
    return call(...args);
  };
  Object.assign(Deno, { [method]: failing });
  try {
    return await work();
  } finally {
    Object.assign(Deno, { [method]: call });
  }
}

Deno.test("a file that cannot be read for a moment is neither replaced nor removed nor disowned", () =>
  withApp([1, 2], async ({ store, edit }) => {
    await store.fork(at("app"), "x");
    const path = await edit("x", "mine");
    for (const method of ["openSync", "lstatSync"] as const) {
      for (
        const work of [
          () => store.destroy(at("app@x"), { confirm: true }),
          () => store.destroy(at("app@x"), OUTRIGHT),
          () => store.checkout(at("app@x"), { force: true }),
        ]
      ) {
        assertStringIncludes((await onBadDisk(method, path, () => fails("unavailable", work()))).hint!, "dmesg");
        assertEquals(rows(path), "1,2,mine", `${method} ${work}`);
      }
    }
    const session = await CaptureSession.open(store, at("app@x"), { flush_every_ms: 0, snapshot_every: 16 });
    try {
      await onBadDisk("lstatSync", `${path}-wal`, () => session.flush().catch(() => {}));
      sql(path, "INSERT INTO t VALUES('later')");
      await session.flush();
    } finally {
      await session.close();
    }
    assertEquals(await stored(store, "app@x"), "1,2,mine,later");
  }));

Deno.test("destroy() keeps a file that is no database any more, and says where", async () => {
  const lines: string[] = [];
  await withApp([1], async ({ store }) => {
    await store.fork(at("app"), "odd");
    const { path } = await store.checkout(at("app@odd"));
    Deno.writeFileSync(path, new Uint8Array(8192).fill(7));
    await store.destroy(at("app@odd"), { confirm: true });
    const folder = /is kept in (.*)$/.exec(lines.join("\n"))![1]!;
    assertEquals(Deno.readFileSync(`${folder}/checkouts/app/odd.db`), new Uint8Array(8192).fill(7));
  }, { log: (line) => lines.push(line) });
});
