import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { SeededRandom } from "../../tests/support/writers/random.ts";
import type { Backend } from "../backend/backend.ts";
import { type Fault, type FaultPlan, FaultyBackend } from "../../tests/support/faulty_backend.ts";
import { MemoryBackend } from "../../tests/support/memory_backend.ts";
import { hasCode, TaskdError } from "../errors.ts";
import { refKey } from "./keys.ts";
import { decodeRef, encodeRef, type Ref, REF_SCHEMA, type RefCheckpoint, Refs } from "./ref.ts";

const LINEAGE = "0123456789abcdef0123456789abcdef";
const NOW = "2026-01-01T00:00:00.000Z";

function newRef(change: Partial<Ref> = {}): Omit<Ref, "schema" | "nonce"> {
  return { lineage: LINEAGE, epoch: 1, txid: 1, digest: "0".repeat(16), checkpoints: [], touched_at: NOW, ...change };
}

function named(name: string): RefCheckpoint {
  return { name, txid: 1, kind: "segment", created_at: NOW, digest: "0".repeat(16) };
}

function refsOn(backend: Backend, seed = 1): Refs {
  return new Refs(backend, new SeededRandom(seed).bytes);
}

/** A full ref, as an old and busy branch has. */
const FULL: Ref = {
  ...newRef({
    checkpoints: [named("one"), { ...named("two"), lineage: LINEAGE, note: "why" }],
    lease: { holder: "cli:0123456789abcdef:01234567", expires_at: NOW },
    ttl_ms: 5,
    protected: true,
    claim: { kind: "reap", since: NOW, nonce: "n" },
    base: { lineage: LINEAGE, txid: 3 },
  }),
  schema: REF_SCHEMA,
  nonce: "abcdef",
};

// conformance: 2.ref_fields
Deno.test("a ref is read back as it was written", () => {
  assertEquals(decodeRef(encodeRef(FULL), "db@b"), FULL);
  const small: Ref = { schema: REF_SCHEMA, ...newRef(), nonce: "0123456789abcdef" };
  assertEquals(decodeRef(encodeRef(small), "db@b"), small);
  // A fork's ref and its base pointer together stay below 400 bytes.
  const fork = encodeRef({ ...small, epoch: 1, base: { lineage: LINEAGE, txid: 2 ** 40 } });
  assert(fork.length < 340, `a fork's ref has ${fork.length} bytes`);
});

Deno.test("decodeRef() of mutated bytes gives a ref or an error with a code, and nothing else", () => {
  const good = encodeRef(FULL);
  const mutation = fc.record({
    at: fc.nat(good.length - 1),
    remove: fc.nat(5),
    insert: fc.oneof(
      fc.uint8Array({ maxLength: 5 }),
      fc.constantFrom("{}", "[]", "null", "1e999", "-1", '"', "\\u0000", '"__proto__":1,').map((text) =>
        new TextEncoder().encode(text)
      ),
    ),
  });
  fc.assert(
    fc.property(fc.array(mutation, { minLength: 1, maxLength: 3 }), (mutations) => {
      let bytes: Uint8Array = good;
      for (const { at, remove, insert } of mutations) {
        bytes = new Uint8Array([...bytes.subarray(0, at), ...insert, ...bytes.subarray(at + remove)]);
      }
      try {
        const ref = decodeRef(bytes, "db@b");
        assertEquals(decodeRef(encodeRef(ref), "db@b"), ref);
      } catch (error) {
        assert(hasCode(error, "corrupt", "unsupported_format"), String(error));
        assert(error.message.includes("db@b"));
      }
    }),
    { seed: 20260103, numRuns: 2000 },
  );
});

Deno.test("a ref of a later schema is unsupported, and one of none is corrupt", () => {
  const bytes = (change: object) => new TextEncoder().encode(JSON.stringify({ ...FULL, ...change }));
  const code = (change: object) => {
    try {
      decodeRef(bytes(change), "db@b");
    } catch (error) {
      return (error as TaskdError).code;
    }
  };
  assertEquals(code({ schema: REF_SCHEMA + 1, checkpoints: "of another shape" }), "unsupported_format");
  assertEquals(code({ schema: 0 }), "corrupt");
  assertEquals(code({ schema: "1" }), "corrupt");
  assertEquals(code({ schema: undefined }), "corrupt");
});

Deno.test("names that JavaScript objects know are names like others", async () => {
  const refs = refsOn(new MemoryBackend());
  const names = ["constructor", "__proto__", "tostring", "hasownproperty", "valueof"];
  for (const name of names) await refs.create(name, name, newRef());
  for (const name of names) {
    await refs.update(name, name, (ref) => ({ ...ref, checkpoints: names.map(named) }));
    const { ref } = await refs.read(name, name);
    assertEquals(ref.checkpoints.map((checkpoint) => checkpoint.name), names);
  }
  assertEquals((await refs.list()).map(({ db }) => db), [...names].sort());
  assertEquals((await refs.list("__proto__")).length, 1);
});

