import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { EXCHANGE_LIMITS } from "../../../broker/gateway/exchange.ts";
import type { GatewayLease, Spend } from "../../../broker/gateway/lease.ts";
import { VirtualClock } from "../../support/clock.ts";
import { BODIES, eventually, harness, RawClient, rawPost } from "./harness.ts";
import { ANTHROPIC, gated, json, OPENAI, sse } from "./vendor_server.ts";
import { nextTurn } from "../../../lib/clock.ts";
import { TICK_MS } from "../../../lib/moving_deadlines.ts";

const PATH = "/v1/messages";
const EVENTS = "text/event-stream";
const text = sse(ANTHROPIC.stream);
const streaming = JSON.stringify({ ...BODIES.messages, stream: true });

Deno.test("a client that leaves while its bearer is renewed has nothing sent out again", async () => {
  const asked = Promise.withResolvers<void>();
  const renewal = Promise.withResolvers<{ secret: string }>();
  const source = {
    current: () => Promise.resolve({ secret: "old-bearer" }),
    renew: () => {
      asked.resolve();
      return renewal.promise;
    },
  };
  await using vendor = await harness((response, request, seen) => {
    const old = seen.headers.authorization === "Bearer old-bearer";
    return json(ANTHROPIC.message, old ? 401 : 200)(response, request, seen);
  });
  await using gate = await harness(json({}), {
    upstreams: {
      vendor_a: { base_url: "http://127.0.0.1:9/never", subscription: { source, base_url: vendor.vendor.url } },
    },
  });
  const lease = gate.lease("vendor_a", { auth: "subscription" });
  {
    using client = await RawClient.connect(gate.url);
    await client.send(rawPost(PATH, lease.token, JSON.stringify(BODIES.messages)));
    await asked.promise;
  }
  const ended = lease.end();
  renewal.resolve({ secret: "new-bearer" });
  await ended;
  assertEquals([vendor.vendor.seen.length, lease.spend().requests, lease.spend().usd], [1, 1, 0]);
  assertEquals(lease.spend().unmetered_requests, 0, "a refusal is not billed");
});

Deno.test("a client that leaves while it sends costs nothing and does not count", async () => {
  await using gate = await harness(json({}));
  const lease = gate.lease("vendor_a");
  const whole = rawPost(PATH, lease.token, streaming);
  for (const part of [whole.slice(0, 20), whole.slice(0, whole.indexOf("\r\n\r\n") + 4), whole.slice(0, -1)]) {
    {
      using client = await RawClient.connect(gate.url);
      await client.send(part);
      if (part.length > 100) await eventually("the request has begun", () => lease.spend().in_flight === 1);
    }
    await eventually("nothing is in flight", () => lease.spend().in_flight === 0);
  }
  assertEquals([lease.spend().requests, gate.vendor.seen.length, gate.settled.length], [0, 0, 0]);
});

/** Leaves at a point of the answer; the vendor goes on and the figures are learnt all the same. */
const LEAVINGS: [string, string][] = [
  ["before the head of the answer", ""],
  ["after the head", text.slice(0, 10)],
  ["inside the first usage", text.slice(0, text.indexOf("input_tokens"))],
  ["inside a character", text.slice(0, text.indexOf("💶") + 1)],
  ["between two usages", text.slice(0, text.lastIndexOf("event: message_delta"))],
  ["before the last line end", text.slice(0, -1)],
];
for (const [point, first] of LEAVINGS) {
  Deno.test(`a client that leaves ${point} is charged for what the vendor generated, once`, async () => {
    const running = gated(EVENTS, first);
    await using gate = await harness((response, request, seen) => {
      if (first !== "") return running.answer(response, request, seen);
      held = () => running.answer(response, request, seen);
    });
    let held = () => {};
    const lease = gate.lease("vendor_a", { max_inflight: 1 });
    {
      using client = await RawClient.connect(gate.url);
      await client.send(rawPost(PATH, lease.token, streaming));
      await gate.vendor.arrived(1);
      if (first !== "") await client.until("\r\n\r\n");
    }
    if (!first.includes("message_stop")) {
      const refused = await gate.post(lease, PATH, BODIES.messages);
      await refused.text();
      assertEquals(refused.status, 429, "it stays in flight until it is settled");
    }
    await held();
    running.write(text.slice(first.length));
    running.end();
    const [settlement] = await gate.settlements(1);
    assertAlmostEquals(lease.spend().usd, ANTHROPIC.message_usd, 1e-12);
    assertEquals([settlement?.unmetered, lease.spend().requests, lease.spend().in_flight], [false, 1, 0]);
    await lease.end();
    assertEquals(gate.settled.length, 1);
  });
}

