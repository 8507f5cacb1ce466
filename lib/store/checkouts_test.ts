import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { createHash } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import { MIN_XFS_MB, mountOver, whyNotMountable, withMount } from "../../tests/support/mounts.ts";
import { at, fails, openAt, OUTRIGHT, rows, sql, stored, type TestStore, withApp } from "../../tests/support/stores.ts";
import { CaptureSession } from "../capture/session.ts";
import { BRANCH_STATES } from "./results.ts";
import type { Sidecar } from "./workspace.ts";

/** What a look says of main's checkout. */
async function look({ store }: TestStore) {
  const { ref } = await store.context.refs.read("app", "main");
  const chain = await store.context.chains.resolve(ref.lineage, ref.txid);
  return store.context.checkouts.inspect({ db: "app", branch: "main", ref, chain });
}

function restamp(path: string, change: Partial<Sidecar>): void {
  const { sum: _, ...sidecar } = JSON.parse(Deno.readTextFileSync(`${path}.sum`)) as Sidecar & { sum: string };
  Deno.writeTextFileSync(`${path}.sum`, JSON.stringify({ ...sidecar, ...change }));
}

// conformance: 8.stat_clean 2.files.sum
Deno.test("a checkout is clean by stat alone only if identity, size, time, counter and margin agree", async (t) => {
  const ns = (ms: number) => `${ms}000000`;
  const cases: [string, (path: string, sidecar: Sidecar) => void, boolean][] = [
    ["untouched", () => {}, true],
    ["another size", (path, { size }) => restamp(path, { size: size + 4096 }), false],
    ["a file that grew, its time put back", (path) => {
      const { mtime } = Deno.statSync(path);
      Deno.writeFileSync(path, new Uint8Array(4096), { append: true });
      Deno.utimeSync(path, mtime!, mtime!);
    }, false],
    ["a later time", (path) => Deno.utimeSync(path, new Date(), new Date()), false],
    ["a time 1 ms earlier", (path, { mtime_ns }) => restamp(path, { mtime_ns: ns(Number(mtime_ns) / 1e6 + 1) }), false],
    [
      "another change counter",
      (path, { change_counter }) => restamp(path, { change_counter: change_counter + 1 }),
      false,
    ],
    ["another chain", (path) => restamp(path, { chain_id: "0".repeat(64) }), true],
    ["no word of the content beside the keys", (path) => restamp(path, { digest: undefined! }), true],
    ["other content under the same keys", (path) => restamp(path, { digest: "0".repeat(16) }), true],
    [
      "exactly 1 s between time and stamp",
      (path, { mtime_ns }) => restamp(path, { stamped_ns: ns(Number(mtime_ns) / 1e6 + 1000) }),
      false,
    ],
    [
      "1.001 s between time and stamp",
      (path, { mtime_ns }) => restamp(path, { stamped_ns: ns(Number(mtime_ns) / 1e6 + 1001) }),
      true,
    ],
    ["a stamp before the time", (path) => restamp(path, { stamped_ns: "0" }), false],
    ["something in the log", (path) => Deno.writeTextFileSync(`${path}-wal`, "x"), false],
    ["an empty log", (path) => Deno.writeTextFileSync(`${path}-wal`, ""), true],
  ];
  const elsewhere = new Set(["another chain", "other content under the same keys"]);
  for (const [name, spoil, clean] of cases) {
    await t.step(name, () =>
      withApp([1], async (test) => {
        const path = await test.edit("main");
        spoil(path, JSON.parse(Deno.readTextFileSync(`${path}.sum`)));
        assertEquals((await look(test))?.stat_clean, clean);
        assertEquals((await look(test))?.identity, elsewhere.has(name) ? "foreign" : "current");
      }));
  }
  await t.step("a sidecar that is missing, no JSON or of another shape", () =>
    withApp([1], async (test) => {
      const path = await test.edit("main");
      const text = Deno.readTextFileSync(`${path}.sum`);
      const { sum: _, ...good } = JSON.parse(text) as Sidecar & { sum: string };
      const spoilt = [{ mtime_ns: "soon" }, { stamped_ns: "1.5" }, { stamped_ns: "" }, { chain_id: 1 }];
      const shapes = spoilt.map((field) => JSON.stringify({ ...good, ...field }));
      const flipped = text.replace(`"size":`, `"sizf":`);
      for (const text of ["", "{", "null", `{"size":1}`, flipped, JSON.stringify({ ...good, sun: "" }), ...shapes]) {
        Deno.writeTextFileSync(`${path}.sum`, text);
        assertEquals((await look(test))?.identity, "unknown", text);
        assertEquals((await test.store.branches()).map(({ state }) => state), ["idle"], text);
      }
      Deno.removeSync(`${path}.sum`);
      Deno.mkdirSync(`${path}.sum`);
      assertEquals((await look(test))?.identity, "unknown");
    }));
});

