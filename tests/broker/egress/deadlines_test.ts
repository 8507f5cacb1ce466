import { assertEquals } from "@std/assert";
import { VirtualClock } from "../../support/clock.ts";
import { EGRESS_TIMEOUTS } from "../../../broker/egress/proxy.ts";
import { Bench, connectHead, credentials, type RawClient, Server } from "./_harness.ts";

const LIST = { "allowed.example": [80, 443, 5432] };

/** Waits until `condition` holds, giving others their turn. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 1));
}

interface Stage extends AsyncDisposable {
  bench: Bench;
  clock: VirtualClock;
  client: RawClient;
  /** Moves the time on in twentieths of `ms` until `done`; says whether that was after `ms`, and before twice that. */
  passes(ms: number, done: Promise<unknown>): Promise<string>;
}

async function stage(options: Partial<Parameters<typeof Bench.start>[0]> = {}): Promise<Stage> {
  const clock = new VirtualClock();
  const bench = await Bench.start({ list: LIST, clock, ...options });
  const client = await bench.client();
  await until(() => bench.proxy.connections === 1 && clock.sleepers > 0);
  return {
    bench,
    clock,
    client,
    passes: async (ms, done) => {
      let ended = false;
      const noted = done.then(() => ended = true);
      let passed_ms = 0;
      for (; !ended && passed_ms < 2 * ms; passed_ms += ms / 20) {
        await until(() => clock.sleepers > 0);
        clock.advance(ms / 20);
        // What the tick closed shows on the socket a few turns later.
        for (let turn = 0; turn < 10 && !ended; turn++) await new Promise((resolve) => setTimeout(resolve, 0));
      }
      await noted;
      return passed_ms >= ms && passed_ms < 2 * ms ? "in time" : `after ${passed_ms} ms instead of ${ms}`;
    },
    [Symbol.asyncDispose]: () => bench[Symbol.asyncDispose](),
  };
}

Deno.test("a silent connection is closed", async () => {
  await using on = await stage();
  assertEquals(await on.passes(EGRESS_TIMEOUTS.keep_alive_ms, on.client.rest()), "in time");
});

Deno.test("a head that drips is cut off, however often a byte comes", async () => {
  await using on = await stage();
  await on.client.send("CONNECT allowed.exa");
  const dripping = (async () => {
    for (;;) {
      await on.client.send("m");
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  })().catch(() => {});
  assertEquals(await on.passes(EGRESS_TIMEOUTS.head_ms, on.client.rest()), "in time");
  await dripping;
  assertEquals(on.bench.decisions.at(-1)!.reason, "head_timeout");
});

Deno.test("a ClientHello that does not come, or not whole, times out", async () => {
  await using server = Server.echo();
  for (const first of ["", "\x16\x03\x01\x01\x00"]) {
    await using on = await stage({ ports: { 443: server.port } });
    assertEquals(await on.client.tunnel("allowed.example:443", on.bench.admit()), 200);
    await on.client.send(first);
    assertEquals(await on.passes(EGRESS_TIMEOUTS.hello_ms, on.client.rest()), "in time");
    await until(() => on.bench.decisions.length > 0);
    assertEquals(on.bench.decisions.at(-1)!.reason, "hello_timeout");
  }
});

Deno.test("a tunnel in which nothing moves is closed, and one in which something does is not", async () => {
  await using server = Server.echo();
  await using on = await stage({ ports: { 5432: server.port } });
  assertEquals(await on.client.tunnel("allowed.example:5432", on.bench.admit()), 200);
  for (let i = 0; i < 3; i++) {
    await until(() => on.clock.sleepers > 0);
    on.clock.advance(EGRESS_TIMEOUTS.tunnel_ms - 1_000);
    await on.client.send("ping");
    assertEquals(await on.client.until("ping"), "ping");
  }
  assertEquals(await on.passes(EGRESS_TIMEOUTS.tunnel_ms, on.client.rest()), "in time");
});

Deno.test("a lookup and a connection that hang are answered with 504", async () => {
  const never = new Promise<never>(() => {});
  const hung: [string, Partial<Parameters<typeof Bench.start>[0]>][] = [
    ["resolve_timeout", { resolve: () => never }],
    [
      "connect_timeout",
      {
        connect: (_address, _port, signal) =>
          new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
      },
    ],
  ];
  for (const [reason, options] of hung) {
    await using on = await stage(options);
    const task = on.bench.admit();
    await on.client.send(connectHead("allowed.example:443", task));
    const answer = on.client.response();
    const time = reason === "resolve_timeout" ? "resolve_ms" : "connect_ms";
    assertEquals(await on.passes(EGRESS_TIMEOUTS[time], answer), "in time");
    assertEquals(JSON.parse((await answer).body).code, reason);
  }
});

Deno.test("a plain exchange in which no byte moves is closed", async () => {
  await using server = Server.start(async (conn) => {
    while (await conn.read(new Uint8Array(1_000)) !== null);
  });
  await using on = await stage({ ports: { 80: server.port } });
  await on.client.send(
    `GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n${credentials(on.bench.admit())}\r\n\r\n`,
  );
  await until(() => server.accepted === 1);
  assertEquals(await on.passes(EGRESS_TIMEOUTS.exchange_ms, on.client.rest()), "in time");
});