Deno.test("a client that leaves before the vendor is connected to holds nothing up and costs nothing", async () => {
  // It takes connections and begins no TLS: no request can have reached it.
  using silent = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const base_url = `https://127.0.0.1:${silent.addr.port}`;
  const upstreams = { vendor_a: { base_url, api_key: "k" } };
  // Time stands still: no deadline can end it.
  await using gate = await harness(json({}), { upstreams, clock: new VirtualClock() });
  const leave = [(client: RawClient) => client[Symbol.dispose](), (_: RawClient, lease: GatewayLease) => lease.end()];
  for (const leaving of leave) {
    const lease = gate.lease("vendor_a");
    using client = await RawClient.connect(gate.url);
    await client.send(rawPost(PATH, lease.token, JSON.stringify(BODIES.messages)));
    using connection = await silent.accept();
    const ended = leaving(client, lease);
    await eventually("nothing is in flight", () => lease.spend().in_flight === 0);
    await ended;
    assertEquals([lease.spend().usd, lease.spend().unmetered_requests], [0, 0]);
    // Its greeting, and then its end.
    while (await connection.read(new Uint8Array(4096)).catch(() => null) !== null);
  }
  assertEquals(gate.settled.map(({ ending }) => ending), ["client_gone", "client_gone"]);
});

async function leaveAfter(url: string, lease: GatewayLease, needle: string): Promise<void> {
  using client = await RawClient.connect(url);
  await client.send(rawPost(PATH, lease.token, streaming));
  await client.until(needle);
}

Deno.test("reading for a client that left is bounded in time; what is known is charged and marked", async () => {
  const running = gated(EVENTS, text.slice(0, text.lastIndexOf("event: message_delta")));
  await using gate = await harness(running.answer, { limits: { drain_ms: 1 } });
  const lease = gate.lease("vendor_a");
  await leaveAfter(gate.url, lease, "message_delta");
  const [settlement] = await gate.settlements(1);
  assertEquals([settlement?.ending, settlement?.unmetered], ["cut_off", true]);
  const { usd, unmetered_requests, priced, output_tokens } = lease.spend();
  assertAlmostEquals(usd, ANTHROPIC.message_usd - 250 * 15 / 1e6, 1e-12);
  assertEquals([unmetered_requests, priced, output_tokens], [1, false, 250]);
});

Deno.test("the end of a lease waits 10 s for a vendor that does not answer; the request is marked", async () => {
  for (const leaves_before of [false, true]) {
    const clock = new VirtualClock();
    await using gate = await harness(() => {}, { clock });
    const lease = gate.lease("vendor_a", { max_inflight: 0 });
    let ended: Promise<Spend> | undefined;
    {
      using client = await RawClient.connect(gate.url);
      await client.send(rawPost(PATH, lease.token, streaming));
      await gate.vendor.arrived(1);
      if (!leaves_before) ended = lease.end();
    }
    // A client that left while its task went on has a minute.
    await clock.sleeper(TICK_MS);
    for (let turn = 0; turn < 20; turn++) await nextTurn();
    ended ??= lease.end();
    await eventually("it is settled", () => {
      clock.advance(TICK_MS);
      return gate.settled.length > 0;
    });
    const { duration_ms } = gate.settled[0]!;
    const { drain_ms, last_drain_ms } = EXCHANGE_LIMITS;
    assert(duration_ms >= last_drain_ms && duration_ms < drain_ms, `after ${duration_ms} ms`);
    const spend = await ended;
    assertEquals([spend.unmetered_requests, spend.in_flight], [1, 0]);
    assertEquals(gate.settled.map(({ ending, unmetered }) => [ending, unmetered]), [["cut_off", true]]);
    // The most that it may cost: a token for each byte that was sent, and all the output that was asked for.
    const { max_tokens } = JSON.parse(streaming);
    assertAlmostEquals(spend.usd, (streaming.length * 3 + max_tokens * 15) / 1e6, 1e-3);
  }
});

