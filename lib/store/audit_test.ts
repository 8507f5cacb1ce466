import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { MIN_XFS_MB, whyNotMountable, withMount } from "../../tests/support/mounts.ts";
import { at, fails, rows, sql, type TestStore, withApp } from "../../tests/support/stores.ts";
import { CaptureSession } from "../capture/session.ts";
import { exists } from "../fs.ts";
import { pointsOf } from "./history.ts";
import type { Store } from "./store.ts";

const NO_XFS = await whyNotMountable("xfs");

/** Commits a row to a branch in a session, and names the result. */
async function commit(store: Store, branch: string, value: string | number): Promise<void> {
  const session = await CaptureSession.open(store, at(`app@${branch}`), { flush_every_ms: 0, snapshot_every: 16 });
  sql(session.checkout, `INSERT INTO t VALUES('${value}')`);
  await session.checkpoint(`k${value}`);
  await session.close();
}

/** A store whose points share objects: forks of forks, checkpoints in a former lineage, a snapshot of its own. */
async function grow({ store }: TestStore): Promise<void> {
  for (const value of [1, 2, 3]) await commit(store, "main", value);
  await store.fork(at("app@main@k2"), "a");
  for (const value of [4, 5]) await commit(store, "a", value);
  await store.fork(at("app@a@k4"), "b");
  await commit(store, "b", 6);
  await store.rollback(at("app@main@k1"));
  await commit(store, "main", 7);
  await store.compact(at("app@b"));
  for (let i = 0; i < 3; i++) await store.collectGarbage({ grace_ms: 0 });
}

async function flip(store: Store, key: string, at_byte: number): Promise<() => Promise<void>> {
  const { backend } = store.context;
  const { bytes } = await backend.get(key);
  const damaged = bytes.slice();
  damaged[at_byte]! ^= 0x10;
  await backend.put(key, damaged);
  return () => backend.put(key, bytes);
}

Deno.test("verifyAll() reads each object once, however many points share it", () =>
  withApp([], async (test) => {
    const { store, faults } = test;
    await grow(test);
    const needed = new Set<string>();
    for await (const { key } of store.context.backend.list("data/")) if (!key.endsWith("base.json")) needed.add(key);
    for (const fast of [false, true]) {
      const before = faults.calls.length;
      const { ok, findings, objects } = await store.verifyAll({ fast });
      assertEquals([ok, findings, objects], [true, [], needed.size]);
      const read = faults.calls.slice(before).filter(({ method }) => method === "getStream").map(({ key }) => key);
      assertEquals(read.toSorted(), [...needed].sort(), `fast: ${fast}`);
    }
  }));

Deno.test("verify() finds a damaged object that a checkpoint alone needs", () =>
  withApp([1, 2], async (test) => {
    const { store } = test;
    await store.compact(at("app"));
    await store.compact(at("app"));
    const { ref } = await store.context.refs.read("app", "main");
    const { lineage, txid } = ref.checkpoints[1]!;
    const { objects } = await store.context.chains.resolve(lineage!, txid);
    const undo = await flip(store, objects.at(-1)!.key, 60);
    for (const fast of [false, true]) {
      for (const found of [await store.verify(at("app"), { fast }), await store.verifyAll({ fast })]) {
        assertEquals([found.ok, found.findings.length], [false, 1]);
        const [finding] = found.findings;
        assertEquals([finding!.what, finding!.where], ["object", objects.at(-1)!.key]);
        assertEquals(finding!.needed_by, ["app@main@c2"]);
        assertStringIncludes(finding!.hint, "taskd repair app@main");
      }
    }
    await undo();
    assertEquals((await store.verifyAll()).findings, []);
  }));

Deno.test("verify() names all points behind a damaged object, and damage further on as well", () =>
  withApp([], async (test) => {
    const { store } = test;
    await grow(test);
    const { ref } = await store.context.refs.read("app", "main");
    const { lineage, txid } = ref.checkpoints.find(({ name }) => name === "k3")!;
    const { objects } = await store.context.chains.resolve(lineage!, txid);
    const [, , second, third] = objects.map(({ key }) => key);
    for (const key of [second!, third!]) await flip(store, key, 50);
    const { findings, branches } = await store.verifyAll();
    assertEquals(findings.map(({ where }) => where).sort(), [second!, third!].sort());
    const behind = findings.find(({ where }) => where === second)!.needed_by;
    const all = ["app@a", "app@a@k4", "app@a@k5", "app@b@k6", "app@main-pre-rollback", "app@main@k2", "app@main@k3"];
    const named = (name: string) => !name.includes("@txid:");
    assertEquals(behind.filter(named).sort(), all);
    assert(behind.includes("app@a@txid:3"), "a point of the past");
    assertEquals(findings.find(({ where }) => where === third)!.needed_by.filter(named).sort(), [
      "app@main-pre-rollback",
      "app@main@k3",
    ]);
    const bad = branches.filter(({ ok }) => !ok).map(({ branch }) => branch);
    assertEquals(bad.sort(), ["a", "b", "main", "main-pre-rollback"]);
    // The head of main, and that of b, which stands alone, do not need what is damaged.
    assertEquals((await store.verify(at("app@main@k7"))).ok, true);
  }));