Deno.test("a checkout is clean from the moment it is made, without waiting for the margin", () =>
  withApp([1], async (test) => {
    await test.edit("main");
    assertEquals((await look(test))?.stat_clean, true);
    assertEquals((await test.store.checkout(at("app"))).source, "kept");
    test.faults.plan = ({ method }) =>
      method.startsWith("get") && method !== "get" ? { kind: "before", code: "denied" } : undefined;
    assertEquals((await test.store.checkout(at("app"))).source, "kept");
  }));

Deno.test("edits are never overwritten, in any state of the sidecars, and the hint keeps them", async (t) => {
  const spoils: [string, (path: string) => void][] = [
    ["as they were", () => {}],
    ["no sidecar", (path) => Deno.removeSync(`${path}.sum`)],
    ["a sidecar of another chain", (path) => restamp(path, { chain_id: "0".repeat(64) })],
    ["a sidecar of other content under the same keys", (path) => restamp(path, { digest: "0".repeat(16) })],
    [
      "a session record of another history",
      (path) => Deno.writeTextFileSync(`${path}.session`, JSON.stringify({ lineage: "f".repeat(32), heads: [] })),
    ],
    ["a spoilt session record", (path) => Deno.writeTextFileSync(`${path}.session`, "{")],
  ];
  for (const [name, spoil] of spoils) {
    await t.step(name, () =>
      withApp([1], async ({ store, edit }) => {
        const path = await edit("main", "mine");
        spoil(path);
        const { hint } = await fails("dirty", store.checkout(at("app")));
        assertEquals(rows(path), "1,mine");
        assert(["dirty", "detached"].includes((await store.status(at("app"))).state));
        const storable = name === "as they were" || name === "a spoilt session record";
        assertEquals([hint?.includes("checkpoint"), hint?.includes(".backup")], [storable, !storable]);
        if (storable) await store.checkpoint(at("app"), "kept");
        else await fails("dirty", store.checkpoint(at("app"), "kept"));
        await store.checkout(at("app"), { force: true });
        assertEquals(rows(path), storable ? "1,mine" : "1");
      }));
  }
});

Deno.test("an edit that only an application's open log holds is an edit", () =>
  withApp([1], async ({ store, edit }) => {
    const path = await edit("main");
    const application = new DatabaseSync(path);
    application.exec("INSERT INTO t VALUES('in the log')");
    assertEquals((await store.status(at("app"))).state, "dirty");
    await fails("dirty", store.checkout(at("app")));
    await store.checkpoint(at("app"), "live");
    assertEquals(await stored(store, "app"), "1,in the log");
    application.exec("INSERT INTO t VALUES('later')");
    application.close();
    assertEquals([rows(path), (await store.status(at("app"))).state], ["1,in the log,later", "dirty"]);
  }));

Deno.test("an edit that was taken back is no edit", () =>
  withApp([1], async ({ store, edit }) => {
    const path = await edit("main");
    const before = Deno.readFileSync(path);
    sql(path, "INSERT INTO t VALUES('x')");
    Deno.writeFileSync(path, before);
    assertEquals((await store.status(at("app"))).state, "idle");
    assertEquals((await store.checkout(at("app"))).source, "kept");
  }));

