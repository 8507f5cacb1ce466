import { DatabaseSync } from "node:sqlite";
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { at, fails, OUTRIGHT, rows, sql, stored, withApp } from "../../../tests/support/stores.ts";
import { CaptureSession } from "../../capture/session.ts";
import { Checkouts } from "../checkouts.ts";
import type { RepointResult } from "../results.ts";
import { SAFETY_TTL_MS } from "../time_to_live.ts";
import { writeTombstones } from "../tombstones.ts";

const branchNames = async (store: { branches(): Promise<{ branch: string }[]> }) =>
  (await store.branches()).map(({ branch }) => branch).sort();

Deno.test("rollback() keeps the old head reachable through the safety fork", () =>
  withApp([1, 2, 3], async ({ store }) => {
    const { safety_branch, mode, txid } = await store.rollback(at("app@main@c1"));
    assertEquals([safety_branch, mode], ["main-pre-rollback", "shared"]);
    assertEquals(await stored(store, "app"), "1");
    assertEquals(await stored(store, "app@main-pre-rollback"), "1,2,3");
    const { state, txid: now, shared } = await store.status(at("app"));
    assertEquals([state, now, shared], ["idle", txid, true]);
    assertEquals((await store.status(at("app@main-pre-rollback"))).ttl_ms, SAFETY_TTL_MS);
  }));

Deno.test("after a rollback every checkpoint resolves, also later ones, and can be restored", () =>
  withApp([1, 2, 3], async ({ store, edit }) => {
    await store.rollback(at("app@main@c1"));
    assertEquals(await stored(store, "app@main@c2"), "1,2");
    await edit("main", "other");
    await store.checkpoint(at("app"), "other");
    const { txid } = await store.rollback(at("app@main@c3"));
    assertEquals(await stored(store, "app"), "1,2,3");
    assertEquals((await store.status(at("app"))).txid, txid);
    for (const [name, content] of [["c1", "1"], ["c2", "1,2"], ["c3", "1,2,3"], ["other", "1,other"]] as const) {
      assertEquals(await stored(store, `app@main@${name}`), content);
      assertEquals(rows((await store.checkout(at(`app@main@${name}`))).path), content);
    }
    await edit("main", 4);
    await store.checkpoint(at("app"), "c4");
    assertEquals(await stored(store, "app@main@c4"), "1,2,3,4");
  }));

Deno.test("safety forks are numbered, take their own life, and are left out when asked", () =>
  withApp([1, 2], async ({ store, edit }) => {
    for (let i = 1; i <= 3; i++) {
      await store.rollback(at("app@main@c2"), { safety_ttl_ms: i * 1000 });
      await edit("main", `x${i}`);
      await store.checkpoint(at("app"), `x${i}`);
    }
    await store.rollback(at("app@main@c1"), { safety: false });
    assertEquals(await branchNames(store), ["main", "main-pre-rollback", "main-pre-rollback-2", "main-pre-rollback-3"]);
    assertEquals(await stored(store, "app@main-pre-rollback-2"), "1,2,x1");
    assertEquals((await store.status(at("app@main-pre-rollback-3"))).ttl_ms, 3000);
  }));

Deno.test("the safety fork of a branch with the longest name has a name that is allowed", () =>
  withApp([1], async ({ store }) => {
    const long = "b".repeat(128);
    await store.fork(at("app"), long);
    await store.promote(at("app@main@c1"), at(`app@${long}`));
    await store.promote(at("app@main@c1"), at(`app@${long}`));
    const names = await branchNames(store);
    assertEquals(names.filter((name) => name.includes("pre-promote")).map((name) => name.length), [128, 128]);
  }));

