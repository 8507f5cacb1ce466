import { assert, assertEquals } from "@std/assert";
import { at, fails, stored, withApp } from "../../../tests/support/stores.ts";
import type { BackendCall } from "../../../tests/support/faulty_backend.ts";

/** The objects that calls wrote. */
const written = (calls: BackendCall[]) =>
  calls.filter(({ method }) => ["put", "create", "replace", "copy", "cloneIn"].includes(method)).map(({ key }) => key);

// conformance: 2.mode_shared 2.shared_default
Deno.test("a fork writes two small objects and reads no data", () =>
  withApp([1, 2], async ({ store, faults }) => {
    await store.fork(at("app"), "warm");
    const { txid } = await store.status(at("app"));
    faults.calls.length = 0;
    assertEquals(await store.fork(at("app"), "b"), { db: "app", branch: "b", txid, mode: "shared", path: "fast" });
    const keys = written(faults.calls);
    assertEquals(keys.length, 2);
    assert(keys[0]!.endsWith("/base.json") && keys[1] === "refs/app/b.json", String(keys));
    assertEquals(faults.calls.filter(({ method }) => method === "getStream" || method === "getRange"), []);
    const { backend } = store.context;
    const bytes = await Promise.all(keys.map(async (key) => (await backend.get(key)).bytes.length));
    assert(bytes[0]! + bytes[1]! <= 450, `${bytes}`);
  }));

// conformance: 9.layout 2.mode_materialized
Deno.test("the first shared fork raises the layout to 2 beforehand; a full copy does not", () =>
  withApp([1], async ({ store, faults }) => {
    const layout = async () =>
      JSON.parse(new TextDecoder().decode((await store.context.backend.get("bstore.json")).bytes));
    const { mode, path } = await store.fork(at("app"), "copy", { materialize: true });
    assertEquals([mode, path, (await layout()).layout_version], ["materialized", "fast", 1]);
    faults.calls.length = 0;
    await store.fork(at("app"), "shared");
    assertEquals((await layout()).layout_version, 2);
    assertEquals(written(faults.calls)[0], "bstore.json");
  }));

Deno.test("forks of unchanged forks all point at the lineage that holds the data", () =>
  withApp([1], async ({ store }) => {
    const { ref: { lineage, txid, digest } } = await store.context.refs.read("app", "main");
    const origin = { lineage, txid, digest };
    let from = "main";
    for (let i = 0; i < 20; i++) {
      await store.fork(at(`app@${from}`), `f${i}`);
      from = `f${i}`;
      assertEquals((await store.context.refs.read("app", from)).ref.base, origin);
    }
    assertEquals(await stored(store, "app@f19"), "1");
  }));

// conformance: 2.mode_shared
Deno.test("branches diverge without a trace in each other", () =>
  withApp([1], async ({ store, edit }) => {
    await store.fork(at("app"), "b");
    await edit("b", "b");
    await store.checkpoint(at("app@b"), "b");
    await store.fork(at("app@b"), "c");
    await edit("main", "m");
    await store.checkpoint(at("app"), "m");
    await edit("c", "c");
    await store.checkpoint(at("app@c"), "c");
    assertEquals(
      await Promise.all(["main", "b", "c", "main@c1", "b@b"].map((name) => stored(store, `app@${name}`))),
      ["1,m", "1,b", "1,b,c", "1", "1,b"],
    );
  }));

Deno.test("a fork takes what is stored: a checkpoint, or the head without the checkout's edits", () =>
  withApp([1, 2], async ({ store, edit }) => {
    await edit("main", "unsaved");
    await store.fork(at("app"), "head");
    await store.fork(at("app@main@c1"), "old", { ttl_ms: 1000 });
    assertEquals([await stored(store, "app@head"), await stored(store, "app@old")], ["1,2", "1"]);
    const { ttl_ms, checkpoints } = await store.status(at("app@old"));
    assertEquals([ttl_ms, checkpoints], [1000, []]);
    assertEquals((await store.status(at("app"))).state, "dirty");
  }));

Deno.test("a fork that is refused leaves nothing behind", () =>
  withApp([1], async ({ store, faults }) => {
    await store.fork(at("app"), "b");
    const keys = async () => (await Array.fromAsync(store.context.backend.list("data/"))).length;
    const before = await keys();
    faults.calls.length = 0;
    await fails("invalid_name", store.fork(at("app"), "B"));
    await fails("not_found", store.fork(at("app@none"), "c"));
    await fails("not_found", store.fork(at("app@main@none"), "c"));
    await fails("not_found", store.fork(at("none"), "c"));
    await fails("already_exists", store.fork(at("app"), "b", { materialize: true }));
    assertEquals(written(faults.calls), []);
    assertEquals((await fails("already_exists", store.fork(at("app"), "b"))).hint, "Choose another name");
    assertEquals(await keys(), before);
    // One that lost the race for the name cleans up after itself.
    let raced = false;
    faults.plan = ({ method, key }) => {
      if (!raced && method === "create" && key === "refs/app/raced.json") {
        raced = true;
        return { kind: "before", code: "precondition_failed" };
      }
      return undefined;
    };
    await fails("already_exists", store.fork(at("app"), "raced"));
    assertEquals(await keys(), before);
  }));

Deno.test("a hundred forks at once are a hundred branches, and of one name exactly one is made", () =>
  withApp([1], async ({ store }) => {
    await Promise.all(Array.from({ length: 100 }, (_, i) => store.fork(at("app"), `f${i}`)));
    assertEquals(await store.databases(), [{ db: "app", branches: 101 }]);
    const outcomes = await Promise.allSettled(Array.from({ length: 10 }, () => store.fork(at("app"), "same")));
    assertEquals(outcomes.filter(({ status }) => status === "fulfilled").length, 1);
    assertEquals(await stored(store, "app@same"), "1");
  }));

Deno.test("a chain at the limit of base pointers is copied, not shared", () =>
  withApp([1], async ({ store }) => {
    const { chains } = store.context;
    const resolve = chains.resolve.bind(chains);
    let lineages = 0;
    chains.resolve = async (...point) => {
      const chain = await resolve(...point);
      const objects = Array.from({ length: lineages }, (_, i) => ({ ...chain.objects[0]!, lineage: `${i}` }));
      return { ...chain, objects };
    };
    lineages = 4095;
    assertEquals((await store.fork(at("app"), "shared")).mode, "shared");
    lineages = 4096;
    // They are read to be copied, and do not follow one another.
    await fails("corrupt", store.fork(at("app"), "copy"));
  }));