// conformance: 3.active 3.dirty 3.detached 3.idle 3.precedence 3.leased_and_edited 3.computed
Deno.test("states: active before dirty before detached before idle", () =>
  withApp([1, 2], async ({ store, edit, clock }) => {
    const state = async () => (await store.status(at("app"))).state;
    assertEquals(BRANCH_STATES.indexOf("active") < BRANCH_STATES.indexOf("dirty"), true);
    const path = await edit("main");
    assertEquals(await state(), "idle");
    sql(path, "INSERT INTO t VALUES('x')");
    assertEquals(await state(), "dirty");
    const lease = { holder: "other:0123456789abcdef:01234567", expires_at: new Date(clock.now() + 1000).toISOString() };
    await store.context.refs.update("app", "main", (ref) => ({ ...ref, lease }));
    assertEquals(await state(), "active");
    clock.advance(1000);
    assertEquals(await state(), "dirty");
    await store.rollback(at("app@main@c1"));
    assertEquals(await state(), "detached");
    await store.checkout(at("app"), { force: true });
    assertEquals(await state(), "idle");
    Deno.removeSync(path);
    assertEquals(await state(), "idle");
  }));

Deno.test("a log that was left beside an old checkout never meets a new one", () =>
  withApp([1, 2], async ({ store, edit }) => {
    const path = await edit("main");
    // A process that died: its commit is in the log alone.
    const dead = new DatabaseSync(path);
    dead.exec("INSERT INTO t VALUES('dead')");
    Deno.copyFileSync(path, `${path}.main`);
    Deno.copyFileSync(`${path}-wal`, `${path}.log`);
    dead.close();
    Deno.renameSync(`${path}.main`, path);
    Deno.renameSync(`${path}.log`, `${path}-wal`);
    await store.checkout(at("app"), { force: true });
    assertEquals(rows(path), "1,2");
    for (const suffix of ["-wal", "-shm", "-journal", ".session"]) {
      Deno.writeTextFileSync(`${path}${suffix}`, "of another age");
    }
    await store.checkout(at("app"), { force: true });
    assertEquals([rows(path), (await store.status(at("app"))).state], ["1,2", "idle"]);
  }));

function hashOf(path: string): string {
  return createHash("sha256").update(Deno.readFileSync(path)).digest("hex");
}

const why = await whyNotMountable("xfs");
const onXfs = (name: string, work: (root: string) => Promise<void>) =>
  Deno.test({ name: name + why, ignore: why !== "", fn: () => withMount("xfs", MIN_XFS_MB, work) });

const pages = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50) " +
  "INSERT INTO big SELECT randomblob(4000) FROM n";

// conformance: 2.files.shadow
onXfs(
  "with a shadow a checkpoint is a segment of what changed; without one it is a snapshot",
  (root) =>
    withApp([], async ({ store, edit }) => {
      const path = await edit("main");
      sql(path, "CREATE TABLE big(v)", pages);
      assertEquals((await store.checkpoint(at("app"), "big")).kind, "snapshot"); // most pages are new
      await edit("main", 1);
      const small = await store.checkpoint(at("app"), "one");
      assertEquals([small.kind, small.pages < 5], ["segment", true]);
      await edit("main", 2);
      Deno.removeSync(`${path}.shadow`);
      assertEquals((await store.checkpoint(at("app"), "two")).kind, "snapshot");
      await edit("main", 3);
      Deno.writeTextFileSync(`${path}.shadow.new`, "something else");
      Deno.renameSync(`${path}.shadow.new`, `${path}.shadow`);
      assertEquals((await store.checkpoint(at("app"), "three")).kind, "snapshot");
      sql(path, "DELETE FROM big");
      sql(path, "VACUUM");
      await store.checkpoint(at("app"), "shrunk");
      await edit("main", 4);
      await store.checkpoint(at("app"), "grown");
      assertEquals(await stored(store, "app@main@two"), "1,2");
      assertEquals(await stored(store, "app"), "1,2,3,4");
      assertEquals((await store.verify(at("app"))).problems, []);
    }, { parent: root }),
);