Deno.test("promote() gives a branch the head of another, and leaves that one alone", () =>
  withApp([1, 2], async ({ store, edit }) => {
    await store.fork(at("app@main@c1"), "work");
    await edit("work", "w");
    await store.checkpoint(at("app@work"), "done");
    const { safety_branch, checkout_refreshed } = await store.promote(at("app@work"), at("app"));
    assertEquals([safety_branch, checkout_refreshed], ["main-pre-promote", true]);
    assertEquals(await stored(store, "app"), "1,w");
    assertEquals(rows(await store.path(at("app"))), "1,w");
    assertEquals(await stored(store, "app@main-pre-promote"), "1,2");
    // Both go on by themselves.
    await edit("work", "later");
    await store.checkpoint(at("app@work"), "later");
    await edit("main", "m");
    await store.checkpoint(at("app"), "m");
    assertEquals([await stored(store, "app"), await stored(store, "app@work")], ["1,w,m", "1,w,later"]);
    for (const name of ["c1", "c2", "m"]) await stored(store, `app@main@${name}`);
    await store.destroy(at("app@work"), OUTRIGHT);
    assertEquals(await stored(store, "app@main@m"), "1,w,m");
  }));

Deno.test("promote() moves nothing when a branch does not stand where it is expected", () =>
  withApp([1, 2], async ({ store, edit }) => {
    await store.fork(at("app"), "try");
    await edit("try", 3);
    await store.checkpoint(at("app@try"), "c3");
    const place = async (address: string) => {
      const { lineage, txid } = await store.status(at(address));
      return `${lineage}/${txid}`;
    };
    const [expected, expected_onto] = [await place("app@try"), await place("app")];
    for (
      const options of [
        { expected: expected_onto },
        { expected_onto: expected },
        { expected, expected_onto: `${expected_onto}0` },
      ]
    ) await fails("conflict", store.promote(at("app@try"), at("app"), options));
    await edit("try", 4);
    await store.checkpoint(at("app@try"), "c4");
    await fails("conflict", store.promote(at("app@try"), at("app"), { expected, expected_onto }));
    assertEquals([await stored(store, "app"), await place("app")], ["1,2", expected_onto]);
    await store.promote(at("app@try"), at("app"), { expected: await place("app@try"), expected_onto });
    assertEquals(await stored(store, "app"), "1,2,3,4");
  }));

Deno.test("rollback and promote refuse what makes no sense", () =>
  withApp([1], async ({ store }) => {
    await store.fork(at("app"), "b");
    await fails("usage", store.rollback(at("app")));
    await fails("not_found", store.rollback(at("app@main@none")));
    await fails("not_found", store.rollback(at("app@none@c1")));
    await fails("usage", store.promote(at("app@b"), at("app@b")));
    await fails("usage", store.promote(at("app@b"), at("other@b")));
    await fails("usage", store.promote(at("app@b"), at("app@main@c1")));
    await fails("not_found", store.promote(at("app@b"), at("app@none")));
    await fails("not_found", store.promote(at("app@none"), at("app@b")));
    assertEquals(await branchNames(store), ["b", "main"]);
    assertEquals((await store.lease(at("app"))).live, false);
  }));

Deno.test("a clean checkout follows its branch; one with edits stays as it is, and is detached", () =>
  withApp([1, 2], async ({ store, edit }) => {
    const path = await edit("main");
    assertEquals((await store.rollback(at("app@main@c1"))).checkout_refreshed, true);
    assertEquals([rows(path), (await store.status(at("app"))).state], ["1", "idle"]);
    sql(path, "INSERT INTO t VALUES('unsaved')");
    assertEquals((await store.rollback(at("app@main@c2"), { safety: false })).checkout_refreshed, false);
    assertEquals([rows(path), (await store.status(at("app"))).state], ["1,unsaved", "detached"]);
    await fails("dirty", store.checkout(at("app")));
    await fails("dirty", store.checkpoint(at("app"), "nope"));
    await store.checkout(at("app"), { force: true });
    assertEquals([rows(path), (await store.status(at("app"))).state], ["1,2", "idle"]);
  }));

