import { assert, assertEquals, assertRejects } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { VirtualClock } from "../../tests/support/clock.ts";
import { flush, makeTinyDatabase } from "../../tests/support/histories.ts";
import { at, OUTRIGHT, withDirectory } from "../../tests/support/stores.ts";
import { type FaultPlan, FaultyBackend } from "../../tests/support/faulty_backend.ts";
import { MemoryBackend } from "../../tests/support/memory_backend.ts";
import { nextTurn } from "../clock.ts";
import { TaskdError } from "../errors.ts";
import { Lease, STALE_CLAIM_MS } from "./lease.ts";
import { reapExpired } from "./reap.ts";
import type { Ref } from "./ref.ts";
import { Store } from "./store.ts";

const MAIN = at("app");
const SIDE = at("app@side");

interface Bench {
  store: Store;
  clock: VirtualClock;
  directory: string;
  /** The same store through a faulty backend. */
  through: (plan: FaultPlan) => Promise<Store>;
  /** Whether the branch `side` is there. */
  there: () => Promise<boolean>;
  change: (change: (ref: Ref) => Ref) => Promise<unknown>;
}

/** A store with `app@main`, and `app@side` that lives for a minute. */
async function withStore(work: (bench: Bench) => Promise<void>): Promise<void> {
  await withDirectory(async (directory) => {
    const backend = new MemoryBackend();
    const clock = new VirtualClock();
    const through = (plan: FaultPlan) =>
      Store.open({ backend: new FaultyBackend(backend, plan, { clock }), workspace: directory, clock });
    using store = await through(() => undefined);
    // As a daemon's first tick does, so that every store here goes on with its ages.
    await store.context.timeline.look();
    makeTinyDatabase(`${directory}/tiny.db`);
    await store.create("app", { from: `${directory}/tiny.db` });
    await store.fork(MAIN, "side", { ttl_ms: 60_000 });
    const { refs } = store.context;
    const there = async () => await refs.find("app", "side") !== undefined;
    await work({ store, clock, directory, through, there, change: (change) => refs.update("app", "side", change) });
  });
}

/** The process is gone when it is about to delete something. */
function diesAtDelete(): FaultPlan {
  let dead = false;
  return ({ method }) => {
    dead ||= method === "delete";
    return dead ? { kind: "before", code: "unavailable" } : undefined;
  };
}

// conformance: 1.janitor
Deno.test("a branch is reaped when its time has passed, and not a moment before", async () => {
  await withStore(async ({ store, clock, there }) => {
    await flush(store, SIDE, 1);
    const { path } = await store.checkout(SIDE);
    clock.advance(59_999);
    assertEquals((await reapExpired(store.context)).reaped, []);
    clock.advance(1);
    assertEquals((await reapExpired(store.context)).reaped, [{ db: "app", branch: "side", txid: 2, ttl_seconds: 60 }]);
    assert(!await there());
    await assertRejects(() => Deno.lstat(path), Deno.errors.NotFound);
    assertEquals((await store.branches()).map(({ branch }) => branch), ["main"]);
  });
});

Deno.test("a branch without a time to live, a protected one and a leased one stay", async () => {
  await withStore(async ({ store, clock, there }) => {
    clock.advance(3_600_000);
    await store.protect(SIDE, true);
    assertEquals((await reapExpired(store.context)).reaped, []);
    await store.protect(SIDE, false);
    const lease = await Lease.acquire(store.context, SIDE);
    assertEquals((await reapExpired(store.context)).reaped, []);
    await lease.release();
    assert(await there());
    assertEquals((await reapExpired(store.context)).reaped.length, 1);
  });
});

Deno.test("edits that were never stored outlive a branch that is reaped, and undo brings them back", async (t) => {
  // Claimed: by a reaper that died before it removed anything, and before the application's last commit.
  for (const claimed of [false, true]) {
    await t.step(claimed ? "claimed" : "due", () =>
      withStore(async ({ store, clock, there, change }) => {
        const { path } = await store.checkout(SIDE);
        clock.advance(60_000);
        const since = new Date(clock.now()).toISOString();
        if (claimed) await change((ref) => ({ ...ref, claim: { kind: "reap", since, nonce: "dead" } }));
        {
          using db = new DatabaseSync(path);
          db.exec("CREATE TABLE late (a); INSERT INTO late VALUES (1)");
        }
        clock.advance(STALE_CLAIM_MS + 1);
        assertEquals((await reapExpired(store.context)).reaped.length, 1);
        assert(!await there());
        assertEquals((await store.branches()).map(({ branch }) => branch), ["main", "side-pre-destroy"]);
        await store.undo(SIDE);
        using db = new DatabaseSync((await store.checkout(SIDE)).path);
        assertEquals(db.prepare("SELECT a FROM late").all().map(({ a }) => a), [1]);
      }));
  }
});