onXfs(
  "what a checkout's file has behind its last page is not in the shadow: pages that the database grows by are stored",
  (root) =>
    withApp([], async ({ store, edit }) => {
      const path = await edit("main");
      sql(path, "CREATE TABLE big(v)", pages);
      await store.checkpoint(at("app"), "big");
      const { size } = Deno.statSync(path);
      Deno.truncateSync(path, size + 64 * 4096);
      assertEquals((await store.checkpoint(at("app"), "padded")).pages, 0);
      // The last page of such a value is all zeros, as the padding was.
      sql(path, "INSERT INTO big VALUES(zeroblob(40000))");
      assertEquals((await store.checkpoint(at("app"), "grown")).kind, "segment");
      assertEquals((await store.verify(at("app"))).problems, []);
    }, { parent: root }),
);

onXfs(
  "a checkout that cannot be cloned, though the store's directory clones, is stored by its bytes",
  (root) =>
    withApp([], async ({ store, directory, edit }) => {
      Deno.mkdirSync(`${directory}/checkouts`, { mode: 0o700 });
      await using _other = await mountOver(`${directory}/checkouts`, 16);
      const path = await edit("main", "mine");
      assertEquals((await store.checkpoint(at("app"), "c")).kind, "snapshot");
      assertEquals((await store.checkout(at("app"))).source, "kept");
      sql(path, "INSERT INTO t VALUES('more')");
      await store.checkpoint(at("app"), "d");
      const session = await CaptureSession.open(store, at("app"), { flush_every_ms: 0, snapshot_every: 1 });
      for (const kind of ["segment", "snapshot"] as const) {
        sql(path, "INSERT INTO t VALUES('live')");
        assertEquals((await session.flush()).kind, kind);
      }
      await session.close();
      assertEquals((await store.verify(at("app"))).problems, []);
      assertEquals(await stored(store, "app@main@c"), "mine");
      assertEquals(await stored(store, "app"), "mine,more,live,live");
    }, { parent: root }),
);

onXfs(
  "a full copy is made of what the store has, not of an entry that a fault of the disk has changed",
  (root) =>
    withApp([], async ({ store, directory, edit }) => {
      sql(await edit("main"), "CREATE TABLE big(v)", pages);
      await store.checkpoint(at("app"), "big");
      await edit("main", 1);
      assertEquals((await store.checkpoint(at("app"), "one")).kind, "segment");
      const content = await stored(store, "app", "SELECT hex(v) FROM big");
      await store.fork(at("app"), "b");
      await store.checkout(at("app@b"));
      const entries = `${directory}/checkouts-ro/app/~by-chain`;
      for (const { name } of Deno.readDirSync(entries)) {
        if (!name.endsWith(".db")) continue;
        const { mtime, size } = Deno.statSync(`${entries}/${name}`);
        using file = Deno.openSync(`${entries}/${name}`, { write: true });
        file.seekSync(size >> 1, Deno.SeekMode.Start);
        file.writeSync(new Uint8Array(64));
        file.utimeSync(mtime!, mtime!);
      }
      await store.compact(at("app"));
      assertEquals((await store.fork(at("app@main@one"), "c", { materialize: true })).mode, "materialized");
      for (const address of ["app", "app@c"]) {
        assertEquals(await stored(store, address, "SELECT hex(v) FROM big"), content);
      }
    }, { parent: root }),
);

// conformance: 2.files.by_chain 8.by_chain_entries
onXfs(
  "a checkout is a clone of an immutable entry, shared by all branches with the same chain",
  (root) =>
    withApp([1], async ({ store, directory, edit }) => {
      for (const [branch, source] of [["b", "materialized"], ["c", "cached"]] as const) {
        await store.fork(at("app"), branch);
        assertEquals((await store.checkout(at(`app@${branch}`))).source, source);
      }
      const entries = () =>
        [...Deno.readDirSync(`${directory}/checkouts-ro/app/~by-chain`)].map(({ name }) => name).filter((name) =>
          name.endsWith(".db")
        );
      const known = entries().length;
      for (const name of entries()) {
        const { mode } = Deno.statSync(`${directory}/checkouts-ro/app/~by-chain/${name}`);
        assertEquals(mode! & 0o777, 0o400);
      }
      assertEquals(Deno.statSync(`${directory}/checkouts-ro/app/~by-chain`).mode! & 0o777, 0o700);
      const checkout = await store.path(at("app@c"));
      assertEquals([checkout, `${checkout}.shadow`].map((path) => Deno.statSync(path).mode! & 0o777), [0o600, 0o400]);
      await edit("b", "mine");
      assertEquals(rows(await edit("main")), "1");
      await store.destroy(at("app@b"), OUTRIGHT);
      assertEquals(entries().length, known);
      Deno.removeSync(`${directory}/checkouts-ro`, { recursive: true });
      Deno.removeSync(`${directory}/checkouts`, { recursive: true });
      assertEquals(rows((await store.checkout(at("app"))).path), "1");
    }, { parent: root }),
);