Deno.test("edits in the checkout of a branch that moves are in its safety branch", () =>
  withApp([1, 2], async ({ store, edit }) => {
    const path = await edit("main", "unsaved");
    const { safety_branch, checkout_refreshed, checkout_problem } = await store.rollback(at("app@main@c1"));
    assertEquals([safety_branch, checkout_refreshed], ["main-pre-rollback", false]);
    assertStringIncludes(checkout_problem!, "kept in app@main-pre-rollback");
    assertEquals(await stored(store, "app@main-pre-rollback"), "1,2,unsaved");
    assertEquals([rows(path), (await store.status(at("app"))).state], ["1,2,unsaved", "detached"]);
    await store.checkout(at("app"));
    assertEquals([rows(path), (await store.status(at("app"))).state], ["1", "idle"]);
  }));

Deno.test("a checkout that has to follow is replaced once its edits are kept, else nothing moves", () =>
  withApp([1, 2], async ({ store, edit }) => {
    const path = await edit("main", "unsaved");
    await fails("dirty", store.rollback(at("app@main@c1"), { refuse_in_use: true, safety: false }));
    assertEquals([rows(path), await stored(store, "app")], ["1,2,unsaved", "1,2"]);
    const { checkout_refreshed } = await store.rollback(at("app@main@c1"), { refuse_in_use: true });
    assertEquals([checkout_refreshed, rows(path), (await store.status(at("app"))).state], [true, "1", "idle"]);
    assertEquals(await stored(store, "app@main-pre-rollback"), "1,2,unsaved");
    await fails(
      "dirty",
      (sql(path, "INSERT INTO t VALUES('more')"), store.undo(at("app"), { refuse_in_use: true, safety: false })),
    );
    await store.undo(at("app"), { refuse_in_use: true });
    assertEquals(rows(path), "1,2,unsaved");
  }));

Deno.test("a branch that has no checkout leaves none behind when it moves", () =>
  withApp([1, 2], async ({ store }) => {
    await store.fork(at("app"), "bare");
    assertEquals((await store.promote(at("app@main@c1"), at("app@bare"))).checkout_refreshed, true);
    assertEquals((await store.status(at("app@bare"))).state, "idle");
  }));

Deno.test("an edit that lands while a rollback or promote is under way is not overwritten", async (t) => {
  const cases = (["rollback", "promote"] as const).flatMap((op) => [{ op, open: false }, { op, open: true }]);
  for (const { op, open } of cases) {
    await t.step(
      `${op}, ${open ? "in the log of an open application" : "in the file"}`,
      () =>
        withApp([1, 2], async ({ store, edit, faults }) => {
          await store.fork(at("app@main@c1"), "other");
          const path = await edit("main");
          let application: DatabaseSync | undefined;
          let landed = false;
          // The checkout has been found clean; the new lineage is about to be begun.
          faults.plan = ({ method, key }) => {
            if (!landed && method === "create" && key.endsWith("base.json")) {
              landed = true;
              if (open) application = new DatabaseSync(path);
              if (application) application.exec("INSERT INTO t VALUES('landed')");
              else sql(path, "INSERT INTO t VALUES('landed')");
            }
            return undefined;
          };
          const { checkout_refreshed } = op === "rollback"
            ? await store.rollback(at("app@main@c1"), { safety: false })
            : await store.promote(at("app@other"), at("app"), { safety: false });
          application?.close();
          assert(landed);
          assertEquals([checkout_refreshed, rows(path)], [false, "1,2,landed"]);
          assertEquals((await store.status(at("app"))).state, "detached");
        }),
    );
  }
});

Deno.test("an application that comes up while its checkout is replaced is kept waiting", () =>
  withApp([1, 2], async ({ store, edit, faults }) => {
    const path = await edit("main");
    // Detached and clean: the branch moved from elsewhere.
    await store.context.refs.update("app", "main", (ref) => ({
      ...ref,
      txid: ref.checkpoints[0]!.txid,
      digest: ref.checkpoints[0]!.digest,
    }));
    let landed = false;
    faults.plan = ({ method }) => {
      if (!landed && method === "getStream") {
        landed = true;
        assertThrows(() => sql(path, "INSERT INTO t VALUES('landed')"), Error, "locked");
      }
      return undefined;
    };
    await store.checkout(at("app"));
    assert(landed);
    sql(path, "INSERT INTO t VALUES('after')");
    assertEquals(rows(path), "1,after");
  }));

