import { assert, assertEquals } from "@std/assert";
import { dirname } from "@std/path/dirname";
import { DatabaseSync } from "node:sqlite";
import { copyAside } from "../../tests/support/cut_off.ts";
import { onStore } from "../../tests/support/session.ts";
import { at, fails, openAt, rows, sql, stored, withDirectory } from "../../tests/support/stores.ts";
import { LocalBackend } from "../backend/local.ts";
import type { Store } from "../store/store.ts";
import { CaptureSession } from "./session.ts";
import { longTest } from "../../tests/support/long.ts";

/** A directory that is gone afterwards. */
async function temporaryDirectory(): Promise<{ path: string } & AsyncDisposable> {
  const path = await Deno.makeTempDir();
  return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
}

Deno.test("a record from the opening proves what was flushed since, with every later commit", () =>
  onStore(async (scene) => {
    const session = await scene.open();
    const application = new DatabaseSync(session.checkout);
    const { lease } = (await scene.store.context.refs.read("app", "main")).ref;
    const record = Deno.readTextFileSync(`${session.checkout}.session`);
    application.exec("CREATE TABLE t(v); INSERT INTO t VALUES(1)");
    await session.flush();
    application.exec("INSERT INTO t VALUES(2)");
    await session.flush();
    application.exec("INSERT INTO t VALUES(3)");
    const { captured, digest } = (await scene.store.context.refs.read("app", "main")).ref;
    assertEquals([captured?.digest, captured?.holder], [digest, lease!.holder]);
    await using made = await temporaryDirectory();
    const cut = `${made.path}/cut`;
    await copyAside(scene.directory, cut);
    Deno.writeTextFileSync(`${cut}/checkouts/app/main.db.session`, record);
    application.close();
    await session.close();
    using store = await openAt(cut);
    const log: string[] = [];
    const again = await CaptureSession.open(store, at("app"), {
      flush_every_ms: 0,
      snapshot_every: 16,
      log: (line) => log.push(line),
    });
    assert(log.some((line) => line.includes("resumed")), log.join());
    assertEquals((await again.flush()).kind, "segment");
    await again.close();
    assertEquals(await stored(store, "app"), "1,2,3");
  }, { on_disk: true }));

/** Two hosts on one store: each has a workspace of its own. */
async function onTwoHosts(work: (here: Store, there: Store) => Promise<void>): Promise<void> {
  await withDirectory(async (directory) => {
    const backend = await LocalBackend.open(`${directory}/store`);
    using here = await openAt(`${directory}/here`, { backend });
    using there = await openAt(`${directory}/there`, { backend });
    await here.create("app");
    await work(here, there);
  });
}

const OPTIONS = { flush_every_ms: 0, snapshot_every: 2 };

/** What an application that stays connected does to a checkout whose session has ended on this host. */
const STAYING: Record<string, (application: DatabaseSync) => void> = {
  "stays": () => {},
  "leaves": (application) => application.close(),
  "reads when the session closes": (application) => application.exec("BEGIN; SELECT * FROM t"),
};

longTest("a checkout that was handed over is not dirty, whatever its application did at the end", async (t) => {
  for (const [name, after] of Object.entries(STAYING)) {
    await t.step(name, () =>
      onTwoHosts(async (here, there) => {
        const first = await CaptureSession.open(here, at("app"), OPTIONS);
        const application = new DatabaseSync(first.checkout, { timeout: 5_000 });
        application.exec("CREATE TABLE t(v); INSERT INTO t VALUES(1)");
        if (name.startsWith("reads")) after(application);
        await first.close();
        if (!name.startsWith("reads")) after(application);
        for (const value of [2, 3, 4]) {
          const second = await CaptureSession.open(there, at("app"), OPTIONS);
          const other = new DatabaseSync(second.checkout);
          other.exec(`INSERT INTO t VALUES(${value})`);
          await second.flush();
          other.exec(`INSERT INTO t VALUES('${value}a')`);
          other.close();
          await second.close();
        }
        if (application.isOpen) {
          // It is no edit that keeps the file from being replaced.
          await fails("busy", CaptureSession.open(here, at("app"), OPTIONS));
          application.close();
        }
        const again = await CaptureSession.open(here, at("app"), OPTIONS);
        assertEquals(rows(again.checkout), "1,2,2a,3,3a,4,4a");
        await again.close();
      }));
  }
});