// conformance: 8.by_chain_entries
onXfs(
  "a database has at most 64 entries, the least used go first, and what was cloned from them stays",
  (root) =>
    withApp([], async ({ store, directory, clock }) => {
      const folder = `${directory}/checkouts-ro/app/~by-chain`;
      await store.checkout(at("app"));
      const [oldest] = [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) => name.endsWith(".db"));
      for (let i = 0; i < 70; i++) {
        clock.advance(1000);
        const name = i.toString(16).padStart(64, "0");
        Deno.writeTextFileSync(`${folder}/${name}.db`, "x");
        Deno.writeTextFileSync(`${folder}/${name}.db.last-used`, "");
        Deno.utimeSync(`${folder}/${name}.db.last-used`, clock.now() / 1000, clock.now() / 1000);
      }
      clock.advance(1000);
      await store.checkout(at("app"), { force: true }); // used again: now the newest
      clock.advance(1000);
      sql(await store.path(at("app")), "INSERT INTO t VALUES(1)");
      await store.checkpoint(at("app"), "one");
      await store.checkout(at("app"), { force: true }); // builds an entry, and prunes
      const left = [...Deno.readDirSync(folder)].map(({ name }) => name);
      assertEquals(left.filter((name) => name.endsWith(".db")).length, 64);
      assert(left.includes(oldest!));
      assertEquals(left.includes(`${"0".repeat(64)}.db`), false);
      assertEquals(left.filter((name) => name.startsWith("0".repeat(64))), []);
      assert(left.includes(`${(69).toString(16).padStart(64, "0")}.db`));
    }, { parent: root }),
);

for (const [where, run] of [["in a plain directory", undefined], ["where blocks are shared", withMount]] as const) {
  const ignore = run !== undefined && why !== "";
  // conformance: 2.ro_path 2.last_used 2.no_clone
  Deno.test({
    name: `a read-only checkout is the same bytes however often it is rebuilt, ${where}${ignore ? why : ""}`,
    ignore,
    fn: async () => {
      const test = (parent?: string) =>
        withApp([1, 2], async ({ store, directory, clock }) => {
          const first = await store.checkout(at("app@main@c1"));
          assertEquals([first.read_only, first.source, rows(first.path)], [true, "materialized", "1"]);
          const bytes = hashOf(first.path);
          assertEquals((await store.checkout(at("app@main@c1"))).source, "cached");
          assertEquals(Deno.statSync(first.path).mode! & 0o777, 0o400);
          const used = () => Deno.statSync(`${first.path}.last-used`).mtime!.getTime();
          const before = used();
          clock.advance(5000);
          await store.checkout(at("app@main@c1"));
          assertEquals(used() - before, 5000);
          for (
            const lose of [
              () => Deno.removeSync(first.path),
              () => Deno.removeSync(`${first.path}.sum`),
              () => Deno.removeSync(`${directory}/checkouts-ro`, { recursive: true }),
              // A program with every right wrote to it.
              () => {
                Deno.chmodSync(first.path, 0o600);
                sql(first.path, "UPDATE t SET v = 'spoilt'");
              },
              () => {
                const writer = new DatabaseSync(first.path);
                writer.exec("PRAGMA journal_mode=WAL; UPDATE t SET v = 'spoilt'");
                Deno.copyFileSync(`${first.path}-wal`, `${first.path}.log`);
                writer.close();
                Deno.renameSync(`${first.path}.log`, `${first.path}-wal`);
              },
            ]
          ) {
            lose();
            assertEquals((await store.checkout(at("app@main@c1"))).path, first.path);
            assertEquals(hashOf(first.path), bytes, String(lose));
            assertEquals(rows(first.path), "1");
          }
          assertNotEquals(hashOf((await store.checkout(at("app@main@c2"))).path), bytes);
        }, parent === undefined ? {} : { parent });
      if (run === undefined) await test();
      else await run("xfs", MIN_XFS_MB, test);
    },
  });
}

