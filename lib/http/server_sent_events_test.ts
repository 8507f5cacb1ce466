import { assertEquals } from "@std/assert";
import { ServerSentEventParseStream } from "@std/http/server-sent-event-parse-stream";
import { ServerSentEventStream } from "@std/http/server-sent-event-stream";
import fc from "../../tests/packages/fast_check.ts";
import { encodeEvent, EventParser, PING, type ServerSentEvent } from "./server_sent_events.ts";

function parse(bytes: Uint8Array, chunk_bytes = 7, max_chars?: number): { seen: ServerSentEvent[]; dropped: number } {
  const seen: ServerSentEvent[] = [];
  const parser = new EventParser((event) => seen.push(event), max_chars);
  for (let at = 0; at < bytes.length; at += chunk_bytes) parser.push(bytes.subarray(at, at + chunk_bytes));
  parser.end();
  return { seen, dropped: parser.dropped };
}

const bytesOf = (text: string) => new TextEncoder().encode(text);
const line = fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 }).filter((text) => !/[\r\n\0]/.test(text));
const events = fc.array(fc.record({ id: line, event: line, data: line }), { maxLength: 5 });

Deno.test("EventParser reads comments, other fields, several data lines, no space and an empty one", () => {
  const { seen } = parse(bytesOf(": c\n\nid: 1\ndata:a\ndata: b\n\nretry: 5\n\ndata:\n\nevent: x\ndata: c"));
  assertEquals(seen, [{ id: "1", data: "a\nb" }, { data: "" }, { event: "x", data: "c" }]);
});

Deno.test("EventParser takes CR, LF and CR LF as line ends, wherever a chunk ends", () => {
  for (const end of ["\r", "\n", "\r\n"]) {
    for (const chunk_bytes of [1, 2, 3, 100]) {
      const { seen } = parse(bytesOf(["data: é", "", "data: b", "", ""].join(end)), chunk_bytes);
      assertEquals(seen, [{ data: "é" }, { data: "b" }]);
    }
  }
});

Deno.test("EventParser drops an event that is too large and reads the rest", () => {
  const text = `data: a\n\ndata: ${"x".repeat(5000)}\ndata: y\n\ndata: b\n\n`;
  assertEquals(parse(bytesOf(text), 100, 1000), { seen: [{ data: "a" }, { data: "b" }], dropped: 1 });
});

Deno.test("EventParser finds the same events in any text, however it is cut", () => {
  assertEquals(parse(bytesOf("data: 1234567890123\ndata: a\n\ndata: b"), 19, 12), {
    seen: [{ data: "b" }],
    dropped: 1,
  });
  const part = fc.constantFrom(
    "\n",
    "\r",
    "\r\n",
    "data: ",
    "data:a",
    "id: 1",
    "event: x",
    ": c",
    "xxxxxxx",
    "é",
    "\n\n",
  );
  fc.assert(
    fc.property(fc.array(part, { maxLength: 20 }), fc.integer({ min: 1, max: 20 }), (parts, chunk_bytes) => {
      const bytes = bytesOf(parts.join(""));
      assertEquals(parse(bytes, chunk_bytes, 12), parse(bytes, 1_000, 12));
    }),
    { numRuns: 1_000 },
  );
});

Deno.test("EventParser reads what the standard library writes", async () => {
  await fc.assert(fc.asyncProperty(events, fc.integer({ min: 1, max: 50 }), async (sent, chunk_bytes) => {
    const stream = ReadableStream.from(sent).pipeThrough(new ServerSentEventStream());
    const { seen } = parse(new Uint8Array(await new Response(stream).arrayBuffer()), chunk_bytes);
    // One space after a colon belongs to the form, and the standard library writes none.
    const unspaced = (text: string) => text.replace(/^ /, "");
    assertEquals(
      seen,
      sent.map((each) => ({ id: unspaced(each.id), event: unspaced(each.event), data: unspaced(each.data) })),
    );
  }));
});

Deno.test("encodeEvent() writes what the standard library reads, pings in between", async () => {
  await fc.assert(fc.asyncProperty(events, async (sent) => {
    const frames = sent.flatMap(({ data, ...head }) => [PING, encodeEvent(head, data)]);
    const stream = ReadableStream.from(frames).pipeThrough(new ServerSentEventParseStream({ ignoreComments: true }));
    assertEquals(await Array.fromAsync(stream), sent);
  }));
});

Deno.test("encodeEvent() takes data as bytes, and leaves out what an event has not", () => {
  const text = new TextDecoder().decode(encodeEvent({ id: 4 }, bytesOf("é")));
  assertEquals(text, "id: 4\ndata: é\n\n");
});