Deno.test("a reaped branch whose checkout is its head, or is open, or is no database, loses nothing", async (t) => {
  await t.step("its head", () =>
    withStore(async ({ store, clock }) => {
      const { path } = await store.checkout(SIDE);
      Deno.utimeSync(path, 1, 1);
      clock.advance(60_000);
      assertEquals((await reapExpired(store.context)).reaped.length, 1);
      assertEquals((await store.branches()).map(({ branch }) => branch), ["main"]);
    }));
  await t.step("open", () =>
    withStore(async ({ store, clock, there }) => {
      const { path } = await store.checkout(SIDE);
      using db = new DatabaseSync(path);
      db.exec("CREATE TABLE late (a)");
      clock.advance(60_000);
      assertEquals((await reapExpired(store.context)).reaped, []);
      assert(await there());
      assertEquals((await store.branches()).map(({ branch }) => branch), ["main", "side"]);
    }));
  await t.step("no database", () =>
    withStore(async ({ store, clock }) => {
      const { path } = await store.checkout(SIDE);
      Deno.writeTextFileSync(path, "what a person wrote over it");
      clock.advance(60_000);
      assertEquals((await reapExpired(store.context)).reaped.length, 1);
      assertEquals((await store.condition()).set_aside, 1);
    }));
});

Deno.test("a due branch whose stored content is damaged goes, and never with its edits", async (t) => {
  const damages = ["a byte", "gone"] as const;
  const checkouts = ["none", "clean", "edited"] as const;
  for (const damage of damages) {
    for (const checkout of checkouts) {
      await t.step(`${damage}, checkout ${checkout}`, () =>
        withStore(async ({ store, clock, there, through }) => {
          await flush(store, SIDE, 1);
          const { ref } = await store.context.refs.read("app", "side");
          const key = (await store.context.chains.resolve(ref.lineage, ref.txid)).objects.at(-1)!.key;
          const { path } = await store.checkout(SIDE);
          if (checkout === "none") await Deno.remove(path);
          if (checkout === "edited") {
            using db = new DatabaseSync(path);
            db.exec("CREATE TABLE late (a); INSERT INTO late VALUES (1)");
          }
          const { backend } = store.context;
          const { bytes } = await backend.get(key);
          if (damage === "gone") await backend.delete(key);
          else await backend.put(key, bytes.with(50, bytes[50]! ^ 1));
          clock.advance(60_000);
          using reaper = await through(() => undefined);
          const failed = (await reapExpired(reaper.context)).failed.map(({ error }) =>
            /nothing covers/.exec(error)?.[0]
          );
          // Without the keys of a chain nothing says that a checkout is no more than that.
          const stays = damage === "gone" && checkout !== "none";
          assertEquals([await there(), failed], [stays, stays ? ["nothing covers"] : []]);
          const branches = (await store.branches()).map(({ branch }) => branch);
          assertEquals(branches.includes("side-pre-destroy"), checkout === "edited" && !stays);
          if (checkout !== "edited") return;
          // Whatever became of the branch, its edits are there.
          const at = stays ? path : (await store.checkout({ db: "app", branch: "side-pre-destroy" })).path;
          using db = new DatabaseSync(at);
          assertEquals(db.prepare("SELECT a FROM late").all().map(({ a }) => a), [1]);
        }));
    }
  }
});

