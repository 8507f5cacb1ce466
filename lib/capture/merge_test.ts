import { assertEquals, assertMatch } from "@std/assert";
import { fails, onStore, type Scene } from "../../tests/support/session.ts";
import { at, rows, sql, stored } from "../../tests/support/stores.ts";
import { mergeBranches, mergeUnder, revertMerge } from "./merge.ts";

const ORDERS = "SELECT id || ':' || state FROM orders ORDER BY id";
const [MAIN, TRY] = [at("app"), at("app@try")];

/** Orders 1 to 3 in `main`, and the fork `try` of that. */
async function shop(work: (scene: Scene) => Promise<void>, options: { materialize?: boolean } = {}): Promise<void> {
  await onStore(async (scene) => {
    await edit(
      scene,
      "main",
      "CREATE TABLE orders(id INTEGER PRIMARY KEY, state, note)",
      "INSERT INTO orders VALUES (1,'new',''), (2,'new',''), (3,'new','')",
    );
    await scene.store.fork(MAIN, "try", options);
    await work(scene);
  });
}

let checkpoints = 0;

/** Changes a branch at rest, and stores that. */
async function edit({ store }: Scene, branch: string, ...statements: string[]): Promise<void> {
  const { path } = await store.checkout(at(`app@${branch}`));
  sql(path, ...statements);
  await store.checkpoint(at(`app@${branch}`), `c${++checkpoints}`);
}

const merge = ({ store }: Scene, from = TRY, onto = MAIN) => mergeBranches(store, from, onto);

Deno.test("rows go into a database that an application writes to, and both are stored", () =>
  shop(async (scene) => {
    await edit(scene, "try", "UPDATE orders SET state='mended' WHERE id=2");
    const session = await scene.open();
    try {
      sql(session.checkout, "UPDATE orders SET note='seen' WHERE id=2", "INSERT INTO orders VALUES (4,'new','')");
      const result = await mergeUnder(scene.store, session, TRY);
      assertEquals([result.merged, result.conflicts, result.from], [true, [], "app@try"]);
      assertEquals(rows(session.checkout, ORDERS), "1:new,2:mended,3:new,4:new");
      assertEquals(await stored(scene.store, "app", ORDERS), "1:new,2:mended,3:new,4:new");
      assertEquals(await stored(scene.store, "app", "SELECT note FROM orders WHERE id=2"), "seen");
      assertEquals(result.txid, session.txid);
      sql(session.checkout, "INSERT INTO orders VALUES (5,'new','')");
    } finally {
      await session.close();
    }
    assertEquals(await stored(scene.store, "app", "SELECT count(*) FROM orders"), "5");
  }));

Deno.test("a merge begins where the last one ended, in either direction, and once is enough", () =>
  shop(async (scene) => {
    await edit(scene, "try", "UPDATE orders SET state='mended' WHERE id=2");
    assertEquals((await merge(scene)).merged, true);
    assertEquals((await merge(scene)).merge, undefined);
    // Both go on from what was merged: against the fork's point that would be two changes of one cell.
    await edit(scene, "main", "UPDATE orders SET state='sent' WHERE id=2");
    await edit(scene, "try", "UPDATE orders SET state='mended' WHERE id=3");
    assertEquals((await merge(scene)).conflicts, []);
    assertEquals(await stored(scene.store, "app", ORDERS), "1:new,2:sent,3:mended");
    assertEquals((await merge(scene, MAIN, TRY)).conflicts, []);
    assertEquals(await stored(scene.store, "app@try", ORDERS), "1:new,2:sent,3:mended");
    await edit(scene, "try", "UPDATE orders SET state='back' WHERE id=2");
    assertEquals((await merge(scene)).conflicts, []);
    assertEquals(await stored(scene.store, "app", ORDERS), "1:new,2:back,3:mended");
  }));

Deno.test("a store that has what a merge brought has its record, wherever the daemon is killed", async () => {
  const found = new Set<string>();
  for (let last = 0; !found.has("done"); last++) {
    await shop(async (scene) => {
      await edit(scene, "try", "UPDATE orders SET state='mended' WHERE id=2");
      const { txid } = await scene.store.status(MAIN);
      let writes = 0;
      // As if nothing ran any more after so many writes.
      scene.plan = ({ method }) =>
        ["put", "create", "replace", "delete"].includes(method) && ++writes > last
          ? { kind: "before", code: "denied" }
          : undefined;
      const done = await merge(scene).then(({ merged }) => merged, () => false);
      scene.plan = () => undefined;
      const { ref } = await scene.store.context.refs.read("app", "main");
      const has = ref.txid > txid;
      assertEquals([ref.merges?.length ?? 0, ref.merges?.[0]?.onto.txid], has ? [1, ref.txid] : [0, undefined]);
      found.add(done ? "done" : has ? "stored" : "cut off");
    });
  }
  assertEquals([...found].sort(), ["cut off", "done", "stored"]);
});

