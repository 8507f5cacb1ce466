import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { at, fails, rows, sql, stored, type TestStore, withApp } from "../../../tests/support/stores.ts";
import { scaled, scaledTest } from "../../../tests/support/long.ts";
import { SeededRandom } from "../../../tests/support/writers/random.ts";
import { STALE_CLAIM_MS } from "../lease.ts";
import type { Store } from "../store.ts";
import { SAFETY_TTL_MS } from "../time_to_live.ts";

const branchNames = async (store: Store) => (await store.branches()).map(({ branch }) => branch).sort();

Deno.test("undo() takes back rollback and promote, one after the other", () =>
  withApp([1, 2, 3], async ({ store, clock }) => {
    await store.fork(at("app@main@c1"), "other");
    const { path } = await store.checkout(at("app"));
    await store.rollback(at("app@main@c2"));
    clock.advance(5);
    await store.promote(at("app@other"), at("app"));
    assertEquals(rows(path), "1");
    const listed = await store.undoable(at("app"));
    assertEquals(listed.map(({ op, safety_branch }) => [op, safety_branch]), [
      ["promote", "main-pre-promote"],
      ["rollback", "main-pre-rollback"],
    ]);
    assertEquals(Date.parse(listed[0]!.expires_at!) - Date.parse(listed[0]!.at), SAFETY_TTL_MS);
    const first = await store.undo(at("app"));
    assertEquals([first.undone, first.undone_at, first.safety_branch], ["promote", listed[0]!.at, "main-pre-undo"]);
    assertEquals([rows(path), await stored(store, "app"), await stored(store, "app@main-pre-undo")], [
      "1,2",
      "1,2",
      "1",
    ]);
    assertEquals((await store.undo(at("app"))).undone, "rollback");
    assertEquals([rows(path), await stored(store, "app")], ["1,2,3", "1,2,3"]);
    const error = await fails("not_found", store.undo(at("app")));
    assertEquals(error.message, "There is nothing to undo on app@main");
    assertEquals(await store.undoable(at("app")), []);
    assertEquals(await stored(store, "app@main@c1"), "1");
  }));

Deno.test("undo() brings a destroyed branch back with all that it had", () =>
  withApp([1, 2], async ({ store, edit, clock }) => {
    await store.fork(at("app"), "try", { ttl_ms: 3_600_000 });
    await edit("try", "a");
    await store.checkpoint(at("app@try"), "a", { note: "mine" });
    await store.rollback(at("app@main@c1"));
    await store.promote(at("app"), at("app@try"));
    await store.protect(at("app@try"), true);
    await edit("try", "unsaved");
    await fails("protected", store.destroy(at("app@try"), { confirm: true }));
    assertStringIncludes((await fails("unconfirmed", store.destroy(at("app@try"), { force: true }))).message, "edits");
    const before = await store.status(at("app@try"));
    clock.advance(5);
    const { safety_branch } = await store.destroy(at("app@try"), { force: true, confirm: true });
    assertEquals(safety_branch, "try-pre-destroy");
    assertEquals((await fails("not_found", store.undo(at("app@none")))).hint?.split(":").at(-1), " taskd undo app@try");
    assertEquals((await store.undoable(at("app@try"))).map(({ op }) => op), ["destroy", "promote"]);
    assertEquals((await store.undo(at("app@try"))).undone, "destroy");
    const after = await store.status(at("app@try"));
    assertEquals([after.protected, after.ttl_ms], [true, 3_600_000]);
    assertEquals(after.checkpoints, before.checkpoints);
    assertEquals([await stored(store, "app@try"), await stored(store, "app@try@a")], ["1,unsaved", "1,2,a"]);
    assertEquals((await store.undo(at("app@try"))).undone, "promote");
    assertEquals(await stored(store, "app@try"), "1,2,a");
    for (let pass = 0; pass < 3; pass++) await store.collectGarbage({ grace_ms: 0 });
    assertEquals(await stored(store, "app@try@a"), "1,2,a");
  }));