Deno.test("a branch that was reaped and is brought back lives for its time anew", async () => {
  await withStore(async ({ store, clock, there }) => {
    const { path } = await store.checkout(SIDE);
    {
      using db = new DatabaseSync(path);
      db.exec("CREATE TABLE late (a)");
    }
    clock.advance(60_000);
    assertEquals((await reapExpired(store.context)).reaped.length, 1);
    clock.advance(24 * 3_600_000);
    await store.undo(SIDE);
    assertEquals((await store.status(SIDE)).ttl_ms, 60_000);
    clock.advance(59_999);
    assertEquals((await reapExpired(store.context)).reaped, []);
    assert(await there());
    clock.advance(1);
    assertEquals((await reapExpired(store.context)).reaped.length, 1);
    // What was kept of it the first time is kept for its 7 days all the same.
    assertEquals((await store.branches()).map(({ branch }) => branch), ["main", "side-pre-destroy"]);
  });
});

Deno.test("a branch touched between the look and the claim stays", async () => {
  await withStore(async ({ store, clock, there, through }) => {
    clock.advance(60_000);
    let touched: Promise<unknown> | undefined;
    using reaper = await through(({ method }) => {
      if (method !== "replace" || touched) return undefined;
      // The reaper has read the ref and found it due; its claim is about to be written.
      touched = store.touch(SIDE);
      return { kind: "delay", delay_ms: 1 };
    });
    const reaping = reapExpired(reaper.context);
    while (clock.sleepers === 0) await nextTurn();
    await touched;
    clock.advance(1);
    assertEquals((await reaping).reaped, []);
    assert(await there());
    assertEquals((await store.context.refs.read("app", "side")).ref.claim, undefined);
  });
});

Deno.test("an interrupted destroy or reap is finished once its claim is stale, and only then", async (t) => {
  for (const kind of ["destroy", "reap"] as const) {
    await t.step(kind, async () => {
      await withStore(async ({ store, clock, there, through, change }) => {
        if (kind === "reap") clock.advance(60_000);
        else await change(({ ttl_ms: _, ...ref }) => ({ ...ref, protected: true }));
        // The process dies with its claim written and nothing removed.
        using dying = await through(diesAtDelete());
        if (kind === "reap") assertEquals((await reapExpired(dying.context)).reaped, []);
        else await assertRejects(() => dying.destroy(SIDE, { ...OUTRIGHT, force: true }), TaskdError);
        assertEquals((await reapExpired(store.context)).reaped, []);
        assert(await there(), "the claim may be a live one's");
        clock.advance(STALE_CLAIM_MS + 1);
        const healed = { db: "app", branch: "side", txid: 1, ttl_seconds: 60 };
        assertEquals(await reapExpired(store.context), { reaped: kind === "reap" ? [healed] : [], failed: [] });
        assert(!await there());
      });
    });
  }
});

Deno.test("opening a branch that is being reaped is refused with the contract's words", async () => {
  await withStore(async ({ store, clock, through }) => {
    clock.advance(60_000);
    using dying = await through(diesAtDelete());
    await reapExpired(dying.context);
    const error = await assertRejects(() => store.checkout(SIDE), TaskdError, "branch is being reaped");
    assertEquals(error.code, "branch_reaping");
  });
});

Deno.test("a branch that cannot be read is reported and does not block the others", async () => {
  await withStore(async ({ store, clock, there }) => {
    const { backend } = store.context;
    await backend.put("refs/app/bad.json", new Uint8Array([1]));
    clock.advance(60_000);
    const { reaped, failed } = await reapExpired(store.context);
    assertEquals([reaped, failed].map((list) => list.map(({ branch }) => branch)), [["side"], ["bad"]]);
    assert(!await there());
  });
});

Deno.test("a lost answer to the claim does not stop the reaper", async () => {
  await withStore(async ({ clock, there, through }) => {
    clock.advance(60_000);
    let lost = false;
    using reaper = await through(({ method }) => {
      if (method !== "replace" || lost) return undefined;
      lost = true;
      return { kind: "after", code: "ambiguous" };
    });
    assertEquals((await reapExpired(reaper.context)).reaped.length, 1);
    assert(!await there());
  });
});

Deno.test("a destroy finished for another process is not reported as reaped", async () => {
  await withStore(async ({ store, clock, there, through }) => {
    using dying = await through(diesAtDelete());
    await assertRejects(() => dying.destroy(SIDE, OUTRIGHT), TaskdError);
    clock.advance(STALE_CLAIM_MS + 1);
    await store.touch(MAIN);
    assertEquals((await reapExpired(store.context)).reaped, []);
    assert(!await there());
  });
});