Deno.test("a conflict leaves the branch as it was, and is decided by what is said of it", () =>
  shop(async (scene) => {
    await edit(scene, "try", "UPDATE orders SET state='mended' WHERE id=2");
    await edit(scene, "main", "UPDATE orders SET state='sent' WHERE id=2");
    const before = (await scene.store.status(MAIN)).txid;
    const { merged, conflicts, merge: id } = await merge(scene);
    assertEquals([merged, id, conflicts.map(({ kind, key }) => [kind, key])], [false, undefined, [["changed_twice", {
      id: 2,
    }]]]);
    assertEquals((await scene.store.status(MAIN)).txid, before);
    assertEquals((await mergeBranches(scene.store, TRY, MAIN, { prefer: "theirs" })).merged, true);
    assertEquals(await stored(scene.store, "app", ORDERS), "1:new,2:mended,3:new");
  }));

Deno.test("merges that were taken back, the oldest first, are brought again whole", () =>
  shop(async (scene) => {
    const ids: string[] = [];
    for (const id of [8, 9]) {
      await edit(scene, "try", `INSERT INTO orders VALUES (${id},'new','')`);
      ids.push((await merge(scene)).merge!);
    }
    for (const id of ids) await revertMerge(scene.store, MAIN, id);
    assertEquals(await stored(scene.store, "app", ORDERS), "1:new,2:new,3:new");
    await merge(scene);
    assertEquals(await stored(scene.store, "app", ORDERS), "1:new,2:new,3:new,8:new,9:new");
    await merge(scene, MAIN, TRY);
    assertEquals(await stored(scene.store, "app@try", ORDERS), "1:new,2:new,3:new,8:new,9:new");
  }));

Deno.test("a branch that begins again at its parent's head is merged from there", () =>
  shop(async (scene) => {
    await edit(scene, "try", "INSERT INTO orders VALUES (7,'dropped','')");
    await edit(scene, "main", "INSERT INTO orders VALUES (8,'new','')");
    await scene.store.promote(MAIN, TRY);
    await edit(scene, "try", "INSERT INTO orders VALUES (9,'new','')");
    await edit(scene, "main", "DELETE FROM orders WHERE id=1");
    assertEquals((await merge(scene)).conflicts, []);
    assertEquals(await stored(scene.store, "app", ORDERS), "2:new,3:new,8:new,9:new");
  }));

Deno.test("a revert leaves what another merge, or the branch itself, has brought", () =>
  shop(async (scene) => {
    await edit(scene, "try", "INSERT INTO orders VALUES (8,'new','')", "UPDATE orders SET state='mended' WHERE id=2");
    await scene.store.fork(TRY, "second");
    await edit(scene, "main", "INSERT INTO orders VALUES (8,'new','')");
    await edit(scene, "second", "INSERT INTO orders VALUES (9,'new','')");
    await merge(scene, at("app@second"), TRY);
    await merge(scene);
    assertEquals(await stored(scene.store, "app", ORDERS), "1:new,2:mended,3:new,8:new,9:new");
    await revertMerge(scene.store, MAIN);
    assertEquals(await stored(scene.store, "app", ORDERS), "1:new,2:new,3:new,8:new");
  }));

Deno.test("a merge is taken back with what came since in place, and can be made again", () =>
  shop(async (scene) => {
    await edit(scene, "try", "UPDATE orders SET state='mended' WHERE id=2", "INSERT INTO orders VALUES (9,'new','')");
    const { merge: id } = await merge(scene);
    await edit(scene, "main", "UPDATE orders SET state='sent' WHERE id=1", "UPDATE orders SET note='x' WHERE id=2");
    const reverted = await revertMerge(scene.store, MAIN, id!);
    assertEquals(await stored(scene.store, "app", ORDERS), "1:sent,2:new,3:new");
    assertEquals(await stored(scene.store, "app", "SELECT note FROM orders WHERE id=2"), "x");
    const again = await merge(scene);
    assertEquals(await stored(scene.store, "app", ORDERS), "1:sent,2:mended,3:new,9:new");
    assertEquals(new Set([id, reverted.merge, again.merge]).size, 3);
    // What was taken back is not taken back once more.
    await fails("not_found", revertMerge(scene.store, MAIN, id));
    await fails("not_found", revertMerge(scene.store, MAIN, "none"));
    // What was changed since is not overwritten.
    await edit(scene, "main", "UPDATE orders SET state='gone' WHERE id=9");
    const refused = await revertMerge(scene.store, MAIN);
    assertEquals(refused.conflicts.map(({ kind, key }) => [kind, key]), [["changed_and_deleted", { id: 9 }]]);
  }));