Deno.test("a checkout that was edited after it was handed over is dirty, and left alone", () =>
  onTwoHosts(async (here, there) => {
    const first = await CaptureSession.open(here, at("app"), OPTIONS);
    const application = new DatabaseSync(first.checkout);
    application.exec("CREATE TABLE t(v); INSERT INTO t VALUES(1)");
    await first.close();
    application.exec("INSERT INTO t VALUES('mine')");
    const second = await CaptureSession.open(there, at("app"), OPTIONS);
    const other = new DatabaseSync(second.checkout);
    other.exec("INSERT INTO t VALUES('theirs')");
    other.close();
    await second.close();
    const { hint } = await fails("dirty", CaptureSession.open(here, at("app"), OPTIONS));
    assert(hint?.includes(".backup"));
    assertEquals(rows(first.checkout), "1,mine");
    application.close();
    assertEquals(await stored(here, "app"), "1,theirs");
  }));

Deno.test("what is committed after the last flush is proved by the log, however long ago it was", () =>
  onStore(async (scene) => {
    const session = await scene.open();
    const application = new DatabaseSync(session.checkout);
    application.exec("CREATE TABLE t(v); INSERT INTO t VALUES(1)");
    await session.flush();
    await scene.pass(3_000);
    for (const value of [2, 3, 4]) {
      application.exec(`INSERT INTO t VALUES(${value})`);
      await scene.pass(3_000);
    }
    await using made = await temporaryDirectory();
    await copyAside(scene.directory, `${made.path}/cut`);
    application.close();
    await session.close();
    using store = await openAt(`${made.path}/cut`);
    store.context.boot = () => Promise.resolve("another");
    const again = await CaptureSession.open(store, at("app"), OPTIONS);
    assertEquals(again.recovery, { outcome: "resumed" });
    assertEquals(rows(again.checkout), "1,2,3,4");
    await again.close();
  }, { on_disk: true }));

