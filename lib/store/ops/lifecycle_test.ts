import { assertEquals } from "@std/assert";
import { at, fails, OUTRIGHT, stored, withApp } from "../../../tests/support/stores.ts";
import { nextTurn } from "../../clock.ts";
import { STALE_CLAIM_MS } from "../lease.ts";

// conformance: 2.files.shadow 8.storage_reclaim
Deno.test("destroy() removes a branch with its checkouts, and nothing that others stand on", () =>
  withApp([1, 2], async ({ store, directory, edit }) => {
    await store.fork(at("app"), "child");
    await edit("main");
    await store.checkout(at("app@main@c1"));
    await store.checkout(at("app@child"));
    await store.destroy(at("app"), OUTRIGHT);
    await fails("not_found", store.status(at("app")));
    await fails("not_found", store.path(at("app@child@c1")));
    const names = (path: string) => [...Deno.readDirSync(`${directory}/${path}`)].map(({ name }) => name).sort();
    // The shadow is only there where files can share blocks.
    const kept = names("checkouts/app").filter((name) => name !== "child.db.shadow");
    assertEquals(kept, ["child.db", "child.db.sum"]);
    assertEquals(names("checkouts-ro/app").filter((name) => !name.startsWith("~")), []);
    assertEquals(await stored(store, "app@child"), "1,2");
    assertEquals((await store.verify(at("app@child"))).ok, true);
    await fails("not_found", store.destroy(at("app"), OUTRIGHT));
  }));

Deno.test("a branch whose name begins like a destroyed one's keeps its files", () =>
  withApp([1], async ({ store }) => {
    for (const branch of ["a", "ab", "a-b"]) {
      await store.fork(at("app"), branch);
      await store.checkout(at(`app@${branch}`));
      await store.checkpoint(at(`app@${branch}`), "c");
      await store.checkout(at(`app@${branch}@c`));
    }
    await store.destroy(at("app@a"), OUTRIGHT);
    for (const branch of ["ab", "a-b"]) {
      await store.path(at(`app@${branch}`));
      await store.path(at(`app@${branch}@c`));
    }
  }));

Deno.test("a protected branch is destroyed only by force, and a leased one not even then", () =>
  withApp([1], async ({ store, clock }) => {
    assertEquals((await store.protect(at("app"), true)).protected, true);
    await store.protect(at("app"), true);
    await fails("protected", store.destroy(at("app"), OUTRIGHT));
    assertEquals((await store.status(at("app"))).protected, true);
    const expires_at = new Date(clock.now() + 1000).toISOString();
    await store.context.refs.update("app", "main", (ref) => ({
      ...ref,
      lease: { holder: "other:0123456789abcdef:01234567", expires_at },
    }));
    await fails("lease_held", store.destroy(at("app"), { ...OUTRIGHT, force: true }));
    clock.advance(1000);
    await store.destroy(at("app"), { ...OUTRIGHT, force: true });
    assertEquals(await store.branches(), []);
  }));

Deno.test("unprotected again, a branch is destroyed like any other", () =>
  withApp([1], async ({ store }) => {
    await store.protect(at("app"), true);
    await store.protect(at("app"), false);
    await store.destroy(at("app"), OUTRIGHT);
  }));

Deno.test("a destroy that could not remove the ref can be repeated at once", async (t) => {
  for (const code of ["unavailable", "precondition_failed"] as const) {
    await t.step(code, () =>
      withApp([1], async ({ store, edit, faults }) => {
        await edit("main");
        faults.plan = ({ method }) => method === "delete" ? { kind: "before", code } : undefined;
        await fails(["unavailable", "conflict"], store.destroy(at("app"), OUTRIGHT));
        faults.plan = () => undefined;
        assertEquals(await stored(store, "app"), "1");
        await store.destroy(at("app"), OUTRIGHT);
        assertEquals(await store.branches(), []);
      }));
  }
});