Deno.test("a merge is taken back without a question about what was decided for the target", () =>
  shop(async (scene) => {
    const taken = ["UPDATE orders SET state='mended' WHERE id<3", "DELETE FROM orders WHERE id=3"];
    await edit(scene, "try", ...taken, "INSERT INTO orders VALUES (9,'new','')");
    await edit(scene, "main", "UPDATE orders SET state='sent' WHERE id>1", "UPDATE orders SET note='x' WHERE id=1");
    assertEquals((await mergeBranches(scene.store, TRY, MAIN, { prefer: "ours" })).merged, true);
    assertEquals(await stored(scene.store, "app", ORDERS), "1:mended,2:sent,3:sent,9:new");
    assertEquals((await revertMerge(scene.store, MAIN)).conflicts, []);
    assertEquals(await stored(scene.store, "app", ORDERS), "1:new,2:sent,3:sent");
    // The merge itself asks again.
    assertEquals((await merge(scene)).conflicts.length, 2);
  }));

Deno.test("a row that was decided for the target stays without a question once it was written to", () =>
  shop(async (scene) => {
    await edit(scene, "try", "INSERT INTO orders VALUES (7,'theirs',''), (8,'theirs','')");
    await edit(scene, "main", "INSERT INTO orders VALUES (7,'ours','')");
    assertEquals((await mergeBranches(scene.store, TRY, MAIN, { prefer: "ours" })).merged, true);
    await edit(scene, "main", "UPDATE orders SET state='since' WHERE id=7");
    assertEquals((await revertMerge(scene.store, MAIN)).conflicts, []);
    assertEquals(await stored(scene.store, "app", ORDERS), "1:new,2:new,3:new,7:since");
  }));

Deno.test("a revert that is reverted brings what it had taken, at any depth, and nothing else", () =>
  shop(async (scene) => {
    const alike = ["UPDATE orders SET state='both' WHERE id=1", "DELETE FROM orders WHERE id=3"];
    await edit(scene, "try", ...alike, "UPDATE orders SET state='theirs', note='theirs' WHERE id=2");
    await edit(scene, "main", ...alike);
    let { merge: last } = await merge(scene);
    const back = async () => {
      const { merge, conflicts } = await revertMerge(scene.store, MAIN, last);
      assertEquals(conflicts, []);
      last = merge;
      return `${await stored(scene.store, "app", ORDERS)},${await stored(scene.store, "app", NOTE)}`;
    };
    const NOTE = "SELECT note FROM orders WHERE id=2";
    assertEquals(await back(), "1:both,2:new,");
    // What the branch had by itself is its own to undo.
    await edit(scene, "main", "UPDATE orders SET state='new' WHERE id=1", "INSERT INTO orders VALUES (3,'new','')");
    assertEquals(await back(), "1:new,2:theirs,3:new,theirs");
    // Of what the next one would take, one cell is gone already: that stays with what comes after it.
    await edit(scene, "main", "UPDATE orders SET note='' WHERE id=2");
    assertEquals(await back(), "1:new,2:new,3:new,");
    await edit(scene, "main", "DELETE FROM orders WHERE id=3", "UPDATE orders SET state='both' WHERE id=1");
    assertEquals(await back(), "1:both,2:theirs,");
    assertEquals(await back(), "1:both,2:new,");
  }));

Deno.test("definitions that a revert had not taken do not come with its own revert", () =>
  shop(async (scene) => {
    const alike = ["CREATE INDEX by_state ON orders(state)", "ALTER TABLE orders ADD COLUMN more"];
    await edit(scene, "try", ...alike, "UPDATE orders SET more='theirs' WHERE id=1", "CREATE TABLE brought(x)");
    await edit(scene, "main", ...alike, "UPDATE orders SET more='ours' WHERE id=2");
    await merge(scene);
    const { merge: reverted } = await revertMerge(scene.store, MAIN);
    const MORE = "SELECT id || ':' || ifnull(more,'') FROM orders ORDER BY id";
    const NAMES = "SELECT name FROM sqlite_schema ORDER BY name";
    assertEquals(await stored(scene.store, "app", MORE), "1:,2:ours,3:");
    await edit(scene, "main", "DROP INDEX by_state");
    assertEquals((await revertMerge(scene.store, MAIN, reverted!)).conflicts, []);
    assertEquals(await stored(scene.store, "app", MORE), "1:theirs,2:ours,3:");
    assertEquals(await stored(scene.store, "app", NAMES), "brought,orders");
  }));