Deno.test("destroy() asks for a confirmation of main, of protected branches and of edits", () =>
  withApp([1], async ({ store, edit }) => {
    await store.fork(at("app"), "clean");
    await store.fork(at("app"), "edited");
    await edit("edited", "x");
    assertStringIncludes((await fails("unconfirmed", store.destroy(at("app")))).message, "main branch");
    await fails("unconfirmed", store.destroy(at("app@edited"), { safety: false }));
    assertEquals(rows(await store.path(at("app@edited"))), "1,x");
    await store.destroy(at("app@clean"));
    await store.destroy(at("app@edited"), { confirm: true });
    assertEquals(await stored(store, "app@edited-pre-destroy"), "1,x");
    // What keeps something is not kept again.
    await store.destroy(at("app@edited-pre-destroy"));
    assertEquals(await branchNames(store), ["clean-pre-destroy", "main"]);
  }));

Deno.test("destroy() of a branch whose file no client can open asks, and keeps the head", () =>
  withApp([1], async ({ store }) => {
    for (const bytes of [new Uint8Array(0), new Uint8Array(8192).fill(7)]) {
      await store.fork(at("app"), "odd");
      const { path } = await store.checkout(at("app@odd"));
      Deno.writeFileSync(path, bytes);
      assertStringIncludes((await fails("unconfirmed", store.destroy(at("app@odd")))).message, "cannot be kept");
      assertEquals(Deno.readFileSync(path), bytes);
      const { safety_branch } = await store.destroy(at("app@odd"), { confirm: true });
      assertEquals(await stored(store, `app@${safety_branch}`), "1");
    }
  }));

Deno.test("undo() of what is no longer kept, or is not what was expected, changes nothing", () =>
  withApp([1, 2], async ({ store, clock }) => {
    await store.rollback(at("app@main@c1"));
    await fails("conflict", store.undo(at("app"), { expected: "main-pre-promote" }));
    clock.advance(SAFETY_TTL_MS + 1);
    assertEquals((await store.reapExpired()).reaped.map(({ branch }) => branch), ["main-pre-rollback"]);
    const error = await fails("not_found", store.undo(at("app")));
    assertEquals(error.hint, "app@main-pre-rollback has expired or is gone");
    // Another branch of that name keeps nothing.
    await store.fork(at("app"), "main-pre-rollback");
    await fails("not_found", store.undo(at("app")));
    await store.rollback(at("app@main@c2"), { safety: false });
    await fails("not_found", store.undo(at("app")));
    assertEquals(await stored(store, "app"), "1,2");
  }));

Deno.test("undo() of a destroy goes by the order of destroys, not by the clock", () =>
  withApp([1], async ({ store, clock, edit }) => {
    await store.fork(at("app"), "x");
    await store.destroy(at("app@x"));
    await store.undo(at("app@x"));
    await edit("x", "new");
    clock.jump(-3_600_000);
    await store.destroy(at("app@x"), { confirm: true });
    await store.undo(at("app@x"));
    assertEquals(await stored(store, "app@x"), "1,new");
  }));

Deno.test("undo() brings back no earlier branch of the name of one that was given up", () =>
  withApp([1], async ({ store, clock, edit }) => {
    for (const how of ["destroyed", "reaped"]) {
      await store.fork(at("app"), "y");
      await store.destroy(at("app@y"));
      await store.fork(at("app"), "y");
      await edit("y", "later");
      if (how === "destroyed") await store.destroy(at("app@y"), { confirm: true, safety: false });
      else {
        // Edits that are nowhere else would be kept.
        await store.checkpoint(at("app@y"), "stored");
        await store.touch(at("app@y"), { ttl_ms: 1 });
        clock.advance(10);
        assertEquals((await store.reapExpired()).reaped.map(({ branch }) => branch), ["y"]);
      }
      await fails("not_found", store.undo(at("app@y")));
      assertEquals(await store.undoable(at("app@y")), []);
    }
  }));