/** Faults of conditional writes and reads as servers have them, from a seed. */
function unreliable(random: SeededRandom, share: number, ambiguity: boolean): FaultPlan {
  return ({ method }) => {
    if (!random.chance(share)) return undefined;
    if (method === "get") return { kind: "before", code: "unavailable" };
    const choices: Fault[] = [
      { kind: "before", code: "precondition_failed" },
      { kind: "before", code: "unavailable" },
      { kind: "before", code: "ambiguous" },
    ];
    // 412 to a server's own retry looks like a lost race, and is none.
    if (ambiguity) choices.push({ kind: "after", code: "ambiguous" }, { kind: "after", code: "precondition_failed" });
    return random.pick(choices);
  };
}

/** `count` updaters, each adding its own tokens, one after the other. Returns the acknowledged ones. */
async function race(
  seed: number,
  updaters: number,
): Promise<{ acknowledged: string[]; tried: string[]; found: string[] }> {
  const random = new SeededRandom(seed);
  const memory = new MemoryBackend();
  await refsOn(memory).create("db", "b", newRef());
  const [acknowledged, tried]: [string[], string[]] = [[], []];
  const updater = async (n: number) => {
    const refs = refsOn(new FaultyBackend(memory, unreliable(random.fork(), 0.4, true)), seed * 100 + n);
    for (let i = 0; i < 6; i++) {
      const token = `u${n}-${i}`;
      tried.push(token);
      try {
        // As every change has to: it knows its own doing when it meets it again.
        await refs.update(
          "db",
          "b",
          (ref) =>
            ref.checkpoints.some(({ name }) => name === token)
              ? undefined
              : { ...ref, checkpoints: [...ref.checkpoints, named(token)] },
        );
        acknowledged.push(token);
      } catch (error) {
        assert(hasCode(error, "unavailable", "ambiguous", "conflict"), String(error));
      }
    }
  };
  await Promise.all(Array.from({ length: updaters }, (_, n) => updater(n)));
  const { ref } = await refsOn(memory).read("db", "b");
  return { acknowledged, tried, found: ref.checkpoints.map(({ name }) => name) };
}

Deno.test("concurrent updates with lost and false answers are each applied once", async () => {
  let refused = 0;
  for (let seed = 1; seed <= 40; seed++) {
    const { acknowledged, tried, found } = await race(seed, 5);
    assertEquals(new Set(found).size, found.length, `seed ${seed}: something was applied twice`);
    for (const token of acknowledged) assert(found.includes(token), `seed ${seed}: ${token} was lost`);
    for (const token of found) assert(tried.includes(token));
    refused += tried.length - acknowledged.length;
  }
  assert(refused > 0, "no update ever failed");
});

Deno.test("a counter misses and repeats no step when a lost answer means no write", async () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = new SeededRandom(seed);
    const memory = new MemoryBackend();
    await refsOn(memory).create("db", "b", newRef({ epoch: 0 }));
    let acknowledged = 0;
    const updater = async (n: number) => {
      const refs = refsOn(new FaultyBackend(memory, unreliable(random.fork(), 0.3, false)), seed * 100 + n);
      for (let i = 0; i < 6; i++) {
        try {
          await refs.update("db", "b", (ref) => ({ ...ref, epoch: ref.epoch + 1 }));
          acknowledged++;
        } catch (error) {
          assert(hasCode(error, "unavailable", "conflict"), String(error));
        }
      }
    };
    await Promise.all([0, 1, 2, 3].map(updater));
    assertEquals((await refsOn(memory).read("db", "b")).ref.epoch, acknowledged, `seed ${seed}`);
  }
});

/** One fault at the first call of a method, then none. */
function once(method: string, fault: Fault): FaultPlan {
  let armed = true;
  return (call) => {
    if (call.method !== method || !armed) return undefined;
    armed = false;
    return fault;
  };
}

Deno.test("an update whose answer was lost is recognised as done", async () => {
  for (const code of ["ambiguous", "precondition_failed"] as const) {
    const memory = new MemoryBackend();
    await refsOn(memory).create("db", "b", newRef());
    const faulty = new FaultyBackend(memory, once("replace", { kind: "after", code }));
    const { ref, etag } = await refsOn(faulty, 2).update("db", "b", (ref) => ({ ...ref, txid: ref.txid + 1 }));
    assertEquals(ref.txid, 2);
    assertEquals(await refsOn(memory).read("db", "b"), { ref, etag });
  }
});

Deno.test("a ref whose creation has no answer is recognised as created, and never taken for another's", async () => {
  const memory = new MemoryBackend();
  const lost = refsOn(new FaultyBackend(memory, once("create", { kind: "after", code: "ambiguous" })));
  const { ref } = await lost.create("db", "b", newRef());
  assertEquals((await refsOn(memory).read("db", "b")).ref, ref);

  const other = newRef({ lineage: "f".repeat(32) });
  const late = refsOn(new FaultyBackend(memory, once("create", { kind: "before", code: "ambiguous" })));
  assertEquals((await assertRejects(() => late.create("db", "b", other), TaskdError)).code, "ambiguous");
  const plain = await assertRejects(() => refsOn(memory).create("db", "b", other), TaskdError);
  assertEquals(plain.code, "already_exists");
});

