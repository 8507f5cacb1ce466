import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Application } from "../../tests/support/application.ts";
import { cutOff } from "../../tests/support/cut_off.ts";
import { LONG, longTest, scaled, scaledTest } from "../../tests/support/long.ts";
import { MIN_XFS_MB, whyNotMountable, withMount } from "../../tests/support/mounts.ts";
import { commit, copyTree, filesOf, localPatient, QUERY, rot } from "../../tests/support/rot.ts";
import { testSeed } from "../../tests/support/seed.ts";
import { at, fails, makeDatabase, openAt, rows, withDirectory } from "../../tests/support/stores.ts";
import { CaptureSession } from "../capture/session.ts";
import { exists } from "../fs.ts";
import { encodeBase } from "./chain.ts";
import { openStore } from "./open.ts";
import type { Store } from "./store.ts";

const NO_XFS = await whyNotMountable("xfs");
/** Damages a store in a directory of its own. */
async function rotLocal(parent: string | undefined, seed: number): Promise<void> {
  await withDirectory(async (directory) => {
    await using patient = localPatient(directory);
    const tally = await rot(patient, directory, { times: scaled({ short: 10, long: 60, longest: 600 }), seed });
    if (LONG) console.log(JSON.stringify(tally));
    assert(tally.found > 0 && tally.restored > tally.lost, JSON.stringify(tally));
  }, parent);
}

scaledTest(
  "whatever happens to a file of a store is found, and brought back or reported as lost",
  () => rotLocal(undefined, 1),
);

longTest({
  name: `and likewise where snapshots are plain images that share blocks with caches${NO_XFS}`,
  ignore: NO_XFS !== "",
  fn: () => withMount("xfs", MIN_XFS_MB, (parent) => rotLocal(parent, 2)),
});

/** A store of one branch with the commits `one` to `four`, each a segment and a checkpoint of its name. */
async function withLine(work: (store: Store, keys: string[], directory: string) => Promise<void>): Promise<void> {
  await withDirectory(async (directory) => {
    makeDatabase(`${directory}/source.db`, "begin");
    using store = await openAt(`${directory}/store`);
    await store.create("app", { from: `${directory}/source.db` });
    for (const value of ["one", "two", "three", "four"]) await commit(store, "main", value);
    // Nothing local that could prove anything.
    Deno.removeSync(`${directory}/store/checkouts`, { recursive: true });
    const { ref } = await store.context.refs.read("app", "main");
    const { objects } = await store.context.chains.resolve(ref.lineage, ref.txid);
    await work(store, objects.map(({ key }) => key), `${directory}/store`);
  });
}

const contentOf = async (store: Store, name: string, directory: string) => {
  await store.export(at(name), `${directory}/../out.db`, { force: true });
  return rows(`${directory}/../out.db`, QUERY);
};