Deno.test("undo() does not go to what was done to the keeper since, and lists any time to live", () =>
  withApp([1, 2], async ({ store, edit }) => {
    await store.rollback(at("app@main@c1"), { safety_ttl_ms: 8.64e15 });
    assertEquals((await store.undoable(at("app")))[0]!.expires_at, new Date(8.64e15).toISOString());
    await store.compact(at("app@main-pre-rollback"));
    assertEquals((await store.undo(at("app"))).undone, "rollback");
    await store.rollback(at("app@main@c1"));
    await edit("main-pre-rollback-2", "since");
    await store.checkpoint(at("app@main-pre-rollback-2"), "since");
    assertStringIncludes(
      (await fails("conflict", store.undo(at("app")))).hint!,
      "taskd promote app@main-pre-rollback-2",
    );
    assertEquals(await stored(store, "app"), "1");
  }));

/** What the model knows of a branch. */
interface Branch {
  content: string;
  edits: string | undefined;
  checkpoints: Map<string, string>;
  undo: string[];
}

/** Does a random operation to the store and to the model. */
async function step(
  { store, edit, clock }: TestStore,
  model: Map<string, Branch>,
  graves: Map<string, Branch[]>,
  random: SeededRandom,
  serial: number,
) {
  clock.advance(1);
  const name = random.pick(["main", "b1", "b2"]);
  const address = at(`app@${name}`);
  const branch = model.get(name);
  const kind = random.pick(["edit", "edit", "checkpoint", "rollback", "promote", "destroy", "undo", "undo", "fork"]);
  if (branch === undefined) {
    const grave = graves.get(name)?.pop();
    if (kind === "undo" && grave) {
      assertEquals((await store.undo(address)).undone, "destroy");
      model.set(name, grave);
    } else if (grave) graves.get(name)!.push(grave);
    return;
  }
  const latest = branch.edits ?? branch.content;
  const move = async (content: string, undo: string[], run: () => Promise<unknown>) => {
    await run();
    Object.assign(branch, { content, edits: undefined, undo });
    if (await store.path(address).catch(() => undefined)) await store.checkout(address);
  };
  const checkpoint = [...branch.checkpoints.keys()].at(random.between(0, 20) % Math.max(1, branch.checkpoints.size));
  if (kind === "edit") {
    if (branch.edits === undefined) await edit(name, serial);
    else sql(await store.path(address), `INSERT INTO t VALUES('${serial}')`);
    branch.edits = `${latest},${serial}`;
  } else if (kind === "checkpoint") {
    await store.checkpoint(address, `k${serial}`);
    Object.assign(branch, { content: latest, edits: undefined });
    branch.checkpoints.set(`k${serial}`, latest);
  } else if (kind === "rollback" && checkpoint !== undefined) {
    const to = { ...address, checkpoint };
    await move(branch.checkpoints.get(checkpoint)!, [...branch.undo, latest], () => store.rollback(to));
  } else if (kind === "promote") {
    const from = random.pick([...model.keys()].filter((other) => other !== name).concat("none"));
    const source = model.get(from);
    if (source) {
      await move(source.content, [...branch.undo, latest], () => store.promote(at(`app@${from}`), address));
    }
  } else if (kind === "undo") {
    const content = branch.undo.at(-1);
    if (content === undefined) await fails("not_found", store.undo(address));
    else await move(content, branch.undo.slice(0, -1), () => store.undo(address));
  } else if (kind === "destroy" && model.size > 1) {
    await store.destroy(address, { confirm: true });
    model.delete(name);
    graves.set(name, [...graves.get(name) ?? [], { ...branch, content: latest, edits: undefined }]);
  } else if (kind === "fork") {
    const free = ["main", "b1", "b2"].find((other) => !model.has(other) && !graves.get(other)?.length);
    if (free === undefined) return;
    await store.fork(address, free);
    model.set(free, { content: branch.content, edits: undefined, checkpoints: new Map(), undo: [] });
  }
}