/** What may have become of a checkout whose session was cut off, beside what it was before the flush. */
const LEFT: Record<string, { leave: (path: string, before: string) => void; same?: string; other: string }> = {
  "the file's time, and not its content, was written": {
    leave: (path, before) => {
      Deno.removeSync(`${path}-wal`);
      Deno.copyFileSync(before, path);
    },
    other: "1,2",
  },
  "an application went on, and left": {
    leave: (path) => sql(path, "INSERT INTO t VALUES(3)", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"),
    same: "1,2,3",
    other: "1,2",
  },
};

Deno.test("a log whose folding a full disk ended halfway is taken up", () =>
  onStore(async (scene) => {
    const source = `${scene.directory}/source.db`;
    sql(source, "PRAGMA journal_mode=WAL; CREATE TABLE t(v); INSERT INTO t VALUES('stored')");
    await scene.store.create("full", { from: source });
    const session = await CaptureSession.open(scene.store, at("full"), OPTIONS);
    const application = new DatabaseSync(session.checkout);
    application.exec("INSERT INTO t VALUES(hex(zeroblob(20000)))");
    await using made = await temporaryDirectory();
    const cut = `${made.path}/cut`;
    await copyAside(scene.directory, cut);
    application.close();
    await session.close();
    // The first page went into the main file, and says that there are more than the disk had room for.
    const checkout = `${cut}/checkouts/full/main.db`;
    const [frame_header, page_size] = [24, 4_096];
    const frames = Deno.readFileSync(`${checkout}-wal`).subarray(32);
    const first = frames.subarray(frame_header, frame_header + page_size);
    assertEquals(new DataView(frames.buffer, frames.byteOffset).getUint32(0), 1);
    const pages = new DataView(first.buffer, first.byteOffset).getUint32(28);
    assert(pages * page_size > Deno.statSync(checkout).size);
    using main = Deno.openSync(checkout, { write: true });
    main.writeSync(first);
    using store = await openAt(cut);
    const again = await CaptureSession.open(store, at("full"), OPTIONS);
    assertEquals(rows(again.checkout).length, "stored,".length + 40_000);
    await again.close();
    assertEquals((await stored(store, "full")).length, "stored,".length + 40_000);
  }, { on_disk: true }));

Deno.test("without a log the time of a file proves something in one start of the machine alone", async (t) => {
  for (const [name, { leave, ...expected }] of Object.entries(LEFT)) {
    for (const start of ["same", "other"] as const) {
      if (expected[start] === undefined) continue;
      await t.step(`${name}, ${start} start`, () =>
        onStore(async (scene) => {
          await using made = await temporaryDirectory();
          const session = await scene.open();
          const application = new DatabaseSync(session.checkout);
          application.exec("CREATE TABLE t(v); INSERT INTO t VALUES(1)");
          await copyAside(dirname(session.checkout), `${made.path}/before`);
          sql(`${made.path}/before/main.db`, "PRAGMA wal_checkpoint(TRUNCATE)");
          application.exec("INSERT INTO t VALUES(2)");
          await session.flush();
          const cut = `${made.path}/cut`;
          await copyAside(scene.directory, cut);
          application.close();
          await session.close();
          leave(`${cut}/checkouts/app/main.db`, `${made.path}/before/main.db`);
          using store = await openAt(cut);
          if (start === "other") store.context.boot = () => Promise.resolve("another");
          const again = await CaptureSession.open(store, at("app"), OPTIONS);
          assertEquals(rows(again.checkout), expected[start]);
          await again.close();
          assertEquals(await stored(store, "app"), expected[start]);
        }, { on_disk: true }));
    }
  }
});

Deno.test("later content that SQLite finds damaged is set aside as it was found, log and all", () =>
  onStore(async (scene) => {
    await using made = await temporaryDirectory();
    const session = await scene.open();
    const application = new DatabaseSync(session.checkout);
    application.exec("CREATE TABLE t(v); CREATE INDEX i ON t(v); INSERT INTO t VALUES(1)");
    await session.flush();
    const cut = `${made.path}/cut`;
    await copyAside(scene.directory, cut);
    application.close();
    await session.close();
    const path = `${cut}/checkouts/app/main.db`;
    // The head's place is gone, a row is not in the index as in the table, and a commit is in a new log alone.
    sql(path, "PRAGMA wal_checkpoint(TRUNCATE)");
    sql(path, "INSERT INTO t VALUES(2)", "PRAGMA wal_checkpoint(TRUNCATE)");
    const main = Deno.readFileSync(path);
    // The last cell of the index.
    Deno.writeFileSync(path, main.with(main.length - 1, 77));
    const late = new DatabaseSync(path);
    late.exec("PRAGMA wal_autocheckpoint=0; INSERT INTO t VALUES(3)");
    await copyAside(`${cut}/checkouts/app`, `${made.path}/left`);
    late.close();
    for (const suffix of ["", "-wal"]) Deno.copyFileSync(`${made.path}/left/main.db${suffix}`, path + suffix);
    using store = await openAt(cut);
    const again = await CaptureSession.open(store, at("app"), OPTIONS);
    assertEquals(again.recovery?.outcome, "restored");
    assertEquals(rows(again.checkout), "1");
    await again.close();
    for (const suffix of ["", "-wal"]) {
      const kept = `${again.recovery!.set_aside}/checkouts/app/main.db${suffix}`;
      assertEquals(Deno.readFileSync(kept), Deno.readFileSync(`${made.path}/left/main.db${suffix}`), suffix);
    }
  }, { on_disk: true }));

/** Operations that read a branch, or refuse to replace its checkout. */
const READING: Record<string, (store: Store, directory: string) => Promise<unknown>> = {
  branches: (store) => store.branches(),
  status: (store) => store.status(at("app")),
  export: (store, directory) => store.export(at("app"), `${directory}/out.db`),
  fork: (store) => store.fork(at("app"), "another"),
  diff: (store) => store.diff(at("app"), at("app@again")),
  promote: (store) => store.promote(at("app"), at("app@again")),
  verify: (store) => store.verifyAll(),
  checkout: (store) => fails("dirty", store.checkout(at("app"))),
  "a repair that looks for pages": async (store, directory) => {
    sql((await store.checkout(at("app@again"))).path, "INSERT INTO t VALUES(4)");
    await store.checkpoint(at("app@again"), "one");
    const { ref } = await store.context.refs.read("app", "again");
    const { objects } = await store.context.chains.resolve(ref.lineage, ref.txid);
    const damaged = `${directory}/${objects.at(-1)!.key}`;
    Deno.writeFileSync(damaged, new Uint8Array(Deno.statSync(damaged).size));
    await store.repair({ branch: { db: "app", branch: "again" } });
  },
};

Deno.test("what reads a branch leaves the log of its cut-off session, which is then taken up", async (t) => {
  await onStore(async (scene) => {
    await using made = await temporaryDirectory();
    const session = await scene.open();
    const application = new DatabaseSync(session.checkout);
    application.exec("CREATE TABLE t(v); INSERT INTO t VALUES(1)");
    await session.flush();
    await scene.store.fork(at("app"), "again");
    application.exec("INSERT INTO t VALUES(2)");
    await copyAside(scene.directory, `${made.path}/cut`);
    application.close();
    await session.close();
    for (const [name, read] of Object.entries(READING)) {
      await t.step(name, async () => {
        const directory = `${made.path}/${name}`;
        await copyAside(`${made.path}/cut`, directory);
        using store = await openAt(directory);
        await read(store, directory);
        // As after another start of the machine: nothing but the log proves what was not flushed.
        store.context.boot = () => Promise.resolve("another");
        const again = await CaptureSession.open(store, at("app"), OPTIONS);
        assertEquals([again.recovery?.outcome, rows(again.checkout)], ["resumed", "1,2"]);
        await again.close();
        assertEquals(await stored(store, "app"), "1,2");
      });
    }
  }, { on_disk: true });
});