Deno.test("a change that answers undefined writes nothing", async () => {
  const memory = new MemoryBackend();
  const before = await refsOn(memory).create("db", "b", newRef());
  const refs = refsOn(new FaultyBackend(memory, ({ method }) => method === "get" ? undefined : fail(method)));
  assertEquals(await refs.update("db", "b", () => undefined), before);
});

function fail(what: string): never {
  throw new Error(`${what} was called`);
}

Deno.test("an update fails with conflict when the ref keeps changing", async () => {
  const memory = new MemoryBackend();
  await refsOn(memory).create("db", "b", newRef());
  const refs = refsOn(
    new FaultyBackend(
      memory,
      ({ method }) => method === "replace" ? { kind: "before", code: "precondition_failed" } : undefined,
    ),
    2,
  );
  assertEquals((await assertRejects(() => refs.update("db", "b", (ref) => ref), TaskdError)).code, "conflict");
});

Deno.test("remove() deletes only what was read, and says so", async () => {
  const memory = new MemoryBackend();
  const refs = refsOn(memory);
  const { etag } = await refs.create("db", "b", newRef());
  const changed = await refs.update("db", "b", (ref) => ({ ...ref, epoch: 9 }));
  assertEquals(await refs.remove("db", "b", etag), false);
  assertEquals((await refs.read("db", "b")).ref.epoch, 9);
  for (const kind of ["before", "after"] as const) {
    const faulty = refsOn(new FaultyBackend(memory, once("delete", { kind, code: "ambiguous" })));
    assertEquals(await faulty.remove("db", "b", changed.etag), kind === "after");
  }
  assertEquals(await refs.remove("db", "b", changed.etag), true);
  assertEquals(await refs.find("db", "b"), undefined);
  assertEquals((await assertRejects(() => refs.read("db", "b"), TaskdError)).code, "not_found");
});

Deno.test("a strange object among the refs is no branch", async () => {
  const memory = new MemoryBackend();
  await refsOn(memory).create("db", "b", newRef());
  for (const key of ["refs/db/b", "refs/db/x/y.json", "refs/z.json"]) await memory.put(key, new Uint8Array(1));
  assertEquals(await refsOn(memory).list(), [{ db: "db", branch: "b" }]);
  await memory.put(refKey("db", "bad"), new TextEncoder().encode("{}"));
  assertEquals((await assertRejects(() => refsOn(memory).read("db", "bad"), TaskdError)).code, "corrupt");
});

Deno.test("list() returns branches sorted by name, a prefix before longer names", async () => {
  const refs = refsOn(new MemoryBackend());
  for (const branch of ["main-pre-promote", "main", "b", "main.x"]) await refs.create("db", branch, newRef());
  await refs.create("db-2", "a", newRef());
  const names = (await refs.list()).map(({ db, branch }) => `${db}@${branch}`);
  assertEquals(names, ["db@b", "db@main", "db@main-pre-promote", "db@main.x", "db-2@a"]);
});

Deno.test("a missing branch is reported with the name that was probably meant", async () => {
  const memory = new MemoryBackend();
  const refs = refsOn(memory);
  await refs.create("shop", "main", newRef());
  await refs.create("shop", "try", newRef());
  const hint = async (db: string, branch: string, on = refs) =>
    (await assertRejects(() => on.read(db, branch), TaskdError, `There is no branch ${db}@${branch}`)).hint;
  const listing = "`taskd branches` lists what there is";
  assertEquals(await hint("shop", "tri"), `Did you mean shop@try? ${listing}`);
  assertEquals(await hint("shpo", "main"), `Did you mean the database shop? ${listing}`);
  assertEquals(await hint("shop", "elsewhere"), listing);
  assertEquals(await hint("other", "main"), `\`taskd create other\` makes the database; ${listing}`);
  // A listing that fails hides nothing.
  const faulty = new FaultyBackend(
    memory,
    ({ method }) => method === "list" ? { kind: "before", code: "denied" } : undefined,
  );
  assertEquals(await hint("shop", "tri", refsOn(faulty)), listing);
});

Deno.test("each attempt at a first ref has bytes of its own", async () => {
  const inner = new MemoryBackend();
  const sent: string[] = [];
  const backend = new FaultyBackend(inner, ({ method, count }) => {
    if (method !== "create") return undefined;
    return count < 3 ? { kind: "before", code: "ambiguous" } : undefined;
  });
  const create = backend.create.bind(backend);
  backend.create = (key, body) => {
    sent.push(new TextDecoder().decode(body as Uint8Array));
    return create(key, body);
  };
  await refsOn(backend).create("db", "main", newRef());
  assertEquals([sent.length > 1, new Set(sent).size], [true, sent.length]);
});