Deno.test("verifyAll() calls every branch damaged that needs a damaged object, however many there are", () =>
  withApp([1], async ({ store }) => {
    const { ref } = await store.context.refs.read("app", "main");
    const { objects } = await store.context.chains.resolve(ref.lineage, ref.txid);
    for (let i = 0; i < 30; i++) await store.fork(at("app"), `f${i}`);
    await flip(store, objects.at(-1)!.key, 50);
    const { branches, findings } = await store.verifyAll({ fast: true });
    assertEquals(branches.filter(({ ok }) => ok), []);
    assertEquals(findings.map(({ needed_by }) => needed_by.length), [20]);
    // One of them alone is not what makes the others whole.
    assertStringIncludes(findings[0]!.hint, "taskd repair --all;");
  }));

Deno.test("verify() takes what a second read proves for sound", () =>
  withApp([1, 2], async ({ store, faults }) => {
    for (const fast of [false, true]) {
      let cut = 0;
      faults.plan = ({ method }) =>
        method === "getStream" && ++cut === 2 ? { kind: "truncate", after_bytes: 50 } : undefined;
      assertEquals((await store.verifyAll({ fast })).findings, []);
      assert(cut > 2);
    }
  }));

Deno.test("verifyAll() reports refs, tombstones and sidecars that cannot be understood", () =>
  withApp([1], async ({ store, directory, edit }) => {
    await store.fork(at("app"), "torn");
    await edit("main");
    await store.context.backend.put("refs/app/torn.json", new TextEncoder().encode("{"));
    await store.context.backend.put("gc/tombstones.json", new TextEncoder().encode("[]"));
    // Garbage collection fails on a key that is no branch's.
    await store.context.backend.put("refs/stray.json", new TextEncoder().encode("{}"));
    Deno.writeTextFileSync(`${directory}/checkouts/app/main.db.sum`, "{");
    const { ok, findings } = await store.verifyAll({ fast: true });
    assertEquals([ok, findings.map(({ what }) => what).sort()], [false, ["ref", "ref", "sidecar", "tombstones"]]);
    assertEquals((await store.repair()).left.map(({ where }) => where), ["refs/app/torn.json", "refs/stray.json"]);
  }));

Deno.test("verify() of a base pointer that leads elsewhere says which points are lost", () =>
  withApp([1, 2], async ({ store }) => {
    await store.fork(at("app"), "try");
    const { ref } = await store.context.refs.read("app", "try");
    const base = ref.base!;
    const put = (value: object) =>
      store.context.backend.put(`data/${ref.lineage}/base.json`, new TextEncoder().encode(JSON.stringify(value)));
    await put({ ...base, lineage: "0".repeat(32) });
    assertEquals((await store.verifyAll()).findings.map(({ needed_by }) => needed_by), [["app@try"]]);
    await put({ lineage: ref.lineage, txid: base.txid });
    const { findings } = await store.verifyAll();
    assertEquals(findings.map(({ needed_by }) => needed_by), [["app@try"]]);
  }));

Deno.test({
  name: `verify() compares cached copies and shadows with their chains, page by page${NO_XFS}`,
  ignore: NO_XFS !== "",
  fn: () =>
    withMount("xfs", MIN_XFS_MB, (parent) =>
      withApp([1, 2], async ({ store, edit }) => {
        await store.fork(at("app"), "try");
        const checkout = await edit("main");
        const { path } = await store.checkout(at("app@main@c1"));
        const cached: string[] = [];
        for (const point of pointsOf({ ...at("app"), ref: (await store.context.refs.read("app", "main")).ref })) {
          const { id } = await store.context.chains.resolve(point.lineage, point.txid);
          const file = store.context.workspace.byChain("app", id);
          if (exists(file)) cached.push(file);
        }
        assert(cached.length >= 1);
        assertEquals((await store.verifyAll()).findings, []);
        for (const file of [path, ...cached, `${checkout}.shadow`]) {
          const undo = flipFile(file);
          for (const fast of [false, true]) {
            const { findings } = await store.verifyAll({ fast });
            assertEquals(findings.map(({ where }) => where), [file]);
          }
          undo();
          assertEquals((await store.verifyAll()).findings, []);
        }
      }, { parent })),
});

