import { assert, assertEquals } from "@std/assert";
import type { AnyDaemonEvent } from "../../lib/protocol/messages.ts";
import { DaemonProcess, Place } from "./daemon_process.ts";
import { RawClient } from "./raw_client.ts";
import { longTest } from "../support/long.ts";

/** Opens and closes a session until so many events have been published; returns them as a subscriber that reads saw them. */
async function publish(daemon: DaemonProcess, count: number): Promise<AnyDaemonEvent[]> {
  using client = await daemon.connect();
  const events = await daemon.events();
  for (let published = 0; published < count; published += 2) {
    await client.call("open", { db: "app" });
    await client.call("close", { db: "app" });
  }
  await events.of("session_closed", count / 2);
  return events.seen;
}

/** Everything that is left to read, up to the end of the stream. */
async function readAll(client: RawClient): Promise<AnyDaemonEvent[]> {
  const events: AnyDaemonEvent[] = [];
  for (let event = await client.next(); event !== undefined; event = await client.next()) events.push(event);
  return events;
}

/** Events that more than fill the kernel's buffer of a connection (278 of them by default on Linux) and the subscriber's own. */
const MANY = 480;

// conformance: 6.never_blocks 6.buffer
longTest(
  "a subscriber that falls behind gets a gapless start and one drop event, and blocks no one",
  async () => {
    await using place = new Place();
    await using daemon = await DaemonProcess.start(place);
    {
      using client = await daemon.connect();
      await client.call("create", { db: "app" });
    }
    using slow = await RawClient.connect(place.socket);
    assertEquals(await slow.ask('{"op":"subscribe"}'), { ok: true });
    const all = await publish(daemon, MANY);
    const seen = await readAll(slow);
    const drop = seen.pop()!;
    assertEquals([drop.type, drop.db, drop.branch, drop.detail as object], ["dropped_slow_consumer", "", "", {}]);
    assert(seen.length >= 64 && seen.length < all.length);
    assertEquals(seen, all.slice(0, seen.length));
  },
);

// conformance: 6.write_deadline
longTest("a subscriber that does not read at all is closed by the write deadline", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place, { write_deadline_ms: 100 });
  {
    using client = await daemon.connect();
    await client.call("create", { db: "app" });
  }
  using deaf = await RawClient.connect(place.socket);
  assertEquals(await deaf.ask('{"op":"subscribe"}'), { ok: true });
  const all = await publish(daemon, MANY);
  // Writing succeeds while the daemon's end is open, whether or not it is read there.
  while (await deaf.send(" ").then(() => true, () => false)) await new Promise((resolve) => setTimeout(resolve, 1));
  const seen = await readAll(deaf);
  assert(seen.length < all.length);
  assertEquals(seen, all.slice(0, seen.length));
});