Deno.test("a failed or interrupted rollback leaves the branch and the list of branches unchanged", () =>
  withApp([], async ({ store, faults }) => {
    const session = await CaptureSession.open(store, at("app"), { flush_every_ms: 0, snapshot_every: 100 });
    for (const value of [1, 2]) {
      sql(session.checkout, `INSERT INTO t VALUES(${value})`);
      await session.checkpoint(`c${value}`);
    }
    await session.close();
    faults.plan = ({ method, key }) =>
      method === "put" && key.includes("snapshot-") ? { kind: "before", code: "no_space" } : undefined;
    await fails("no_space", store.rollback(at("app@main@c1"), { materialize: true }));
    faults.plan = () => undefined;
    const signal = AbortSignal.abort();
    await fails("interrupted", store.rollback(at("app@main@c1"), { materialize: true, signal }));
    assertEquals(await stored(store, "app"), "1,2");
    assertEquals(await branchNames(store), ["main"]);
    assertEquals((await store.lease(at("app"))).live, false);
    assertEquals((await store.status(at("app"))).state, "idle");
  }));

// conformance: 2.compact_materializes 2.mode_materialized
Deno.test("compact() leaves one object and keeps content, checkpoints and the checkout's state", () =>
  withApp([1, 2, 3], async ({ store, edit }) => {
    const path = await edit("main");
    const before = await store.status(at("app"));
    const { objects_before, txid } = await store.compact(at("app"));
    assertEquals([objects_before, txid], [before.depth + 1, before.txid]);
    const after = await store.status(at("app"));
    assertEquals([after.depth, after.shared, after.state, after.txid], [0, false, "idle", before.txid]);
    assertEquals((await store.checkout(at("app"))).source, "kept");
    assertEquals(await stored(store, "app"), "1,2,3");
    assertEquals(await stored(store, "app@main@c2"), "1,2");
    sql(path, "INSERT INTO t VALUES('unsaved')");
    await store.compact(at("app"));
    assertEquals((await store.status(at("app"))).state, "dirty");
    await store.checkpoint(at("app"), "c4");
    assertEquals(await stored(store, "app@main@c4"), "1,2,3,unsaved");
  }));

// conformance: 2.depth_floor 2.materialize_flag
Deno.test("everything materializes at the depth floor, and shares below it", () =>
  withApp([], async ({ store }) => {
    const session = await CaptureSession.open(store, at("app"), { flush_every_ms: 0, snapshot_every: 100 });
    const modes: string[] = [];
    for (let depth = 1; depth <= 18; depth++) {
      sql(session.checkout, `INSERT INTO t VALUES(${depth})`);
      await session.checkpoint(`d${depth}`);
      assertEquals((await store.status(at("app"))).depth, depth);
      modes.push((await store.fork(at("app"), `f${depth}`)).mode[0]!);
    }
    await session.close();
    assertEquals(modes.join(""), "s".repeat(15) + "mmm");
    const { promote, rollback } = { promote: store.promote.bind(store), rollback: store.rollback.bind(store) };
    assertEquals((await promote(at("app@main@d16"), at("app@f1"))).mode, "materialized");
    assertEquals((await promote(at("app@main@d15"), at("app@f1"))).mode, "shared");
    assertEquals((await rollback(at("app@main@d17"))).mode, "materialized");
    assertEquals((await rollback(at("app@main@d2"))).mode, "shared");
    assertEquals((await rollback(at("app@main@d2"), { materialize: true })).mode, "materialized");
    assertEquals(await stored(store, "app@f16"), Array.from({ length: 16 }, (_, i) => i + 1).join(","));
  }));

