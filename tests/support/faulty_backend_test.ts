import { assertEquals, assertRejects } from "@std/assert";
import type { Clock } from "../../lib/clock.ts";
import { BackendError } from "../../lib/backend/backend.ts";
import { backendConformance } from "./backend_conformance.ts";
import { BACKEND_METHODS, type BackendMethod, type Fault, FaultyBackend, seededFaults } from "./faulty_backend.ts";
import { MemoryBackend } from "./memory_backend.ts";

backendConformance("faulty, without faults", () =>
  Promise.resolve({
    backend: new FaultyBackend(new MemoryBackend(), () => undefined),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }));

const bytes = (length: number) => new Uint8Array(length).fill(7);

/** A small generator, so that a seed is a plan. */
function seeded(seed: number): (count: number) => Uint8Array {
  let state = seed;
  return (count) =>
    Uint8Array.from({ length: count }, () => (state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0) >>> 16);
}

async function staged(method: BackendMethod, fault: Fault): Promise<{ faulty: FaultyBackend; inner: MemoryBackend }> {
  const inner = new MemoryBackend();
  await inner.put("k", bytes(1000));
  return { faulty: new FaultyBackend(inner, (call) => call.method === method ? fault : undefined), inner };
}

async function code(action: () => Promise<unknown>): Promise<string> {
  return (await assertRejects(action, BackendError)).code;
}

Deno.test("a fault before a write leaves no effect", async () => {
  const { faulty, inner } = await staged("create", { kind: "before", code: "ambiguous" });
  assertEquals(await code(() => faulty.create("new", bytes(1))), "ambiguous");
  assertEquals(await code(() => inner.head("new")), "not_found");
});

Deno.test("a fault after a write leaves its effect", async () => {
  const { faulty, inner } = await staged("delete", { kind: "after", code: "ambiguous" });
  assertEquals(await code(() => faulty.delete("k")), "ambiguous");
  assertEquals(await code(() => inner.head("k")), "not_found");
});

Deno.test("a truncated stream ends early, silently or with its error", async () => {
  const silent = await staged("getStream", { kind: "truncate", after_bytes: 300 });
  let seen = 0;
  for await (const chunk of (await silent.faulty.getStream("k")).chunks) seen += chunk.length;
  assertEquals(seen, 300);
  const loud = await staged("getStream", { kind: "truncate", after_bytes: 300, code: "stalled" });
  const { chunks } = await loud.faulty.getStream("k");
  seen = 0;
  const stalled = code(async () => {
    for await (const chunk of chunks) seen += chunk.length;
  });
  assertEquals([await stalled, seen], ["stalled", 300]);
});

Deno.test("a listing that fails has shown its items", async () => {
  const { faulty } = await staged("list", { kind: "after", code: "unavailable" });
  const keys: string[] = [];
  const failed = code(async () => {
    for await (const { key } of faulty.list("")) keys.push(key);
  });
  assertEquals([await failed, keys], ["unavailable", ["k"]]);
});

Deno.test("a delay passes on the injected clock", async () => {
  const slept: number[] = [];
  const clock: Clock = { now: () => 0, monotonic: () => 0, sleep: (ms) => Promise.resolve(void slept.push(ms)) };
  const faulty = new FaultyBackend(new MemoryBackend(), () => ({ kind: "delay", delay_ms: 60_000 }), { clock });
  await faulty.put("k", bytes(1));
  assertEquals(slept, [60_000]);
});

Deno.test("a plan by count places one fault at each call of an operation", async () => {
  const operation = async (faulty: FaultyBackend) => {
    await faulty.put("a", bytes(1));
    await faulty.copy("a", "b");
    await faulty.delete("a");
  };
  const dry = new FaultyBackend(new MemoryBackend(), () => undefined);
  await operation(dry);
  assertEquals(dry.calls.map(({ method, key }) => [method, key]), [["put", "a"], ["copy", "b"], ["delete", "a"]]);
  for (let at = 1; at <= dry.calls.length; at++) {
    const plan = ({ count }: { count: number }): Fault | undefined =>
      count === at ? { kind: "before", code: "unavailable" } : undefined;
    const faulty = new FaultyBackend(new MemoryBackend(), plan);
    assertEquals(await code(() => operation(faulty)), "unavailable");
    assertEquals(faulty.calls.length, at);
  }
});

Deno.test("seeded faults replay from their seed, at about their rate", () => {
  const run = (seed: number) => {
    const plan = seededFaults(seeded(seed), 0.25);
    return Array.from(
      { length: 4000 },
      (_, i) => plan({ method: BACKEND_METHODS[i % BACKEND_METHODS.length]!, key: "k", count: i + 1 }),
    );
  };
  const faults = run(1);
  assertEquals(faults, run(1));
  const share = faults.filter((fault) => fault !== undefined).length / faults.length;
  assertEquals(Math.round(share * 10) / 10 >= 0.2 && share <= 0.3, true, `share of faults: ${share}`);
});