Deno.test("the end of a lease waits for no renewal of a bearer", async () => {
  const never = Promise.withResolvers<{ secret: string }>();
  const asked = Promise.withResolvers<void>();
  const ask = () => {
    asked.resolve();
    return never.promise;
  };
  const upstream = { base_url: "http://127.0.0.1:9/never", subscription: { source: { current: ask, renew: ask } } };
  await using gate = await harness(json({}), { upstreams: { vendor_a: upstream }, clock: new VirtualClock() });
  const lease = gate.lease("vendor_a", { auth: "subscription" });
  using client = await RawClient.connect(gate.url);
  await client.send(rawPost(PATH, lease.token, streaming));
  await asked.promise;
  const spend = await lease.end();
  assertEquals([spend.requests, spend.unmetered_requests], [0, 0], "nothing went out");
});

Deno.test("what is read for a client that left is bounded in bytes", async () => {
  const running = gated(EVENTS, sse(ANTHROPIC.stream.slice(0, 1)));
  await using gate = await harness(running.answer, { limits: { drain_bytes: 1000 } });
  const lease = gate.lease("vendor_a");
  await leaveAfter(gate.url, lease, "message_start");
  await eventually("the bound is reached", () => {
    running.write(`: ${"x".repeat(96)}\n\n`);
    return gate.settled.length > 0;
  });
  const [settlement] = gate.settled;
  assertEquals([settlement?.ending, settlement?.unmetered], ["cut_off", true]);
});

Deno.test("a vendor that breaks off in mid-answer: the client sees it; what is known is charged", async () => {
  for (const [first, usd] of [["", 0], [sse(ANTHROPIC.stream.slice(0, 1)), 0.01906]] as const) {
    const running = gated(EVENTS, `: hello\n\n${first}`);
    await using gate = await harness(running.answer);
    const lease = gate.lease("vendor_a");
    using client = await RawClient.connect(gate.url);
    await client.send(rawPost(PATH, lease.token, streaming));
    await client.until(first === "" ? "hello" : "message_start");
    running.destroy();
    const answer = await client.until(undefined);
    assert(!answer.endsWith("0\r\n\r\n"), "the answer has no end");
    const [settlement] = await gate.settlements(1);
    assertEquals([settlement?.ending, settlement?.unmetered], ["upstream_failed", true]);
    assertAlmostEquals(lease.spend().usd, usd, 0.001);
  }
});

Deno.test("a vendor that ends a stream early, without its last event, leaves it unmetered", async () => {
  const early = gated(EVENTS, "");
  await using gate = await harness(early.answer);
  const lease = gate.lease("vendor_a");
  const response = await gate.post(lease, PATH, streaming);
  early.write(sse(ANTHROPIC.stream.slice(0, 5)));
  early.end();
  await response.text();
  assertEquals([lease.spend().unmetered_requests, gate.settled[0]?.ending], [1, "complete"]);
});

