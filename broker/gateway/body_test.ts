import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { MAX_BODY_BYTES, MAX_HELD_BYTES, readJsonBody } from "./body.ts";
import { Refusal } from "./refusal.ts";
import { SharedMemory } from "./shared_memory.ts";

const MAX_SHARE = MAX_HELD_BYTES / 4;
const newShare = () => new SharedMemory(MAX_HELD_BYTES, "requests").share();

Deno.test("a packed body has room for all it can unpack to before it is unpacked, or is refused", async () => {
  const json = new TextEncoder().encode(JSON.stringify("x".repeat(100_000)));
  for (const [encoding, packed] of [["gzip", gzipSync(json)], ["zstd", zstdCompressSync(json)]] as const) {
    const headers = { "content-type": "application/json", "content-encoding": encoding };
    const request = (bytes: Uint8Array = packed) =>
      Object.assign(Readable.from([bytes]), { headers }) as unknown as IncomingMessage;
    const memory = newShare();
    const others = MAX_SHARE - MAX_BODY_BYTES - packed.length;
    memory.reserve(others + 1);
    assertEquals((await assertRejects(() => readJsonBody(request(), memory), Refusal)).answer().status, 503);
    memory.release(1);
    await assertRejects(
      () => readJsonBody(request(packed.map((byte) => byte ^ 0xff)), memory),
      Refusal,
      `not ${encoding}`,
    );
    {
      using body = await readJsonBody(request(), memory);
      assertEquals(body.bytes.length, json.length);
      memory.reserve(MAX_BODY_BYTES + packed.length - json.length);
      assertThrows(() => memory.reserve(1), Refusal);
    }
    memory.reserve(json.length);
    assertThrows(() => memory.reserve(1), Refusal);
  }
});

Deno.test("a body in single bytes is the one that came", async () => {
  const json = new TextEncoder().encode(JSON.stringify({ text: "x".repeat(5_000) }));
  const parts = Array.from(json, (byte) => Uint8Array.of(byte));
  const headers = { "content-type": "application/json" };
  const request = Object.assign(Readable.from(parts), { headers }) as unknown as IncomingMessage;
  using body = await readJsonBody(request, newShare());
  assertEquals(body.bytes, json);
});
