import { assertEquals } from "@std/assert";
import { fails } from "../../tests/support/stores.ts";
import { SeededRandom } from "../../tests/support/writers/random.ts";
import type { Backend } from "../backend/backend.ts";
import { type Fault, FaultyBackend } from "../../tests/support/faulty_backend.ts";
import { MemoryBackend } from "../../tests/support/memory_backend.ts";
import { MANIFEST_KEY } from "./keys.ts";
import { LAYOUT_SHARED, openManifest, raiseLayout } from "./manifest.ts";

const open = (backend: Backend, seed = 1) => openManifest(backend, { now: 0, random: new SeededRandom(seed).bytes });
const put = (backend: Backend, text: string) => backend.put(MANIFEST_KEY, new TextEncoder().encode(text));

Deno.test("an empty location becomes a store once, and later openers find the same one", async () => {
  const backend = new MemoryBackend();
  const made = await Promise.all(Array.from({ length: 8 }, (_, i) => open(backend, i + 1)));
  assertEquals(new Set(made.map(({ store_id }) => store_id)).size, 1);
  assertEquals(made[0]!.layout_version, 1);
  assertEquals(await open(backend, 99), made[0]);
});

Deno.test("a manifest whose creation has no answer is found", async () => {
  for (const kind of ["before", "after"] as const) {
    const inner = new MemoryBackend();
    let first = true;
    const backend = new FaultyBackend(inner, ({ method }) => {
      if (method !== "create" || !first) return undefined;
      first = false;
      return { kind, code: "ambiguous" } as Fault;
    });
    if (kind === "after") assertEquals(await open(backend), await open(inner, 2));
    else await fails("not_found", open(backend));
  }
});

Deno.test("a place with other data is not made a store", async () => {
  for (const key of ["refs/app/main.json", "data/x/base.json"]) {
    const backend = new MemoryBackend();
    await backend.put(key, new Uint8Array(1));
    await fails("not_a_store", open(backend));
    assertEquals((await Array.fromAsync(backend.list(""))).map(({ key }) => key), [key]);
  }
});

// conformance: 7.layout
Deno.test("a manifest that is not ours is refused, and one of a later layout up front", async () => {
  const good = { format: "taskd-branch-store", layout_version: 2, store_id: "0".repeat(32), created_at: "" };
  for (
    const [text, code] of [
      ["", "not_a_store"],
      ["{}", "not_a_store"],
      ["\xff", "not_a_store"],
      [JSON.stringify({ ...good, format: "other" }), "not_a_store"],
      [JSON.stringify({ ...good, layout_version: 0 }), "corrupt"],
      [JSON.stringify({ ...good, layout_version: 3 }), "unsupported_layout"],
    ] as const
  ) {
    const backend = new MemoryBackend();
    await put(backend, text);
    await fails(code, open(backend));
    await fails(code, raiseLayout(backend, LAYOUT_SHARED));
  }
});

// conformance: 9.layout
Deno.test("the layout is only ever raised, by any process and through lost answers", async () => {
  const inner = new MemoryBackend();
  const { store_id } = await open(inner);
  let calls = 0;
  const backend = new FaultyBackend(inner, ({ method }) => {
    if (method !== "replace") return undefined;
    return [{ kind: "before", code: "ambiguous" }, { kind: "after", code: "ambiguous" }][calls++] as Fault | undefined;
  });
  const raised = await Promise.all([raiseLayout(backend, LAYOUT_SHARED), raiseLayout(backend, LAYOUT_SHARED)]);
  for (const manifest of raised) assertEquals([manifest.layout_version, manifest.store_id], [2, store_id]);
  assertEquals((await raiseLayout(backend, 1)).layout_version, 2);
  const stuck = new FaultyBackend(
    inner,
    ({ method }) => method === "replace" ? { kind: "before", code: "precondition_failed" } : undefined,
  );
  await put(inner, JSON.stringify({ ...raised[0], layout_version: 1 }));
  await fails("conflict", raiseLayout(stuck, LAYOUT_SHARED));
});