scaledTest("any sequence of destroy, rollback, promote and undo leaves what a model says", async (t) => {
  for (let seed = 1; seed <= scaled({ short: 2, long: 20, longest: 60 }); seed++) {
    await t.step(`seed ${seed}`, () =>
      withApp([0], async (test) => {
        const { store } = test;
        const random = new SeededRandom(seed);
        const model = new Map<string, Branch>([
          ["main", { content: "0", edits: undefined, checkpoints: new Map([["c0", "0"]]), undo: [] }],
        ]);
        const graves = new Map<string, Branch[]>();
        for (let serial = 1; serial <= scaled({ short: 25, long: 60 }); serial++) {
          await step(test, model, graves, random, serial);
          for (const [name, { content, edits, checkpoints }] of model) {
            assertEquals(await stored(store, `app@${name}`), content, `${name} after ${serial}`);
            if (edits !== undefined) assertEquals(rows(await store.path(at(`app@${name}`))), edits);
            const [last] = [...checkpoints].slice(-1);
            if (last) assertEquals(await stored(store, `app@${name}@${last[0]}`), last[1]);
          }
        }
        for (let pass = 0; pass < 3; pass++) await store.collectGarbage({ grace_ms: 0 });
        for (const [name, { content, checkpoints }] of model) {
          assertEquals(await stored(store, `app@${name}`), content);
          for (const [checkpoint, held] of checkpoints) {
            assertEquals(await stored(store, `app@${name}@${checkpoint}`), held);
          }
        }
      }));
  }
});

/** What happens to the `count`th call of the backend, and whether all later ones fail, as with a process that dies. */
const ENDS = {
  "dies before": { kind: "before", code: "unavailable", lasts: true },
  "dies after": { kind: "after", code: "unavailable", lasts: true },
  "loses the answer of": { kind: "after", code: "unavailable", lasts: false },
  "is not sure of": { kind: "after", code: "ambiguous", lasts: false },
} as const;

async function endedAt(
  { faults, clock }: TestStore,
  count: number,
  { kind, code, lasts }: typeof ENDS[keyof typeof ENDS],
  work: () => Promise<unknown>,
) {
  let calls = 0;
  faults.plan = () => {
    if (++calls < count) return undefined;
    if (calls === count) return { kind, code };
    return lasts ? { kind: "before", code: "unavailable" } : undefined;
  };
  const died = await work().then(() => false, () => true);
  faults.plan = () => undefined;
  clock.advance(STALE_CLAIM_MS + 1);
  return died || calls >= count;
}

/** Not every call in the short suite. */
const STRIDE = scaled({ short: 4, long: 1 });

for (const [how, end] of Object.entries(ENDS)) {
  scaledTest(`a destroy that ${how} any call of the store loses nothing, edits included`, async () => {
    for (let count = 1; count < 100; count += STRIDE) {
      let died = false;
      await withApp([1, 2], async (test) => {
        const { store } = test;
        await store.fork(at("app"), "try");
        sql((await store.checkout(at("app@try"))).path, "INSERT INTO t VALUES('unsaved')");
        died = await endedAt(test, count, end, () => store.destroy(at("app@try"), { confirm: true }));
        await store.reapExpired();
        const there = (await branchNames(store)).includes("try");
        const path = there ? await store.path(at("app@try")).catch(() => undefined) : undefined;
        if (path !== undefined) assertEquals(rows(path), "1,2,unsaved", `${count}`);
        else {
          if (!there) await store.undo(at("app@try"));
          assertEquals(await stored(store, "app@try"), "1,2,unsaved", `${count}`);
        }
      });
      if (!died) return assert(count > 5);
    }
  });

  scaledTest(`an undo that ${how} any call of the store was done or was not`, async () => {
    for (let count = 1; count < 100; count += STRIDE) {
      let died = false;
      await withApp([1, 2], async (test) => {
        const { store } = test;
        await store.fork(at("app@main@c2"), "other");
        await store.rollback(at("app@main@c1"));
        await store.checkpoint(at("app"), "between");
        await store.promote(at("app@other"), at("app"));
        died = await endedAt(test, count, end, () => store.undo(at("app")));
        await store.reapExpired();
        const left = (await store.undoable(at("app"))).length;
        assertEquals([left, await stored(store, "app")], left === 2 ? [2, "1,2"] : [1, "1"], `${count}`);
        for (let more = 0; more < left; more++) await store.undo(at("app"));
        assertEquals(await stored(store, "app"), "1,2");
      });
      if (!died) return assert(count > 5);
    }
  });
}