scaledTest(
  "of ref, objects, cache and sidecar damaged at once the content is right or damage named",
  () =>
    withDirectory(async (directory) => {
      await using patient = localPatient(directory);
      const classes = [/^refs\//, /^data\/.*(zst|raw|idx)$/, /^data\//, /^checkouts-ro\/.*db$/, /^checkouts\/.*sum$/];
      const times = scaled({ short: 10, long: 200 });
      const tally = await rot(patient, directory, {
        times,
        seed: testSeed(7),
        kinds: ["flip", "truncate", "zero"],
        classes,
      });
      assert(tally.found + tally.refused > times / 2, JSON.stringify(tally));
    }),
);

Deno.test("repair goes back to the newest sound point and says which transactions are lost", () =>
  withLine(async (store, keys, directory) => {
    const damaged = `${directory}/${keys[3]}`;
    // More than a byte, so that nothing is left to prove the object by.
    Deno.writeFileSync(damaged, new Uint8Array(Deno.statSync(damaged).size));
    const { ref } = await store.context.refs.read("app", "main");
    const planned = await store.repair({ dry_run: true });
    const { restored, moved, left, folder } = await store.repair();
    assertEquals([restored, left], [[], []]);
    assertEquals(moved.map(({ safety_branch: _, ...rest }) => rest), planned.moved);
    assertEquals(moved, [{
      db: "app",
      branch: "main",
      txid: 3,
      lost_checkpoints: ["three", "four"],
      lost: {
        first_txid: 4,
        last_txid: 5,
        since: ref.checkpoints[1]!.created_at,
        until: ref.touched_at,
      },
      safety_branch: "main-pre-repair",
    }]);
    assertEquals(await contentOf(store, "app", directory), "begin,one,two");
    assertEquals(await contentOf(store, "app@main@one", directory), "begin,one");
    assertEquals((await store.verify(at("app"))).findings, []);
    const safety = await store.status(at("app@main-pre-repair"));
    assertEquals([safety.txid, safety.ttl_ms, safety.checkpoints.map(({ name }) => name)], [5, undefined, [
      "three",
      "four",
    ]]);
    assert(filesOf(`${directory}/${folder}`).length > 0);
    // The branch goes on, and with what a later found copy proves the safety branch is whole.
    await commit(store, "main", "five");
    assertEquals(await contentOf(store, "app", directory), "begin,one,two,five");
    await store.collectGarbage({ grace_ms: 0 });
  }));

Deno.test("a damaged head comes back from a checkout's log, under what was committed since", async (t) => {
  const damages: Record<string, (bytes: Uint8Array) => Uint8Array> = {
    "a block": (bytes) => bytes.map((byte, at) => at > 50 && at < 90 ? byte ^ 255 : byte),
    "every byte": (bytes) => bytes.map(() => 0),
  };
  for (const [name, damage] of Object.entries(damages)) {
    for (const commits of [0, 9]) {
      await t.step(`${name}, ${commits} commits since`, () =>
        withDirectory(async (directory) => {
          makeDatabase(`${directory}/source.db`, "0");
          const root = `${directory}/store`;
          {
            using made = await openAt(root);
            await made.create("app", { from: `${directory}/source.db` });
          }
          const row = (value: number) => `INSERT INTO t VALUES('${value}')`;
          const flush = (value: number) =>
            `sql(session.checkout, ${JSON.stringify(row(value))}); await session.flush();`;
          await cutOff(root, flush(1) + flush(2));
          using store = await openAt(root);
          const { ref } = await store.context.refs.read("app", "main");
          const { objects } = await store.context.chains.resolve(ref.lineage, ref.txid);
          const head = `${root}/${objects.at(-1)!.key}`;
          const whole = Deno.readFileSync(head);
          const application = new Application(await store.path(at("app")));
          try {
            for (let i = 0; i < commits; i++) await application.run(row(3 + i));
            Deno.writeFileSync(head, damage(whole));
            const { restored, moved, left } = await store.repair({ branch: at("app") });
            assertEquals([restored.map(({ what }) => what), moved, left], [["object"], [], []]);
            const session = await CaptureSession.open(store, at("app"), { flush_every_ms: 0, snapshot_every: 16 });
            assertEquals(session.recovery?.outcome, "resumed");
            await application.run(row(3 + commits));
            await session.close();
          } finally {
            await application.end();
          }
          const expected = Array.from({ length: 4 + commits }, (_, i) => String(i)).join();
          assertEquals(await contentOf(store, "app", root), expected);
          assertEquals((await store.verifyAll()).findings, []);
        }));
    }
  }
});

Deno.test("repair of a lost object leaves a store whose garbage can be collected", () =>
  withLine(async (store, keys, directory) => {
    Deno.removeSync(`${directory}/${keys[3]}`);
    await fails("gc_failed", store.collectGarbage({ grace_ms: 0 }));
    const { moved, folder } = await store.repair();
    assertEquals([moved[0]!.lost!.first_txid, moved[0]!.lost!.last_txid], [4, 5]);
    assertEquals(moved[0]!.safety_branch, undefined);
    for (let i = 0; i < 3; i++) await store.collectGarbage({ grace_ms: 0 });
    assertEquals((await store.verifyAll()).findings, []);
    assertEquals(await contentOf(store, "app", directory), "begin,one,two");
    const kept = filesOf(`${directory}/${folder}`).map((path) => path.slice(`${directory}/${folder}/`.length));
    assertEquals(kept, [keys[4]!, "refs/app/main.json"].sort());
  }));

Deno.test("repair takes what is lost from another copy of the store, and writes nothing there", () =>
  withLine(async (store, keys, directory) => {
    await copyTree(directory, `${directory}-copy`);
    const listing = () => filesOf(`${directory}-copy`).join();
    const before = listing();
    for (const key of keys.slice(1, 4)) Deno.removeSync(`${directory}/${key}`);
    Deno.writeTextFileSync(`${directory}/${keys[0]}`, "gone");
    const { restored, moved, left } = await store.repair({ from: `${directory}-copy` });
    assertEquals([restored.map(({ where }) => where).sort(), moved, left], [keys.slice(0, 4).sort(), [], []]);
    assertEquals(await contentOf(store, "app", directory), "begin,one,two,three,four");
    assertEquals([(await store.verifyAll()).ok, listing()], [true, before]);
    // A copy that is damaged itself proves nothing.
    Deno.writeTextFileSync(`${directory}/${keys[4]}`, "gone");
    Deno.writeTextFileSync(`${directory}-copy/${keys[4]}`, "gone");
    assertEquals((await store.repair({ from: `${directory}-copy` })).moved.length, 1);
  }));

Deno.test("a ref is put together from what is left of it, and only where its head is proved", () =>
  withLine(async (store, _keys, directory) => {
    const path = `${directory}/refs/app/main.json`;
    const text = Deno.readTextFileSync(path);
    const before = await contentOf(store, "app", directory);
    for (
      const damaged of [text.slice(0, -30), text.replace('"txid":', '"txjd":'), text.replace('"txid":5', '"txid":3')]
    ) {
      Deno.writeTextFileSync(path, damaged);
      await fails("corrupt", store.status(at("app")));
      const { restored, left } = await store.repair({ branch: at("app") });
      assertEquals([restored.map(({ what }) => what), left], [["ref"], []], damaged);
      assertEquals(await contentOf(store, "app", directory), before);
      assertEquals((await store.verify(at("app"))).ok, true);
    }
    for (
      const damaged of [
        "{}",
        text.replace(/"lineage":"..../, '"lineage":"0000'),
        text.replaceAll(/"digest":"..../g, '"digest":"0000'),
      ]
    ) {
      Deno.writeTextFileSync(path, damaged);
      const { restored, left } = await store.repair({ branch: at("app") });
      assertEquals([restored, left.map(({ what }) => what)], [[], ["ref"]], damaged);
      assertEquals(Deno.readTextFileSync(path), damaged);
    }
  }));

Deno.test("repair makes a damaged or missing manifest anew, with the store's id where that is known", () =>
  withLine(async (store, _keys, directory) => {
    await store.fork(at("app"), "try");
    store.close();
    await copyTree(directory, `${directory}-copy`);
    const path = `${directory}/bstore.json`;
    const text = Deno.readTextFileSync(path);
    const manifest = JSON.parse(text);
    const spoilt = text.replace("taskd-branch-store", "?").replace(/.{9}$/, "?");
    const table: { damaged: string | undefined; from?: string; source: string; same: string[] }[] = [
      { damaged: text.replace('"layout_version":2', '"layout_version":6'), source: "its own bytes", same: ["sum"] },
      { damaged: text.replace(manifest.store_id[3], "x"), source: "its own bytes", same: ["sum"] },
      { damaged: spoilt, source: "its own fields", same: ["store_id", "created_at", "layout_version"] },
      { damaged: "", source: "the store has a new id", same: ["format", "layout_version"] },
      { damaged: undefined, source: "the store has a new id", same: ["format", "layout_version"] },
      { damaged: undefined, from: `${directory}-copy`, source: `file://${directory}-copy`, same: ["sum"] },
    ];
    for (const { damaged, from, source, same } of table) {
      if (damaged === undefined) Deno.removeSync(path);
      else Deno.writeTextFileSync(path, damaged);
      const refused = await fails(["corrupt", "not_a_store"], openStore(directory, { create: false }));
      if (damaged !== "") assertStringIncludes(refused.hint!, "taskd repair --all");
      using opened = await openStore(directory, { damaged: true });
      assertEquals((await opened.verifyAll()).findings.map(({ what }) => what), ["manifest"]);
      await fails(["corrupt", "not_a_store"], opened.repair({ branch: at("app") }));
      const options = from === undefined ? {} : { from };
      const planned = await opened.repair({ ...options, dry_run: true });
      assertEquals(exists(path) ? Deno.readTextFileSync(path) : undefined, damaged);
      const { restored, left } = await opened.repair(options);
      assertEquals([restored.map(({ where }) => where), restored, left], [["bstore.json"], planned.restored, []]);
      assertStringIncludes(restored[0]!.from, source);
      const now = JSON.parse(Deno.readTextFileSync(path));
      for (const field of same) assertEquals(now[field], manifest[field], `${damaged}: ${field}`);
      using again = await openStore(directory, { create: false });
      assertEquals(await contentOf(again, "app@try", directory), "begin,one,two,three,four");
      assertEquals((await again.verifyAll()).findings, []);
    }
  }));

Deno.test("repair makes no store of a place without branches, nor of an unfinished copy", () =>
  withDirectory(async (directory) => {
    Deno.mkdirSync(`${directory}/data`);
    await fails("not_a_store", openStore(directory, { damaged: true }));
    Deno.writeTextFileSync(`${directory}/bstore.json`, "{}");
    {
      using opened = await openStore(directory, { damaged: true });
      const { left, restored } = await opened.repair();
      assertEquals([left.map(({ what }) => what), restored], [["manifest"], []]);
      assertStringIncludes(left[0]!.hint, "copy bstore.json from a backup");
    }
    Deno.writeTextFileSync(`${directory}/copying.json`, `{"store_id":"${"0".repeat(32)}"}`);
    await fails("not_a_store", openStore(directory, { damaged: true }));
    assertEquals(Deno.readTextFileSync(`${directory}/bstore.json`), "{}");
  }));

Deno.test("repair puts back what lies in another's place, and ends where pointers form a circle", () =>
  withLine(async (store, keys, directory) => {
    const { backend } = store.context;
    await store.fork(at("app@main@two"), "try");
    await commit(store, "try", "five");
    await store.fork(at("app@try@five"), "twig");
    await commit(store, "twig", "six");
    const lineageOf = async (branch: string) => (await store.context.refs.read("app", branch)).ref.lineage;
    const [tried, twig] = [await lineageOf("try"), await lineageOf("twig")];
    const names = ["app", "app@try", "app@twig", "app@main@one", "app@main@three", "app@try@five"];
    const read = async () => {
      const found: string[] = [];
      for (const name of names) found.push(await contentOf(store, name, directory));
      return found;
    };
    const before = await read();
    const [segment] = (await store.context.chains.objects(tried)).map(({ key }) => key);
    for (
      const pair of [
        ["refs/app/main.json", "refs/app/try.json"],
        // Both follow `two`.
        [keys[3]!, segment!],
        [keys[1]!, keys[2]!],
        [keys[0]!, keys[1]!],
        [`data/${tried}/base.json`, `data/${twig}/base.json`],
      ]
    ) {
      const bytes = await Promise.all(pair.map(async (key) => (await backend.get(key!)).bytes));
      for (const [i, key] of pair.entries()) await backend.put(key!, bytes[1 - i]!);
      assertEquals((await store.verifyAll()).ok, false, pair.join());
      const { restored, moved, left } = await store.repair();
      assertEquals([restored.map(({ where }) => where).sort(), moved, left], [pair.toSorted(), [], []], pair.join());
      assertEquals(await read(), before, pair.join());
      assertEquals((await store.verifyAll()).findings, []);
    }
    Deno.removeSync(`${directory}/checkouts`, { recursive: true });
    await backend.put(`data/${twig}/base.json`, encodeBase({ lineage: twig, txid: 3 }));
    await store.context.refs.update("app", "twig", ({ base: _, ...ref }) => ref);
    assertEquals((await store.repair()).restored, []);
  }));

Deno.test("a ref of which nothing is left comes from a copy, with what that cannot know", () =>
  withLine(async (store, _keys, directory) => {
    await copyTree(directory, `${directory}-copy`);
    const before = await contentOf(store, "app", directory);
    const path = `${directory}/refs/app/main.json`;
    const text = Deno.readTextFileSync(path);
    // No digest of a checkpoint passes for that of the head.
    Deno.writeTextFileSync(path, text.replace(/"digest":".*?"/, '"digest":"?"').slice(0, -1));
    assertEquals((await store.repair()).left.map(({ what }) => what), ["ref"]);
    Deno.writeTextFileSync(path, text.replace(/"name":"one"/, '"name":"?').slice(0, -1));
    const { restored: [pieced] } = await store.repair({ from: `${directory}-copy` });
    assertStringIncludes(pieced!.lost!, "checkpoints");
    assertEquals((await store.status(at("app"))).checkpoints.length, 4);
    for (const damaged of ["", "{}", text.slice(0, 60)]) {
      Deno.writeTextFileSync(path, damaged);
      assertEquals((await store.repair({ dry_run: true })).restored, []);
      const { restored, left } = await store.repair({ from: `${directory}-copy` });
      assertEquals([restored.map(({ where, from }) => [where, from]), left], [
        [["refs/app/main.json", `file://${directory}-copy`]],
        [],
      ]);
      assertStringIncludes(restored[0]!.lost!, "after 20");
      assertEquals(await contentOf(store, "app", directory), before);
      assertEquals((await store.verifyAll()).findings, []);
    }
  }));

Deno.test("repair refuses a branch that a session has, and leaves it out of a repair of all", () =>
  withLine(async (store, keys, directory) => {
    await store.fork(at("app@main@one"), "other");
    const session = await CaptureSession.open(store, at("app@main"), { flush_every_ms: 0, snapshot_every: 16 });
    Deno.writeTextFileSync(`${directory}/${keys[4]}`, "gone");
    const error = await fails("lease_held", store.repair({ branch: at("app") }));
    assertStringIncludes(error.hint!, "taskd session close app@main");
    const { moved, left } = await store.repair();
    assertEquals([moved, left.map(({ where }) => where)], [[], ["app@main"]]);
    await session.close();
    assertEquals((await store.repair()).left, []);
  }));

Deno.test("a copy that is found later makes the safety branch whole, and undo goes back to it", () =>
  withLine(async (store, keys, directory) => {
    await copyTree(directory, `${directory}-copy`);
    Deno.writeFileSync(`${directory}/${keys[3]}`, new Uint8Array(300));
    assertEquals((await store.repair()).moved.length, 1);
    await fails("corrupt", store.undo(at("app")));
    assertEquals((await store.repair({ from: `${directory}-copy` })).restored.map(({ where }) => where), [keys[3]]);
    assertEquals((await store.undo(at("app"))).undone, "repair");
    assertEquals(await contentOf(store, "app", directory), "begin,one,two,three,four");
    assertEquals((await store.verifyAll()).findings, []);
  }));
