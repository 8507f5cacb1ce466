import { assertEquals } from "@std/assert";
import { VirtualClock } from "../../tests/support/clock.ts";
import { Publisher } from "../publisher.ts";
import { eventStream } from "./sse.ts";

function publish(publisher: Publisher, txids: readonly number[]): void {
  for (const txid of txids) {
    publisher.publish("flushed", { db: "app", branch: "main" }, { kind: "auto", txid, duration_seconds: 0 });
  }
}

const TXIDS = Array.from({ length: 20 }, (_, index) => index + 1);

Deno.test("a late reader receives every event in order and then the end, though the publisher closes", async () => {
  const clock = new VirtualClock();
  const publisher = new Publisher({ clock });
  const stream = eventStream(publisher, clock, { prefix: "a" });
  publish(publisher, TXIDS);
  const closing = publisher.close(1000);
  clock.advance(999);
  const text = await new Response(stream).text();
  await closing;
  const frames = text.split("\n\n").filter((frame) => frame !== "" && frame !== ": ping");
  assertEquals(frames.map((frame) => frame.split("\n")[0]), TXIDS.map((txid) => `id: a-${txid}`));
  assertEquals(frames.map((frame) => JSON.parse(frame.split("data: ")[1]!).detail.txid), TXIDS);
  assertEquals(clock.sleepers, 0);
});

Deno.test("close() waits its deadline for a stream without a reader, which ends with what it took", async () => {
  const clock = new VirtualClock();
  const publisher = new Publisher({ clock });
  const stream = eventStream(publisher, clock, { prefix: "a" });
  publish(publisher, TXIDS);
  const closing = publisher.close(1000);
  clock.advance(1000);
  await closing;
  const text = await new Response(stream).text();
  const events = text.split("\n\n").filter((frame) => frame.startsWith("id: "));
  assertEquals(events.map((frame) => JSON.parse(frame.split("data: ")[1]!).detail.txid), TXIDS.slice(0, events.length));
  assertEquals([events.length < TXIDS.length, publisher.subscribers, clock.sleepers], [true, 0, 0]);
});
