/**
 * The suite that every {@linkcode Backend} passes: each promise of the interface as a
 * test. The engine assumes nothing of a store that is not tested here.
 */

import { assert, assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { type Backend, BackendError, type BackendErrorCode, type ObjectInfo } from "../../lib/backend/backend.ts";
import { longTest } from "./long.ts";

/** A backend on an empty place of its own; disposing of it removes the place. */
export interface ConformanceFixture extends AsyncDisposable {
  /** The backend under test. */
  backend: Backend;
}

type Promises = Record<string, (backend: Backend) => Promise<void>>;

const MIB = 1024 * 1024;
/** Larger than the 8 MiB part from which object stores split uploads. */
const LARGE_BYTES = 9 * MIB + 7;
const RIVALS = 8;

const text = (value: string): Uint8Array => new TextEncoder().encode(value);
const read = async (backend: Backend, key: string): Promise<string> =>
  new TextDecoder().decode((await backend.get(key)).bytes);

/** Bytes that differ at every position and from one `seed` to another. */
function pattern(length: number, seed = 1): Uint8Array {
  const bytes = new Uint8Array(length);
  let state = seed * 2_654_435_761 >>> 0;
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}

async function* inChunks(bytes: Uint8Array, size: number): AsyncIterable<Uint8Array> {
  for (let offset = 0; offset < bytes.length; offset += size) {
    yield await Promise.resolve(bytes.subarray(offset, offset + size));
  }
}

async function collect(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(chunk);
  return new Uint8Array(await new Blob(parts as Uint8Array<ArrayBuffer>[]).arrayBuffer());
}

/** Compares without printing megabytes when it fails. */
function assertBytes(actual: Uint8Array, expected: Uint8Array): void {
  assertEquals(actual.length, expected.length);
  for (let at = 0; at < expected.length; at++) {
    if (actual[at] !== expected[at]) throw new Error(`differs at byte ${at}`);
  }
}

async function assertFails(code: BackendErrorCode, key: string, action: () => Promise<unknown>): Promise<void> {
  const error = await assertRejects(action, BackendError);
  assertEquals([error.code, error.key], [code, key]);
  assert(error.message.includes(key), `the message does not name ${key}: ${error.message}`);
}

async function list(backend: Backend, prefix: string): Promise<ObjectInfo[]> {
  const found: ObjectInfo[] = [];
  for await (const info of backend.list(prefix)) found.push({ key: info.key, size: info.size });
  return found.sort((a, b) => a.key < b.key ? -1 : 1);
}

const keys = async (backend: Backend, prefix: string): Promise<string[]> =>
  (await list(backend, prefix)).map(({ key }) => key);

/** Starts every action at once; returns the result of each. */
async function race<T>(actions: (() => Promise<T>)[]): Promise<{ won: number[]; codes: unknown[] }> {
  const outcomes = await Promise.allSettled(actions.map((action) => action()));
  const won = outcomes.flatMap((outcome, i) => outcome.status === "fulfilled" ? [i] : []);
  const codes = outcomes.flatMap((outcome) => outcome.status === "rejected" ? [outcome.reason.code] : []);
  return { won, codes };
}

const WRITING: Promises = {
  "create() writes a new object and returns the etag that get() shows": async (backend) => {
    const etag = await backend.create("data/a/1", text("one"));
    assertEquals(await backend.get("data/a/1"), { bytes: text("one"), etag });
    assertEquals(await backend.head("data/a/1"), { key: "data/a/1", size: 3 });
  },
  "create() over an existing object fails and changes nothing": async (backend) => {
    const etag = await backend.create("k", text("one"));
    await assertFails("precondition_failed", "k", () => backend.create("k", text("two")));
    assertEquals(await backend.get("k"), { bytes: text("one"), etag });
  },
  "of parallel creates of one key exactly one wins, and its content stays": async (backend) => {
    for (let round = 0; round < 4; round++) {
      const key = `race/${round}`;
      const { won, codes } = await race(
        Array.from({ length: RIVALS }, (_, i) => () => backend.create(key, text(`rival ${i}`))),
      );
      assertEquals(won.length, 1);
      assertEquals(codes, Array(RIVALS - 1).fill("precondition_failed"));
      assertEquals(await read(backend, key), `rival ${won[0]}`);
    }
  },
  "replace() with the current etag writes and returns a new one": async (backend) => {
    const first = await backend.create("refs/db/main.json", text("one"));
    const second = await backend.replace("refs/db/main.json", text("two"), first);
    assertNotEquals(second, first);
    assertEquals(await backend.get("refs/db/main.json"), { bytes: text("two"), etag: second });
  },
  "replace() with another etag fails and changes nothing": async (backend) => {
    const first = await backend.create("k", text("one"));
    const second = await backend.replace("k", text("two"), first);
    await assertFails("precondition_failed", "k", () => backend.replace("k", text("three"), first));
    await assertFails("precondition_failed", "k", () => backend.replace("k", text("three"), "0".repeat(32)));
    assertEquals(await backend.get("k"), { bytes: text("two"), etag: second });
  },
  "replace() that may revert compares, writes and shows like any other": async (backend) => {
    const first = await backend.create("k", text("one"));
    const second = await backend.replace("k", text("two"), first, { may_revert: true });
    assertEquals(await backend.get("k"), { bytes: text("two"), etag: second });
    await assertFails("precondition_failed", "k", () => backend.replace("k", text("x"), first, { may_revert: true }));
    await backend.replace("k", text("three"), second);
    await assertFails("precondition_failed", "k", () => backend.replace("k", text("x"), second, { may_revert: true }));
    assertEquals(await read(backend, "k"), "three");
  },
  "replace() of a missing object fails and makes none": async (backend) => {
    const etag = await backend.create("k", text("one"));
    await backend.delete("k");
    await assertFails("precondition_failed", "k", () => backend.replace("k", text("two"), etag));
    await assertFails("precondition_failed", "none/k", () => backend.replace("none/k", text("two"), etag));
    assertEquals(await keys(backend, ""), []);
  },
  "of parallel replaces with one etag exactly one wins, and its content stays": async (backend) => {
    let etag = await backend.create("k", text("start"));
    for (let round = 0; round < 4; round++) {
      const from = etag;
      const { won, codes } = await race(
        Array.from({ length: RIVALS }, (_, i) => () => backend.replace("k", text(`${round} rival ${i}`), from)),
      );
      assertEquals(won.length, 1);
      assertEquals(codes, Array(RIVALS - 1).fill("precondition_failed"));
      assertEquals(await read(backend, "k"), `${round} rival ${won[0]}`);
      etag = (await backend.get("k")).etag;
    }
  },
  "two contents under one key never share an etag, not even of one size": async (backend) => {
    for (const size of [0, 100, 2 * MIB]) {
      const etags = new Set<string>();
      const contents = size === 0 ? [new Uint8Array(), text("x")] : [1, 2, 3, 4].map((seed) => pattern(size, seed));
      for (const content of contents) {
        await backend.put("k", content);
        etags.add((await backend.get("k")).etag);
      }
      assertEquals(etags.size, contents.length);
    }
  },
  "replace() distinguishes large objects as well": async (backend) => {
    const first = await backend.create("k", pattern(2 * MIB, 1));
    assertEquals((await backend.get("k")).etag, first);
    const second = await backend.replace("k", pattern(2 * MIB, 2), first);
    assertEquals((await backend.get("k")).etag, second);
    await assertFails("precondition_failed", "k", () => backend.replace("k", text("x"), first));
    await backend.delete("k", { if_match: second });
  },
  "put() writes over any object": async (backend) => {
    await backend.put("deep/er/k", text("one"));
    await backend.put("deep/er/k", inChunks(text("two, longer"), 3));
    assertEquals(await read(backend, "deep/er/k"), "two, longer");
  },
  "a body that throws passes its own error and leaves what was there": async (backend) => {
    async function* broken(): AsyncIterable<Uint8Array> {
      yield await Promise.resolve(pattern(100_000));
      throw new RangeError("the source broke");
    }
    await backend.put("old", text("old"));
    await assertRejects(() => backend.put("new", broken()), RangeError, "the source broke");
    await assertRejects(() => backend.put("old", broken()), RangeError, "the source broke");
    assertEquals(await keys(backend, ""), ["old"]);
    assertEquals(await read(backend, "old"), "old");
  },
  "what was written is not what the caller changes afterwards": async (backend) => {
    const bytes = text("one");
    await backend.put("k", bytes);
    bytes.fill(0);
    (await backend.get("k")).bytes.fill(0);
    assertEquals(await read(backend, "k"), "one");
  },
};

const READING: Promises = {
  "reading a missing object is not_found": async (backend) => {
    await backend.put("dir/k", text("x"));
    for (const key of ["none", "dir/none", "di", "dir/k/below"]) {
      await assertFails("not_found", key, () => backend.get(key));
      await assertFails("not_found", key, () => backend.getRange(key, 0, 1));
      await assertFails("not_found", key, () => backend.getStream(key));
      await assertFails("not_found", key, () => backend.head(key));
    }
  },
  "an empty object has no bytes but exists": async (backend) => {
    await backend.create("whole", new Uint8Array());
    await backend.put("streamed", inChunks(new Uint8Array(), 1));
    for (const key of ["whole", "streamed"]) {
      assertEquals((await backend.get(key)).bytes, new Uint8Array());
      assertEquals(await backend.getRange(key, 0, 10), new Uint8Array());
      assertEquals((await collect((await backend.getStream(key)).chunks)).length, 0);
      assertEquals(await backend.head(key), { key, size: 0 });
      await assertFails("precondition_failed", key, () => backend.create(key, text("x")));
    }
  },
  "a stream larger than 8 MiB round-trips, in chunks of any size": async (backend) => {
    const bytes = pattern(LARGE_BYTES);
    await backend.put("large", inChunks(bytes, 1_000_003));
    const { size, chunks } = await backend.getStream("large");
    assertEquals(size, LARGE_BYTES);
    assertBytes(await collect(chunks), bytes);
    assertBytes((await backend.get("large")).bytes, bytes);
  },
  "get() refuses an object over max_bytes and takes one of exactly that": async (backend) => {
    await backend.put("k", pattern(1000));
    assertEquals((await backend.get("k", { max_bytes: 1000 })).bytes.length, 1000);
    await assertFails("unavailable", "k", () => backend.get("k", { max_bytes: 999 }));
    await backend.put("large", inChunks(new Uint8Array(16 * MIB + 1), 4 * MIB));
    await assertFails("unavailable", "large", () => backend.get("large"));
  },
  "getRange() returns exactly the bytes there are": async (backend) => {
    const bytes = pattern(2 * MIB);
    await backend.put("k", bytes);
    const ranges: [number, number][] = [[0, 1], [5, 100], [0, 2 * MIB], [2 * MIB - 1, 1], [MIB, 700_000]];
    for (const [offset, length] of ranges) {
      assertBytes(await backend.getRange("k", offset, length), bytes.subarray(offset, offset + length));
    }
  },
  "getRange() at and past the end returns what is left, then nothing": async (backend) => {
    const bytes = pattern(1000);
    await backend.put("k", bytes);
    assertEquals(await backend.getRange("k", 990, 100), bytes.subarray(990));
    assertEquals(await backend.getRange("k", 0, 2 ** 40), bytes);
    assertEquals((await backend.getRange("k", 1000, 1)).length, 0);
    assertEquals((await backend.getRange("k", 2 ** 40, 10)).length, 0);
    assertEquals((await backend.getRange("k", 10, 0)).length, 0);
  },
  "a stream that is left early or never started releases its source": async (backend) => {
    await backend.put("k", pattern(LARGE_BYTES));
    for await (const chunk of (await backend.getStream("k")).chunks) {
      assert(chunk.length > 0);
      break;
    }
    await (await backend.getStream("k")).chunks[Symbol.asyncIterator]().return?.();
    await backend.put("k", text("after"));
    assertEquals(await read(backend, "k"), "after");
  },
  "a reader sees a whole object, old or new, while it is replaced": async (backend) => {
    const versions = [pattern(3 * MIB, 1), pattern(3 * MIB + 5, 2)];
    await backend.put("k", versions[0]!);
    let writing = true;
    const writer = (async () => {
      for (let i = 1; i <= 6; i++) await backend.put("k", inChunks(versions[i % 2]!, 500_000));
    })().finally(() => writing = false);
    do {
      const { bytes } = await backend.get("k");
      assertBytes(bytes, versions.find(({ length }) => length === bytes.length) ?? new Uint8Array());
    } while (writing);
    await writer;
  },
  "an object being created is not there until it is whole": async (backend) => {
    const bytes = pattern(3 * MIB);
    async function* observed(): AsyncIterable<Uint8Array> {
      for await (const chunk of inChunks(bytes, MIB)) {
        yield chunk;
        await assertFails("not_found", "dir/k", () => backend.head("dir/k"));
        assertEquals(await keys(backend, ""), []);
      }
    }
    await backend.put("dir/k", observed());
    assertBytes((await backend.get("dir/k")).bytes, bytes);
  },
  "an object overwritten while it streams yields its old bytes or an error, never a mixture": async (backend) => {
    const old = pattern(LARGE_BYTES, 1);
    await backend.put("k", old);
    const { chunks } = await backend.getStream("k");
    const parts: Uint8Array[] = [];
    try {
      for await (const chunk of chunks) {
        if (parts.length === 0) await backend.put("k", pattern(LARGE_BYTES, 2));
        parts.push(chunk);
      }
    } catch (error) {
      assert(error instanceof BackendError);
      return;
    }
    assertBytes(await collect(inChunks(await new Blob(parts as Uint8Array<ArrayBuffer>[]).bytes(), MIB)), old);
  },
};

const NAMING: Promises = {
  "delete() removes; a missing object is not_found": async (backend) => {
    await backend.put("a/b/c", text("x"));
    await backend.put("a/d", text("y"));
    await backend.delete("a/b/c");
    await assertFails("not_found", "a/b/c", () => backend.delete("a/b/c"));
    await assertFails("not_found", "none/at/all", () => backend.delete("none/at/all", { if_match: "x" }));
    assertEquals(await keys(backend, ""), ["a/d"]);
    await backend.create("a/b/c", text("again"));
    assertEquals(await read(backend, "a/b/c"), "again");
  },
  "delete() with if_match removes only that version": async (backend) => {
    const first = await backend.create("k", text("one"));
    const second = await backend.replace("k", text("two"), first);
    await assertFails("precondition_failed", "k", () => backend.delete("k", { if_match: first }));
    assertEquals(await read(backend, "k"), "two");
    await backend.delete("k", { if_match: second });
    await assertFails("not_found", "k", () => backend.get("k"));
  },
  "of a parallel replace and conditional delete exactly one wins": async (backend) => {
    for (let round = 0; round < 8; round++) {
      const key = `dir/${round}`;
      const etag = await backend.create(key, text("one"));
      const actions = [() => backend.replace(key, text("two"), etag), () => backend.delete(key, { if_match: etag })];
      const { won } = await race<unknown>(round % 2 === 0 ? actions : actions.reverse());
      assertEquals(won.length, 1);
    }
  },
  "creates win against deletes that empty their directory": async (backend) => {
    for (let round = 0; round < 8; round++) {
      await backend.create("deep/dir/first", text("x"));
      await Promise.all([
        backend.delete("deep/dir/first"),
        ...Array.from({ length: 4 }, (_, i) => backend.create(`deep/dir/${i}`, text(`${i}`))),
      ]);
      for (let i = 0; i < 4; i++) assertEquals(await read(backend, `deep/dir/${i}`), `${i}`);
      await Promise.all(Array.from({ length: 4 }, (_, i) => backend.delete(`deep/dir/${i}`)));
    }
    assertEquals(await keys(backend, ""), []);
  },
  "copy() makes an independent object, over any other": async (backend) => {
    const bytes = pattern(2 * MIB);
    await backend.put("from", bytes);
    await backend.put("dir/to", text("old"));
    await backend.copy("from", "dir/to");
    await backend.copy("from", "new/dir/to");
    await backend.put("from", text("changed"));
    assertBytes((await backend.get("dir/to")).bytes, bytes);
    await backend.delete("dir/to");
    assertBytes((await backend.get("new/dir/to")).bytes, bytes);
  },
  "copy() of a missing object is not_found and changes nothing": async (backend) => {
    await backend.put("to", text("old"));
    await assertFails("not_found", "none", () => backend.copy("none", "to"));
    assertEquals(await read(backend, "to"), "old");
  },
  "list() yields exactly the keys that begin with the prefix, with their sizes": async (backend) => {
    const all = ["a/b", "a/bc", "a/b.c/d", "a/c/d/e", "a/c/d/f", "ab/x", "b"];
    for (const [i, key] of all.entries()) await backend.put(key, new Uint8Array(i));
    assertEquals(await list(backend, "a/c/"), [{ key: "a/c/d/e", size: 3 }, { key: "a/c/d/f", size: 4 }]);
    for (const prefix of ["", "a", "a/", "a/b", "a/b.", "a/bc", "a/c", "a/c/d", "a/c/d/", "ab/", "b", "c/"]) {
      assertEquals(await keys(backend, prefix), all.filter((key) => key.startsWith(prefix)).sort());
    }
    assertEquals(await keys(backend, "none/at/all"), []);
  },
  "list() shows a write and a delete as soon as they have returned": async (backend) => {
    for (let i = 0; i < 5; i++) {
      await backend.create(`dir/${i}`, text("x"));
      assertEquals((await keys(backend, "dir/")).length, i + 1);
    }
    await backend.delete("dir/2");
    assertEquals(await keys(backend, "dir/"), ["dir/0", "dir/1", "dir/3", "dir/4"]);
  },
  "list() of thousands of objects misses none": async (backend) => {
    const count = 1100; // More than the 1,000 of one page of an object store.
    const names = Array.from({ length: count }, (_, i) => `many/${i % 7}/${String(i).padStart(5, "0")}`);
    for (let i = 0; i < count; i += 16) {
      await Promise.all(names.slice(i, i + 16).map((key) => backend.put(key, text("x"))));
    }
    assertEquals(await keys(backend, "many/"), names.sort());
  },
  "keys of every allowed character work": async (backend) => {
    const names = [
      "abcdefghijklmnopqrstuvwxyz",
      "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
      "0123456789",
      "_.~@-/-/~/@/_/..a/a../.hidden/...",
      `${"x".repeat(255)}/y`,
      Array(8).fill("z".repeat(120)).join("/"),
    ];
    for (const key of names) await backend.create(key, text(key));
    for (const key of names) assertEquals(await read(backend, key), key);
    assertEquals(await keys(backend, ""), [...names].sort());
    for (const key of names) await backend.delete(key);
  },
  "keys that could leave the store or mean two things are denied": async (backend) => {
    const bad = ["", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/.", "a\0b", "a b", "a\nb", "a\\b", "ä"];
    for (const key of [...bad, "%2e%2e/a", ".taskd/x", ".TASKD/x", "x".repeat(256), "y/".repeat(600) + "y"]) {
      for (const action of [() => backend.get(key), () => backend.create(key, text("x")), () => backend.delete(key)]) {
        assertEquals((await assertRejects(action, BackendError)).code, "denied");
      }
      assertEquals((await assertRejects(() => backend.copy("a", key), BackendError)).code, "denied");
    }
    assertEquals((await assertRejects(() => list(backend, "../../lib/"), BackendError)).code, "denied");
    assertEquals(await keys(backend, ""), []);
  },
};

/** Promises that take tens of seconds where every object is a request over the network. */
const LONG_OVER_THE_NETWORK: readonly string[] = [
  "an object overwritten while it streams yields its old bytes or an error, never a mixture",
  "list() of thousands of objects misses none",
];

/** Registers the suite for one backend, under `name`; over a `network` what takes long belongs to the long suite. */
export function backendConformance(
  name: string,
  make: () => Promise<ConformanceFixture>,
  options: { network?: boolean } = {},
): void {
  for (const [promise, check] of Object.entries({ ...WRITING, ...READING, ...NAMING })) {
    const define = options.network && LONG_OVER_THE_NETWORK.includes(promise) ? longTest : Deno.test;
    define(`${name}: ${promise}`, async () => {
      await using fixture = await make();
      await check(fixture.backend);
    });
  }
}
