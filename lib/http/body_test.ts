import { assertEquals } from "@std/assert";
import { readText } from "./body.ts";

Deno.test("readText() returns a body within its bound, whatever its chunks", async () => {
  const bytes = new TextEncoder().encode("é€");
  const chunks = () => ReadableStream.from([...bytes].map((byte) => new Uint8Array([byte])));
  assertEquals(await readText(new Response(chunks()), bytes.length), "é€");
  assertEquals(await readText(new Response(null), 0), "");
});

Deno.test("readText() cancels a body that is longer than its bound", async () => {
  let cancelled = false;
  const endless = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(new Uint8Array(100)),
    cancel: () => {
      cancelled = true;
    },
  });
  assertEquals([await readText(new Response(endless), 1_000), cancelled], [undefined, true]);
});