Deno.test("a fresh claim keeps others from the branch; destroy takes over a stale one", () =>
  withApp([1], async ({ store, clock, edit }) => {
    await edit("main");
    await store.fork(at("app"), "other");
    const claim = { kind: "reap" as const, since: new Date(clock.now()).toISOString(), nonce: "elsewhere" };
    await store.context.refs.update("app", "main", (ref) => ({ ...ref, claim }));
    for (
      const work of [
        () => store.checkout(at("app")),
        () => store.checkpoint(at("app"), "x"),
        () => store.fork(at("app"), "b"),
        () => store.rollback(at("app@main@c1")),
        () => store.compact(at("app")),
        () => store.touch(at("app")),
        () => store.protect(at("app"), true),
        () => store.promote(at("app"), at("app@other")),
        () => store.destroy(at("app"), OUTRIGHT),
      ]
    ) {
      const { message } = await fails("branch_reaping", work());
      assertEquals(message, "branch is being reaped", String(work));
    }
    assertEquals((await store.status(at("app"))).state, "idle");
    assertEquals(await stored(store, "app"), "1");
    clock.advance(STALE_CLAIM_MS + 1);
    await store.destroy(at("app"), OUTRIGHT);
  }));

Deno.test("touch() counts a branch as used, and sets, keeps or takes away its life", () =>
  withApp([1], async ({ store, clock }) => {
    clock.advance(5000);
    const now = new Date(clock.now()).toISOString();
    assertEquals(await store.touch(at("app"), { ttl_ms: 60_000 }), {
      db: "app",
      branch: "main",
      touched_at: now,
      ttl_ms: 60_000,
    });
    clock.advance(5000);
    assertEquals((await store.touch(at("app"))).ttl_ms, 60_000);
    assertEquals("ttl_ms" in await store.touch(at("app"), { ttl_ms: null }), false);
    assertEquals((await store.status(at("app"))).touched_at, new Date(clock.now()).toISOString());
    await fails("not_found", store.touch(at("app@none")));
  }));

Deno.test("a branch that changes while it is destroyed stays, and so does the other's claim", () =>
  withApp([1], async ({ store, clock, faults }) => {
    const { refs } = store.context;
    let changed: Promise<unknown> | undefined;
    let state: "claiming" | "claimed" | "changed" = "claiming";
    faults.plan = ({ method }) => {
      if (state === "claimed") {
        state = "changed";
        // Later calls find the branch as another process has left it.
        const claim = { kind: "reap" as const, since: new Date(clock.now()).toISOString(), nonce: "elsewhere" };
        changed = refs.update("app", "main", (ref) => ({ ...ref, claim }));
        return { kind: "delay", delay_ms: 1 };
      }
      if (method === "replace" && state === "claiming") state = "claimed";
      return undefined;
    };
    const destroyed = fails("conflict", store.destroy(at("app"), OUTRIGHT));
    while (clock.sleepers === 0) await nextTurn();
    await changed;
    clock.advance(1);
    await destroyed;
    assertEquals((await refs.read("app", "main")).ref.claim?.nonce, "elsewhere");
  }));

Deno.test("a destroy that cannot remove the checkout leaves the branch as free as it was", () =>
  withApp([1], async ({ store, edit }) => {
    const path = await edit("main");
    Deno.mkdirSync(`${path}.last-used/strange`, { recursive: true });
    await fails("unavailable", store.destroy(at("app"), OUTRIGHT));
    await store.checkpoint(at("app"), "still");
    Deno.removeSync(`${path}.last-used`, { recursive: true });
    await store.destroy(at("app"), OUTRIGHT);
  }));

Deno.test("a destroy that can neither remove the checkout nor its claim names the first reason", () =>
  withApp([1], async ({ store, edit, faults }) => {
    const path = await edit("main");
    Deno.mkdirSync(`${path}.last-used/strange`, { recursive: true });
    let writes = 0;
    faults.plan = ({ method }) => method === "replace" && ++writes > 1 ? { kind: "before", code: "denied" } : undefined;
    const error = await fails("unavailable", store.destroy(at("app"), OUTRIGHT));
    assertEquals([error.message.includes(".last-used"), writes], [true, 2]);
  }));

Deno.test("what is done to a branch is refused for a checkpoint's address, and the branch stays", () =>
  withApp([1], async ({ store }) => {
    await store.fork(at("app"), "child");
    await store.checkpoint(at("app@child"), "named");
    const named = at("app@child@named");
    for (
      const refused of [
        () => store.destroy(named, OUTRIGHT),
        () => store.touch(named),
        () => store.protect(named, true),
        () => store.compact(named),
        () => store.checkpoint(named, "again"),
      ]
    ) await fails("usage", refused());
    assertEquals((await store.status(at("app@child"))).checkpoints.map(({ name }) => name), ["named"]);
  }));