Deno.test("a vendor that cannot be reached, or hangs up without an answer, is 502 and settled", async () => {
  await using gate = await harness((response) => void response.destroy());
  const lease = gate.lease("vendor_a");
  const response = await gate.post(lease, PATH, BODIES.messages);
  assertEquals([response.status, (await response.json()).code], [502, "upstream_failed"]);
  assertEquals([lease.spend().in_flight, lease.spend().requests, lease.spend().unmetered_requests], [0, 1, 1]);

  using closed = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const url = `http://127.0.0.1:${closed.addr.port}`;
  closed.close();
  await using unreachable = await harness(json({}), { upstreams: { vendor_a: { base_url: url, api_key: "k" } } });
  const unsent = unreachable.lease("vendor_a");
  const refused = await unreachable.post(unsent, PATH, BODIES.messages);
  assertEquals([refused.status, (await refused.json()).code], [502, "upstream_failed"]);
  assertEquals([unsent.spend().in_flight, unsent.spend().unmetered_requests], [0, 0], "nothing can have been billed");
});

Deno.test("a vendor that closes a kept connection, or times out on it, gets the request once", async () => {
  const clock = new VirtualClock();
  await using gate = await harness((response, ...rest) => {
    const number = gate.vendor.seen.length;
    if (number === 2) response.destroy();
    else if (number !== 4) return json({})(response, ...rest);
  }, { clock });
  const lease = gate.lease("vendor_a");
  const codes: unknown[] = [];
  const ask = async () => codes.push((await (await gate.post(lease, PATH, BODIES.messages)).json()).code);
  for (let number = 1; number <= 3; number++) await ask();
  const last = ask();
  await gate.vendor.arrived(4);
  clock.advance(EXCHANGE_LIMITS.answer_ms);
  await last;
  // Whatever was on its way by then has arrived before this one.
  await ask();
  assertEquals(codes, [undefined, "upstream_failed", undefined, "upstream_timeout", undefined]);
  assertEquals([gate.vendor.seen.length, lease.spend().requests], [5, 5]);
});

Deno.test("a vendor that does not answer in time is 504; one that falls silent is cut off", async () => {
  await using gate = await harness(() => {}, { limits: { answer_ms: 1 } });
  const response = await gate.post(gate.lease("vendor_a"), PATH, BODIES.messages);
  assertEquals([response.status, (await response.json()).code], [504, "upstream_timeout"]);

  const silent = gated(EVENTS, sse(ANTHROPIC.stream.slice(0, 1)));
  await using still = await harness(silent.answer, { limits: { idle_ms: 1 } });
  const lease = still.lease("vendor_a");
  using client = await RawClient.connect(still.url);
  await client.send(rawPost(PATH, lease.token, streaming));
  await client.until(undefined);
  const [settlement] = await still.settlements(1);
  assertEquals([settlement?.ending, settlement?.unmetered, lease.spend().in_flight], ["cut_off", true, 0]);
});

Deno.test("a client that does not read holds the vendor back, and is thrown off in time", async () => {
  let written = 0;
  await using gate = await harness(async (response) => {
    response.writeHead(200, { "content-type": EVENTS });
    response.write(sse(ANTHROPIC.stream.slice(0, 1)));
    const closed = new Promise((resolve) => response.once("close", resolve));
    const block = `: ${"x".repeat(65_000)}\n\n`;
    while (written < 40 << 20 && !response.destroyed) {
      written += block.length;
      if (!response.write(block)) {
        await Promise.race([closed, new Promise((resolve) => response.once("drain", resolve))]);
      }
      // A connection that is gone takes any number of writes until that is noticed.
      await nextTurn();
    }
    response.end(sse(ANTHROPIC.stream.slice(1)));
  }, { limits: { drain_ms: 1 }, timeouts: { stalled_write_ms: 1 } });
  const lease = gate.lease("vendor_a");
  using client = await RawClient.connect(gate.url);
  await client.send(rawPost(PATH, lease.token, streaming));
  const [settlement] = await gate.settlements(1);
  assertEquals([settlement?.ending, settlement?.unmetered], ["cut_off", true]);
  assert(written < 40 << 20, "what the client does not read is not fetched");
});

