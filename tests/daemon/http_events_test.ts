import { assert, assertEquals, assertMatch } from "@std/assert";
import fc from "../packages/fast_check.ts";
import { eventStream } from "../../daemon/http/sse.ts";
import { PING_MS } from "../../lib/http/server_sent_events.ts";
import { Publisher, SUBSCRIBER_BUFFER_EVENTS } from "../../daemon/publisher.ts";
import type { Client } from "../../lib/client/client.ts";
import { VirtualClock } from "../support/clock.ts";
import { Place } from "./daemon_process.ts";
import { HttpDaemon, type SseLog } from "./_http.ts";
import { RawClient } from "./raw_client.ts";
import { longTest } from "../support/long.ts";
import { openSockets, residentBytes } from "../support/process_figures.ts";

/** Makes `app` with these branches and opens a session of each. */
async function openSessions(client: Client, branches: string[]): Promise<void> {
  await client.call("create", { db: "app" });
  for (const branch of branches) {
    await client.call("fork", { db: "app", new_branch: branch });
    await client.call("open", { db: "app", branch });
  }
}

/** Flushes `branch` so often, without waiting for each answer. */
async function flushMany(client: Client, branch: string, times: number): Promise<void> {
  const flushes = Array.from({ length: times }, () => client.call("flush", { db: "app", branch }));
  await Promise.all(flushes);
}

/** Resolves once a subscriber has so many events. */
async function seenBy(log: { readonly seen: readonly unknown[] }, events: number): Promise<void> {
  while (log.seen.length < events) await pause();
}

const SESSIONS = 20;

// conformance: 6.same_events 4.http.events 4.socket.subscribe 6.never_blocks 1.transports
Deno.test("under load all subscribers see the same events in order, slow ones up to their drop", async () => {
  const branches = Array.from({ length: SESSIONS }, (_, index) => `b${index}`);
  // Each round is within a subscriber's buffer: who reads at all is not dropped, however busy this machine is.
  const round = fc.array(fc.constantFrom(...branches), { minLength: 60, maxLength: 60 });
  const rounds = fc.sample(round, { numRuns: 20, seed: 20260117 });
  await using place = new Place();
  await using http = await HttpDaemon.start(place, { flush_every_ms: 0 });
  using client = await http.daemon.connect();
  await openSessions(client, branches);
  const logs = [
    ...await Promise.all([1, 2].map(() => http.daemon.events())),
    ...await Promise.all([1, 2, 3, 4].map(() => http.events())),
  ];
  // Two that do not read: whatever the kernel does not take for them drops them.
  using deaf_socket = await RawClient.connect(place.socket);
  assertEquals(await deaf_socket.ask('{"op":"subscribe"}'), { ok: true });
  using deaf_http = await http.connect();
  await deaf_http.request("GET /events");
  const clients = await Promise.all(branches.map(() => http.daemon.connect()));
  let late: SseLog | undefined;
  for (const [index, targets] of rounds.entries()) {
    if (index === 10) late = await http.events();
    await Promise.all(targets.map((branch, at) => flushMany(clients[at % clients.length]!, branch, 1)));
    await Promise.all(logs.map((log) => seenBy(log, 60 * (index + 1))));
    if (late) await seenBy(late, 60 * (index - 9));
  }
  for (const one of clients) one.close();
  // It was dropped long ago; what it was sent until then is there for it to read.
  const heard = [];
  for (let event = await deaf_socket.next(); event !== undefined; event = await deaf_socket.next()) heard.push(event);
  for (const branch of branches) await client.call("close", { db: "app", branch });
  await client.call("shutdown", {});
  await Promise.all([...logs, late!].map((log) => log.ended));

  const all = logs[0]!.seen;
  assertEquals(all.length, 1_200 + SESSIONS);
  for (const { seen } of logs) assertEquals(seen, all);
  assertEquals(late!.seen, all.slice(600));
  assertEquals(heard.pop().type, "dropped_slow_consumer");
  assertEquals(heard, all.slice(0, heard.length));
});

// conformance: 6.same_events 6.envelope.v 6.envelope.ts 6.envelope.type 6.envelope.db 6.envelope.branch 6.envelope.detail 6.type.flushed
Deno.test("an event's bytes are the same on both channels", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place);
  using client = await http.daemon.connect();
  using socket = await RawClient.connect(place.socket);
  const over_http = await http.events();
  await socket.ask('{"op":"subscribe"}');
  await client.call("create", { db: "app" });
  await client.call("open", { db: "app" });
  await client.call("flush", { db: "app" });
  await client.call("close", { db: "app" });
  await over_http.of("session_closed");
  for (const line of over_http.lines) assertEquals(JSON.parse(line), await socket.next());
  const [opened, flushed, closed] = over_http.seen;
  assertEquals([opened?.type, flushed?.type, closed?.type], ["session_opened", "flushed", "session_closed"]);
  assertEquals([flushed?.v, flushed?.db, flushed?.branch], [1, "app", "main"]);
  assertMatch(flushed!.ts, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assertEquals(Object.keys(flushed!), ["v", "ts", "type", "db", "branch", "detail"]);
  const { kind, txid, duration_seconds } = flushed!.detail as Record<string, unknown>;
  assertEquals(kind, "manual");
  assert(Number.isInteger(txid) && typeof duration_seconds === "number" && duration_seconds >= 0);
});