Deno.test("a revert whose own merge is remembered no more is not reverted", () =>
  shop(async (scene) => {
    await edit(scene, "try", "UPDATE orders SET state='mended' WHERE id=2");
    const { merge: id } = await merge(scene);
    const { merge: reverted } = await revertMerge(scene.store, MAIN);
    // As if there had been so many merges since.
    await scene.store.context.refs.update("app", "main", (ref) => ({ ...ref, merges: ref.merges!.slice(1) }));
    const error = await fails("conflict", revertMerge(scene.store, MAIN, reverted!));
    assertMatch(error.message, new RegExp(`does not remember ${id}`));
  }));

Deno.test("a rollback takes the merges after it along: the same merge brings the rows again", () =>
  shop(async (scene) => {
    await edit(scene, "main", "INSERT INTO orders VALUES (4,'new','')");
    const before = `c${checkpoints}`;
    await edit(scene, "try", "UPDATE orders SET state='mended' WHERE id=2");
    await merge(scene);
    await scene.store.rollback(at(`app@main@${before}`));
    assertEquals(await stored(scene.store, "app", ORDERS), "1:new,2:new,3:new,4:new");
    assertEquals((await merge(scene)).merged, true);
    assertEquals(await stored(scene.store, "app", ORDERS), "1:new,2:mended,3:new,4:new");
  }));

for (const materialize of [false, true]) {
  Deno.test(`the point of a fork outlives compaction and garbage collection${materialize ? ", of a full copy" : ""}`, () =>
    shop(async (scene) => {
      await edit(scene, "main", "UPDATE orders SET state='sent' WHERE id=1");
      await edit(scene, "try", "UPDATE orders SET state='mended' WHERE id=2");
      await scene.store.compact(MAIN);
      await scene.store.compact(TRY);
      for (let pass = 0; pass < 3; pass++) {
        scene.clock.advance(3_600_000);
        await scene.store.collectGarbage({ grace_ms: 0 });
      }
      assertEquals((await merge(scene)).conflicts, []);
      assertEquals(await stored(scene.store, "app", ORDERS), "1:sent,2:mended,3:new");
    }, { materialize }));
}

Deno.test("a destroyed branch comes back with its merges and with where it was forked", async (t) => {
  for (const kept of ["stored", "with edits that no store object has"]) {
    await t.step(kept, () =>
      shop(async (scene) => {
        const { store } = scene;
        await edit(scene, "main", "UPDATE orders SET note='in both' WHERE id=1");
        const { merge: brought } = await merge(scene, MAIN, TRY);
        await edit(scene, "try", "UPDATE orders SET state='mended' WHERE id=2");
        const { path } = await store.checkout(TRY);
        if (kept !== "stored") sql(path, "UPDATE orders SET state='edited' WHERE id=2");
        await store.destroy(TRY, { confirm: true });
        await store.undo(TRY);
        // The head of `main` itself is no common point any more.
        await edit(scene, "main", "INSERT INTO orders VALUES (4,'new','')");
        assertEquals((await store.merges(TRY)).map(({ merge, in_force }) => [merge, in_force]), [[brought, true]]);
        assertEquals((await merge(scene)).conflicts, []);
        const state = kept === "stored" ? "mended" : "edited";
        assertEquals(await stored(store, "app", ORDERS), `1:new,2:${state},3:new,4:new`);
        await revertMerge(store, TRY, brought);
        assertEquals(await stored(store, "app@try", "SELECT note FROM orders WHERE id=1"), "");
      }));
  }
});

Deno.test("a branch that was given another's content is held against what that began with", () =>
  shop(async (scene) => {
    await scene.store.fork(MAIN, "early");
    await edit(scene, "main", "INSERT INTO orders VALUES (4,'new','')");
    await scene.store.fork(MAIN, "late");
    await edit(scene, "early", "UPDATE orders SET state='mended' WHERE id=2");
    // Against the point where it was forked itself, order 4 would have been deleted in it.
    await scene.store.promote(at("app@early"), at("app@late"));
    assertEquals((await merge(scene, at("app@late"))).conflicts, []);
    assertEquals(await stored(scene.store, "app", ORDERS), "1:new,2:mended,3:new,4:new");
  }));

