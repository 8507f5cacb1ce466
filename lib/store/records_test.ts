import { assert, assertEquals, assertRejects } from "@std/assert";
import { flippingBackend } from "../../tests/support/flipping_backend.ts";
import { MemoryBackend } from "../../tests/support/memory_backend.ts";
import { fails } from "../../tests/support/stores.ts";
import { systemRandom } from "../clock.ts";
import { hasCode } from "../errors.ts";
import type { Backend } from "../backend/backend.ts";
import { encodeBase, readBase } from "./chain.ts";
import { baseKey, MANIFEST_KEY, refKey } from "./keys.ts";
import { openManifest, readManifest } from "./manifest.ts";
import { encodeRef, markOf, readRef, Refs } from "./ref.ts";
import { readTombstones, TOMBSTONES_KEY, writeTombstones } from "./tombstones.ts";

const LINEAGE = "0123456789abcdef0123456789abcdef";
const AT = "2026-01-01T00:00:00.000Z";
const REF = { schema: 1, lineage: LINEAGE, epoch: 1, txid: 7, digest: "0".repeat(16), checkpoints: [], touched_at: AT };

/** Every small record of a store's backend: its key, how it is written, and what reading it gives. */
const RECORDS: Record<string, {
  key: string;
  write: (backend: Backend) => Promise<unknown>;
  read: (backend: Backend) => Promise<unknown>;
}> = {
  manifest: {
    key: MANIFEST_KEY,
    write: (backend) => openManifest(backend, { now: 0, random: systemRandom }),
    read: readManifest,
  },
  ref: {
    key: refKey("db", "main"),
    write: (backend) => backend.put(refKey("db", "main"), encodeRef({ ...REF, schema: 1, nonce: "01234567" })),
    read: async (backend) => (await readRef(backend, "db", "main"))?.ref,
  },
  "base pointer": {
    key: baseKey(LINEAGE),
    write: (backend) => backend.put(baseKey(LINEAGE), encodeBase({ lineage: LINEAGE, txid: 5 })),
    read: (backend) => readBase(backend, LINEAGE),
  },
  tombstones: {
    key: TOMBSTONES_KEY,
    write: (backend) =>
      writeTombstones(
        { backend, random: systemRandom },
        [{ lineage: LINEAGE, names: ["base.json"], at: AT }],
        undefined,
      ),
    read: async (backend) => (await readTombstones(backend))?.tombstones,
  },
};

for (const [name, { key, write, read }] of Object.entries(RECORDS)) {
  Deno.test(`the ${name} with any one byte changed is damaged, and named`, async () => {
    const backend = new MemoryBackend();
    await write(backend);
    const { bytes } = await backend.get(key);
    for (let at = 0; at < bytes.length; at++) {
      for (const byte of [bytes[at]! ^ 1, bytes[at]! ^ 0x80, bytes[at]! ^ 4, 0, 0x20, 0x22, 0x30, 0x7d]) {
        if (byte === bytes[at]) continue;
        await backend.put(key, bytes.with(at, byte));
        const error = await assertRejects(() => read(backend), `${name} at ${at}: ${byte}`);
        assert(hasCode(error, "corrupt"), String(error));
        assert(error.message.includes(name === "ref" ? "the ref of db@main" : key), error.message);
      }
    }
  });

  Deno.test(`the ${name} is read again when a bit flips in the read, sealed or of version 0.1.0`, async () => {
    const inner = new MemoryBackend();
    await write(inner);
    const { bytes } = await inner.get(key);
    const text = new TextDecoder().decode(bytes);
    for (const stored of [text, text.replace(/,"sum":"[0-9a-f]{8}"\}$/, "}")]) {
      await inner.put(key, new TextEncoder().encode(stored));
      const expected = await read(inner);
      for (let bit = 0; bit < stored.length * 8; bit++) {
        const { backend, flipped } = flippingBackend(inner, { key, read: 0, bit });
        assertEquals(await read(backend), expected, `bit ${bit} of ${stored}`);
        assertEquals(flipped(), 1);
      }
    }
  });
}

Deno.test("a change of a ref whose read had a flipped bit writes nothing wrong back", async () => {
  for (let bit = 0; bit < 300 * 8; bit += 7) {
    const inner = new MemoryBackend();
    const { read, write, key } = RECORDS.ref!;
    await write(inner);
    const before = await read(inner) as object;
    const refs = new Refs(flippingBackend(inner, { key, read: 0, bit }).backend, systemRandom);
    const { ref } = await refs.update("db", "main", (ref) => ({ ...ref, protected: true }));
    assertEquals(await read(inner), {
      ...before,
      protected: true,
      of: markOf({ db: "db", branch: "main" }),
      nonce: ref.nonce,
    });
  }
});

Deno.test("a record that reads differently each time is damaged, not guessed", async () => {
  const inner = new MemoryBackend();
  let count = 0;
  inner.get = () => {
    const json = JSON.stringify({ lineage: LINEAGE, txid: count++ });
    return Promise.resolve({ bytes: new TextEncoder().encode(json), etag: "1" });
  };
  const { message } = await fails("corrupt", readBase(inner, LINEAGE));
  assert(message.includes("each read gives something else"), message);
});