Deno.test("a checkout follows its branch to a point that is shared with it, or copied for it", () =>
  withApp([1], async ({ store }) => {
    // By a session, so that there are segments: a copy of a snapshot is the same object.
    const session = await CaptureSession.open(store, at("app"), { flush_every_ms: 0, snapshot_every: 16 });
    const path = session.checkout;
    for (const value of [2, 3]) {
      sql(path, `INSERT INTO t VALUES(${value})`);
      await session.checkpoint(`s${value}`);
    }
    await session.close();
    await store.fork(at("app@main@s2"), "other");
    const moves: [string, () => Promise<RepointResult>][] = [
      ["1,2", () => store.rollback(at("app@main@s2"), { materialize: true })],
      ["1,2,3", () => store.rollback(at("app@main@s3"))],
      ["1,2", () => store.undo(at("app"))],
      ["1,2", () => store.promote(at("app@other"), at("app"), { materialize: true })],
    ];
    for (const [expected, move] of moves) {
      assertEquals((await move()).checkout_problem, undefined);
      assertEquals(rows(path), expected);
    }
  }));

Deno.test("a head that cannot be kept is not left", () =>
  withApp([1, 2], async ({ store, faults }) => {
    faults.plan = ({ method, key }) =>
      method === "create" && key.startsWith("refs/") ? { kind: "before", code: "unavailable" } : undefined;
    await fails("unavailable", store.rollback(at("app@main@c1")));
    faults.plan = () => undefined;
    assertEquals(await stored(store, "app"), "1,2");
  }));

Deno.test("a shared branch that is given a full copy is materialized, and says so", () =>
  withApp([1, 2], async ({ store }) => {
    for (
      const [branch, work] of [
        ["compacted", () => store.compact(at("app@compacted"))],
        ["promoted", () => store.promote(at("app@main@c1"), at("app@promoted"), { materialize: true })],
      ] as const
    ) {
      await store.fork(at("app"), branch);
      assertEquals((await store.status(at(`app@${branch}`))).storage, "shared");
      await work();
      assertEquals((await store.status(at(`app@${branch}`))).storage, "materialized");
    }
  }));

/** Has an application commit right after a checkout was inspected by size and time, or compared whole. */
async function withEditAfter(step: "look" | "comparison", work: () => Promise<void>): Promise<void> {
  const { inspect, restore } = Checkouts.prototype;
  const edit = (path: string) => sql(path, "INSERT INTO t VALUES('edit')");
  if (step === "look") {
    Checkouts.prototype.inspect = function (target) {
      const view = inspect.call(this, target);
      Checkouts.prototype.inspect = inspect;
      edit(view!.path);
      return view;
    };
  } else {
    Checkouts.prototype.restore = function (target, options) {
      Checkouts.prototype.restore = restore;
      edit(this.inspect(target)!.path);
      return restore.call(this, target, options);
    };
  }
  try {
    await work();
  } finally {
    Object.assign(Checkouts.prototype, { inspect, restore });
  }
}

Deno.test("an edit that comes right after its checkout was seen to be stored is never dropped", async (t) => {
  // What a rollback compares it has taken: nothing comes in between.
  await t.step("by a rollback, after the look", () =>
    withApp([1, 2], async ({ store, edit }) => {
      const path = await edit("main");
      await withEditAfter("look", async () => {
        assertEquals((await store.rollback(at("app@main@c1"))).checkout_refreshed, false);
      });
      assertEquals([rows(path), (await store.status(at("app"))).state], ["1,2,edit", "detached"]);
    }));
  await t.step("by a session that opens, after the comparison", () =>
    withApp([1, 2], async ({ store, edit }) => {
      const path = await edit("main");
      Deno.removeSync(`${path}.sum`);
      await withEditAfter("comparison", async () => {
        await fails("dirty", CaptureSession.open(store, at("app"), { flush_every_ms: 0, snapshot_every: 16 }));
      });
      assertEquals(rows(path), "1,2,edit");
    }));
});

Deno.test("compact() of a branch whose objects are being removed says that it could not be compacted", () =>
  withApp([1], async ({ store }) => {
    const at_time = "2026-01-01T00:00:00.000Z";
    const { lineage } = (await store.context.refs.read("app", "main")).ref;
    await writeTombstones(store.context, [{ lineage, at: at_time, doomed: at_time }], undefined);
    const { message } = await fails("conflict", store.compact(at("app")));
    assert(message.startsWith("Cannot compact app@main: what it builds upon"), message);
  }));
