import { assert, assertEquals } from "@std/assert";
import type { DaemonEvent } from "../../lib/protocol/messages.ts";
import { VirtualDaemon } from "./_virtual.ts";
import { Place } from "./daemon_process.ts";
import { RawClient } from "./raw_client.ts";
import { longTest } from "../support/long.ts";

/** Opens and closes a session until so many events have been published, and every reader has them. */
async function publish({ client, events }: VirtualDaemon, count: number): Promise<void> {
  const expected = events.seen.length + count;
  for (let published = 0; published < count; published += 2) {
    await client.call("open", { db: "app" });
    await client.call("close", { db: "app" });
  }
  await events.of("session_closed", expected / 2);
}

/** A subscriber that does not read what it is sent. */
async function subscriber(place: Place): Promise<RawClient> {
  const client = await RawClient.connect(place.socket);
  assertEquals(await client.ask('{"op":"subscribe"}'), { ok: true });
  return client;
}

/** Everything that is left to read, up to the end of the stream. */
async function readAll(client: RawClient): Promise<DaemonEvent[]> {
  const events: DaemonEvent[] = [];
  for (let event = await client.next(); event !== undefined; event = await client.next()) events.push(event);
  return events;
}

/** More events than the kernel and the daemon hold for a connection without a reader. */
const MANY = 480;
/** So many of them the daemon is to hold when it stops: half its buffer. */
const HELD = 32;

longTest(
  "a stopping daemon delivers a subscriber's queued events in order, before the end",
  async () => {
    await using place = new Place();
    await using daemon = await VirtualDaemon.start(place);
    await daemon.client.call("create", { db: "app" });
    let room: number;
    {
      using probe = await subscriber(place);
      await publish(daemon, MANY);
      const seen = await readAll(probe);
      assertEquals(seen.at(-1)?.type, "dropped_slow_consumer");
      room = seen.length;
    }
    using slow = await subscriber(place);
    const from = daemon.events.seen.length;
    await publish(daemon, room - room % 2 - HELD);
    await daemon.client.call("open", { db: "app" });
    await daemon.client.call("shutdown", {});
    // Time stands still: the daemon does not drop a reader.
    await daemon.events.ended;
    const seen = await readAll(slow);
    assertEquals(seen, daemon.events.seen.slice(from));
    assert(seen.length > room - HELD);
    assertEquals(seen.at(-1)?.type, "session_closed");
  },
);