Deno.test("a lease that ends cuts its clients off, waits for the figures, and gives the final ones", async () => {
  const running = gated(EVENTS, text.slice(0, 300));
  await using gate = await harness(running.answer);
  const seen: number[] = [];
  const lease = gate.lease("vendor_a", { max_inflight: 0, onSpend: (spend) => seen.push(spend.requests) });
  using client = await RawClient.connect(gate.url);
  await client.send(rawPost(PATH, lease.token, streaming));
  using sending = await RawClient.connect(gate.url);
  await sending.send(rawPost(PATH, lease.token, streaming).slice(0, -1));
  await client.until("event:");
  const ended = lease.end();
  await client.until(undefined);
  running.write(text.slice(300));
  running.end();
  const spend = await ended;
  assertAlmostEquals(spend.usd, ANTHROPIC.message_usd, 1e-12);
  assertEquals([spend.requests, spend.in_flight, seen.length], [1, 0, 1]);
  const late = await gate.post(lease, PATH, BODIES.messages);
  assertEquals([late.status, (await late.json()).code], [401, "unauthorized"]);
});

Deno.test("no figure of an endpoint can lower the spend or make it absurd; such requests are marked", async () => {
  const usages = [
    { prompt_tokens: -1_000_000, completion_tokens: -5 },
    { prompt_tokens: 10.5, completion_tokens: 2 },
    { prompt_tokens: 1e300, completion_tokens: 1e12 },
    { prompt_tokens: "many", completion_tokens: null },
    { prompt_tokens: [], completion_tokens: {} },
    { prompt_tokens: 10, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 1000 } },
    { prompt_tokens: "10", completion_tokens: "2" },
  ];
  await using gate = await harness((...args) =>
    json({ ...OPENAI.chat, usage: usages[gate.vendor.seen.length - 1] })(...args)
  );
  const lease = gate.lease("vendor_b");
  let before = 0;
  for (let index = 0; index < usages.length; index++) {
    await (await gate.post(lease, "/v1/chat/completions", BODIES.chat)).text();
    const { usd } = lease.spend();
    assert(usd >= before && usd < 0.001, `${JSON.stringify(usages[index])}: ${usd}`);
    before = usd;
  }
  assertEquals(gate.settled.map((settlement) => settlement.unmetered), [true, true, true, true, true, true, false]);
});

Deno.test("an invalid status, and a change of the protocol, are 502 at once", async () => {
  let head = "";
  await using vendor = headServer(() => head);
  // Time stands still: no deadline can end it.
  const upstreams = { vendor_a: { base_url: vendor.url, api_key: "k" } };
  await using gate = await harness(json({}), { upstreams, clock: new VirtualClock() });
  const lease = gate.lease("vendor_a");
  const switching = "101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
  for (head of [switching, "600 Odd\r\ncontent-length: 0\r\n\r\n", "999 Odd\r\ncontent-length: 2\r\n\r\n{}"]) {
    const response = await gate.post(lease, PATH, BODIES.messages);
    assertEquals([head, response.status, (await response.json()).code], [head, 502, "upstream_failed"]);
  }
  assertEquals([lease.spend().in_flight, lease.spend().unmetered_requests, gate.logged], [0, 3, []]);
});

/** Answers each connection's first bytes with a head as it is. */
function headServer(head: () => string): AsyncDisposable & { url: string } {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const connections = new Set<Deno.Conn>();
  const serving = (async () => {
    for await (const connection of listener) {
      connections.add(connection);
      await connection.read(new Uint8Array(65_536));
      await connection.write(new TextEncoder().encode(`HTTP/1.1 ${head()}`));
    }
  })();
  return {
    url: `http://127.0.0.1:${listener.addr.port}`,
    [Symbol.asyncDispose]: async () => {
      listener.close();
      await serving;
      for (const connection of connections) connection.close();
    },
  };
}