Deno.test("rollback, promote and compact of what is damaged are refused before anything moves", () =>
  withApp([], async (test) => {
    const { store } = test;
    await grow(test);
    const { ref } = await store.context.refs.read("app", "a");
    const { objects } = await store.context.chains.resolve(ref.lineage, ref.txid);
    const undo = await flip(store, objects[1]!.key, 50);
    const stateOf = async () => {
      const names = (await store.branches()).map(({ db, branch }) => `${db}@${branch}`);
      const refs = await Promise.all(names.map((name) => store.context.refs.read("app", at(name).branch)));
      return JSON.stringify([names, refs.map(({ ref }) => [ref.lineage, ref.txid, ref.checkpoints])]);
    };
    const before = await stateOf();
    const error = await fails("corrupt", store.rollback(at("app@main@k2")));
    assertStringIncludes(error.message, objects[1]!.key);
    await fails("corrupt", store.promote(at("app@a"), at("app@main")));
    await fails("corrupt", store.compact(at("app@a")));
    assertEquals(await stateOf(), before);
    await undo();
    await store.rollback(at("app@main@k2"));
    await store.promote(at("app@a"), at("app@main"));
  }));

Deno.test({
  name: `diff and small checkouts build a cached copy anew that has rotted, and keep the bad one${NO_XFS}`,
  ignore: NO_XFS !== "",
  fn: () =>
    withMount("xfs", MIN_XFS_MB, (parent) =>
      withApp([1, 2], async ({ store, directory, edit, clock }) => {
        await edit("main");
        const { path } = await store.checkout(at("app@main@c1"));
        await store.diff(at("app@main@c1"), at("app"));
        const same = async () => (await store.diff(at("app@main@c1"), at("app"), { rows: 9 })).tables;
        const expected = await same();
        const { ref } = await store.context.refs.read("app", "main");
        const chain = await store.context.chains.resolve(ref.checkpoints[0]!.lineage ?? ref.lineage, 2);
        const entry = store.context.workspace.byChain("app", chain.id);
        const set_aside = () => store.verifyAll({ fast: true }).then(({ set_aside }) => set_aside);
        flipFile(entry);
        assertEquals(await same(), expected);
        assertEquals(await set_aside(), 1);
        clock.advance(2000);
        flipFile(path);
        const again = await store.checkout(at("app@main@c1"));
        assertEquals([again.source, rows(again.path), await set_aside()], ["materialized", "1", 2]);
        // A copy that was never used since, and whose time shows no change.
        clock.advance(2000);
        flipFile(entry);
        assertEquals((await store.checkout(at("app"), { force: true })).path, `${directory}/checkouts/app/main.db`);
        assertEquals((await store.verifyAll()).findings.map(({ what }) => what), ["cache"]);
      }, { parent })),
});

/** Flips a bit of a read-only file and leaves its size and time as they were. */
function flipFile(file: string): () => void {
  const { mtime, mode } = Deno.statSync(file);
  const write = (bytes: Uint8Array) => {
    Deno.chmodSync(file, 0o600);
    Deno.writeFileSync(file, bytes);
    Deno.utimeSync(file, mtime!, mtime!);
    Deno.chmodSync(file, mode! & 0o777);
  };
  const bytes = Deno.readFileSync(file);
  write(bytes.with(bytes.length - 3, bytes.at(-3)! ^ 1));
  return () => write(bytes);
}

Deno.test("verify() of a large tree keeps few copies at a time and leaves none", () =>
  withApp([1, 2], async ({ store, directory, edit }) => {
    let from = "main";
    for (let i = 0; i < 12; i++) {
      await store.fork(at(`app@${from}`), `f${i}`);
      await edit(`f${i}`, i);
      await store.checkpoint(at(`app@f${i}`), "c");
      if (i % 3 > 0) from = `f${i}`;
    }
    let most = 0;
    const onProgress = () => {
      most = Math.max(most, [...Deno.readDirSync(`${directory}/tmp`)].length);
    };
    const { ok, branches } = await store.verifyAll({ onProgress });
    assertEquals([ok, branches.length], [true, 13]);
    assert(most >= 1 && most <= 4, String(most));
    assertEquals([...Deno.readDirSync(`${directory}/tmp`)], []);
    assertEquals(rows((await store.checkout(at("app@f11"))).path).split(",").length > 5, true);
    await fails("interrupted", store.verifyAll({ signal: AbortSignal.abort() }));
    sql((await store.checkout(at("app"))).path, "SELECT 1");
  }));