Deno.test("a checkout whose place cannot be cleared stays as it is, with its edits", () =>
  withApp([1], async ({ store, directory, edit }) => {
    const path = await edit("main", "mine");
    Deno.mkdirSync(`${path}.last-used/strange`, { recursive: true });
    await fails("unavailable", store.checkout(at("app"), { force: true }));
    assertEquals(rows(path), "1,mine");
    assertEquals([...Deno.readDirSync(`${directory}/checkouts/app`)].filter(({ name }) => name.includes(".tmp")), []);
  }));

Deno.test("a read-only checkout follows the checkpoint when another host recreates the branch", () =>
  withApp([1], async ({ store, directory }) => {
    const { path } = await store.checkout(at("app@main@c1"));
    assertEquals(rows(path), "1");
    using other = await openAt(`${directory}/elsewhere`, {
      backend: store.context.backend,
      clock: store.context.clock,
    });
    await other.destroy(at("app"), OUTRIGHT);
    await other.create("app");
    sql((await other.checkout(at("app"))).path, "CREATE TABLE t(v)", "INSERT INTO t VALUES('anew')");
    await other.checkpoint(at("app"), "c1");
    assertEquals(rows((await store.checkout(at("app@main@c1"))).path), "anew");
  }));

Deno.test("a held branch is not checked out, even if its checkout is clean", () =>
  withApp([1], async ({ store, edit, clock }) => {
    await edit("main");
    const expires_at = new Date(clock.now() + 1000).toISOString();
    const lease = { holder: "other:0123456789abcdef:01234567", expires_at };
    await store.context.refs.update("app", "main", (ref) => ({ ...ref, lease }));
    await fails("lease_held", store.checkout(at("app")));
    clock.advance(1000);
    assertEquals((await store.checkout(at("app"))).source, "kept");
  }));

Deno.test("a session record speaks for a checkout only if it names the head that the branch has", () =>
  withApp([1], async (test) => {
    const path = await test.edit("main");
    const { lineage, txid, digest } = (await test.store.context.refs.read("app", "main")).ref;
    const [head, elsewhere] = [{ txid, digest, mark: null }, "f".repeat(32)];
    const cases = [
      [{ lineage, heads: [head] }, "current"],
      [{ lineage, heads: [{ ...head, txid: txid - 1 }, head] }, "current"],
      [{ lineage: elsewhere, heads: [{ ...head, lineage }] }, "current"],
      [{ lineage: elsewhere, heads: [head] }, "foreign"],
      [{ lineage, heads: [{ ...head, lineage: elsewhere }] }, "foreign"],
      [{ lineage, heads: [{ ...head, digest: "0".repeat(16) }] }, "foreign"],
      [{ lineage, heads: [{ ...head, txid: txid + 1 }] }, "foreign"],
      [{ lineage, heads: [] }, "foreign"],
    ] as const;
    for (const [record, identity] of cases) {
      test.store.context.workspace.writeSessionRecord(path, { ...record, heads: [...record.heads] });
      const { identity: found, interrupted, stat_clean } = (await look(test))!;
      assertEquals([found, interrupted, stat_clean], [identity, true, false], JSON.stringify(record));
    }
  }));

Deno.test("beside a damaged session record a sidecar of another head is not the last word", () =>
  withApp([1, 2], async (test) => {
    const path = await test.edit("main", "unsaved");
    await test.store.rollback(at("app@main@c1"));
    assertEquals((await look(test))?.identity, "foreign");
    Deno.writeTextFileSync(`${path}.session`, "{");
    assertEquals((await look(test))?.identity, "unknown");
    sql(path, "INSERT INTO t VALUES('later')");
    const { message } = await fails("dirty", test.store.checkpoint(at("app"), "c3"));
    assert(message.includes(`${path}.session is missing or damaged`), message);
    assertEquals(rows(path), "1,2,unsaved,later");
  }));