Deno.test("branches that share nothing, and a branch with itself, are not merged", () =>
  shop(async (scene) => {
    await fails("invalid_request", merge(scene, MAIN, MAIN));
    await scene.store.create("other");
    await fails("invalid_request", merge(scene, at("other"), MAIN));
    await fails("not_found", merge(scene, at("app@none"), MAIN));
  }));

Deno.test("a common point that is stored no more is named, and the branches go on", () =>
  shop(async (scene) => {
    const { context } = scene.store;
    await edit(scene, "try", "UPDATE orders SET state='mended' WHERE id=2");
    await edit(scene, "main", "UPDATE orders SET state='sent' WHERE id=1");
    for (const address of [MAIN, TRY]) await scene.store.compact(address);
    const { origin } = (await context.refs.read("app", "try")).ref;
    const { objects } = await context.chains.resolve(origin!.lineage, origin!.txid);
    await context.backend.delete(objects.at(-1)!.key);
    const error = await fails("conflict", merge(scene));
    assertMatch(error.message, /the common point [0-9a-f]{32}\/\d+ is lost/);
    assertEquals(await stored(scene.store, "app", ORDERS), "1:sent,2:new,3:new");
    await scene.store.promote(TRY, MAIN);
    assertEquals(await stored(scene.store, "app", ORDERS), "1:new,2:mended,3:new");
  }));

Deno.test("after merges both ways the newer one is the common point: what was taken back stays so", () =>
  shop(async (scene) => {
    await edit(scene, "try", "UPDATE orders SET state='mended' WHERE id=1");
    await edit(scene, "main", "UPDATE orders SET note='noted' WHERE id=1", "INSERT INTO orders VALUES (4,'new','')");
    await merge(scene);
    await merge(scene, MAIN, TRY);
    await edit(scene, "try", "UPDATE orders SET note='' WHERE id=1", "DELETE FROM orders WHERE id=4");
    await edit(scene, "main", "INSERT INTO orders VALUES (5,'new','')");
    assertEquals((await merge(scene, MAIN, TRY)).conflicts, []);
    assertEquals(await stored(scene.store, "app@try", ORDERS), "1:mended,2:new,3:new,5:new");
    assertEquals(await stored(scene.store, "app@try", "SELECT note FROM orders WHERE id=1"), "");
    // And back: what the one that took it in has not touched since is no conflict.
    await edit(scene, "try", "UPDATE orders SET state='sent' WHERE id=1");
    assertEquals((await merge(scene)).conflicts, []);
    assertEquals(await stored(scene.store, "app", ORDERS), "1:sent,2:new,3:new,5:new");
  }));

Deno.test("after a merge that found all of it there, the branches can be merged again", () =>
  shop(async (scene) => {
    const third = at("app@third");
    await edit(scene, "main", "CREATE TABLE tags (name TEXT PRIMARY KEY, n)", "INSERT INTO tags VALUES ('a', 1)");
    await scene.store.fork(MAIN, "third");
    await edit(scene, "third", "UPDATE tags SET rowid = 100");
    await merge(scene, third, MAIN);
    await edit(scene, "third", "UPDATE tags SET n = 7");
    await edit(scene, "main", "INSERT INTO tags VALUES ('b', 2)");
    const TAGS = "SELECT group_concat(name || n) FROM (SELECT * FROM tags ORDER BY name)";
    assertEquals((await merge(scene, third, MAIN)).conflicts, []);
    assertEquals(await stored(scene.store, "app", TAGS), "a7,b2");
    assertEquals((await merge(scene, MAIN, third)).conflicts, []);
    assertEquals(await stored(scene.store, "app@third", TAGS), "a7,b2");
  }));

Deno.test("what came by way of a third branch is not brought again", () =>
  shop(async (scene) => {
    const third = at("app@third");
    await scene.store.fork(MAIN, "third");
    await edit(scene, "try", "UPDATE orders SET state='mended' WHERE id=1");
    await merge(scene, TRY, third);
    await merge(scene, third, MAIN);
    await edit(scene, "main", "UPDATE orders SET state='new' WHERE id=1");
    await edit(scene, "try", "UPDATE orders SET state='sent' WHERE id=2");
    assertEquals((await merge(scene)).conflicts, []);
    assertEquals(await stored(scene.store, "app", ORDERS), "1:new,2:sent,3:new");
  }));