// conformance: 4.http.events 8.subscriber
Deno.test("an event stream is pinged every 15 s and at its start, never in the middle of an event", async () => {
  assertEquals(PING_MS, 15_000);
  const clock = new VirtualClock();
  const publisher = new Publisher({ clock });
  const reader = eventStream(publisher, clock, { prefix: "a" }).pipeThrough(new TextDecoderStream()).getReader();
  const next = async () => (await reader.read()).value;
  assertEquals(await next(), ": ping\n\n");
  for (let i = 0; i < 4; i++) {
    while (clock.sleepers === 0) await Promise.resolve();
    const waiting = next();
    let pinged = false;
    waiting.then(() => pinged = true);
    clock.advance(PING_MS - 1);
    await new Promise((resolve) => setTimeout(resolve, 0));
    assertEquals(pinged, false);
    clock.advance(1);
    assertEquals(await waiting, ": ping\n\n");
  }
  publisher.publish("session_closed", { db: "a", branch: "main" }, {});
  assertMatch((await next())!, /^id: a-1\ndata: \{.*\}\n\n$/);
  await reader.cancel();
  assertEquals(publisher.subscribers, 0);
});

longTest("a thousand streams of events see everything, and cost the daemon little", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place);
  const before = residentBytes(http.daemon.pid);
  const streams: SseLog[] = [];
  for (let i = 0; i < 20; i++) {
    streams.push(...await Promise.all(Array.from({ length: 50 }, () => http.events())));
  }
  using client = await http.daemon.connect();
  await client.call("create", { db: "app" });
  for (let i = 0; i < 5; i++) {
    await client.call("open", { db: "app" });
    await client.call("close", { db: "app" });
  }
  await Promise.all(streams.map((stream) => stream.count(10)));
  for (const { seen } of streams) assertEquals(seen, streams[0]!.seen);
  assert(residentBytes(http.daemon.pid) - before < 400e6, `${residentBytes(http.daemon.pid) - before} bytes`);
  assertEquals(await http.daemon.stop(), 0);
  await Promise.all(streams.map((stream) => stream.ended));
});

// conformance: 6.write_deadline 6.buffer
longTest("streams without a reader are dropped or cut off, closed for real, and hold up no other", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place, {
    flush_every_ms: 0,
    http: { timeouts: { stalled_write_ms: 500 } },
  });
  using client = await http.daemon.connect();
  await openSessions(client, ["b"]);
  const reading = await http.events();
  const before = openSockets(http.daemon.pid);
  const bytes = residentBytes(http.daemon.pid);
  const deaf = await Promise.all(Array.from({ length: 8 }, () => http.connect()));
  for (const raw of deaf) await raw.request("GET /events");
  while (openSockets(http.daemon.pid) < before + deaf.length) await pause();
  let flushes = 0;
  // Until the kernel's buffers and their own are full and their deadline has passed.
  for (; openSockets(http.daemon.pid) > before; flushes += 500) await flushMany(client, "b", 500);
  assertEquals(http.daemon.log.filter((line) => line.includes("defect")), []);
  await reading.count(flushes);
  assert(residentBytes(http.daemon.pid) - bytes < 200e6, `${residentBytes(http.daemon.pid) - bytes} more bytes`);
  assertEquals(reading.seen.filter(({ type }) => type === "dropped_slow_consumer"), []);
  for (const raw of deaf) raw[Symbol.dispose]();
  await reading.cancel();
});

// conformance: 6.type.dropped_slow_consumer 6.buffer
Deno.test("a stream that falls behind gets a gapless beginning, one drop event, and its end", async () => {
  const clock = new VirtualClock();
  const publisher = new Publisher({ clock });
  const stream = eventStream(publisher, clock, { prefix: "a" });
  for (let epoch = 0; publisher.subscribers > 0; epoch++) {
    publisher.publish("session_opened", { db: "app", branch: "main" }, { holder: "h", epoch });
    // What the stream itself takes is taken before the buffer counts.
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
  const text = await new Response(stream).text();
  const events = [...text.matchAll(/^data: (.*)$/gm)].map((match) => JSON.parse(match[1]!));
  const drop = events.pop();
  assertEquals([drop.type, drop.db, drop.branch, drop.detail], ["dropped_slow_consumer", "", "", {}]);
  // The buffer, and the two chunks that the stream had already: the ping and an event, and one on its way.
  assert(events.length >= SUBSCRIBER_BUFFER_EVENTS && events.length <= SUBSCRIBER_BUFFER_EVENTS + 3);
  assertEquals(events.map(({ detail }) => detail.epoch), events.map((_, index) => index));
});

Deno.test("a shutdown ends every stream after its last event", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place);
  using client = await http.daemon.connect();
  await openSessions(client, ["a", "b"]);
  const streams = await Promise.all(Array.from({ length: 5 }, () => http.events()));
  // One that does not read is not waited for.
  using deaf = await http.connect();
  await deaf.request("GET /events");
  assertEquals(await http.daemon.stop(), 0);
  for (const stream of streams) {
    await stream.ended;
    assertEquals(stream.seen.map(({ type }) => type).slice(-2), ["session_closed", "session_closed"]);
  }
});

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 10));
}
