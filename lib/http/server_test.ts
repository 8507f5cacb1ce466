import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { VirtualClock } from "../../tests/support/clock.ts";
import { type VirtualClient, VirtualListener } from "../../tests/support/virtual_listener.ts";
import { resetConnections } from "../../tests/support/resets.ts";
import { nextTurn } from "../clock.ts";
import type { HttpTimeouts } from "./connection_stream.ts";
import { type FetchOptions, serveFetch } from "./node_messages.ts";
import { BoundedServer, type HttpListener } from "./server.ts";

type Answer = FetchOptions<void>["answer"];

/** A server on a clock that stands still: one that pauses after a failed accept never goes on. */
function serve(
  answer: Answer,
  accept?: (listener: Deno.TcpListener) => Promise<Deno.Conn>,
  timeouts?: Partial<HttpTimeouts>,
) {
  const clock = new VirtualClock();
  const server = new BoundedServer<void>({
    serve: serveFetch({ answer, failed: () => new Response(null, { status: 500 }) }),
    clock,
    timeouts,
  });
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const accepting: HttpListener = {
    addr: listener.addr,
    accept: () => accept === undefined ? listener.accept() : accept(listener),
    close: () => listener.close(),
  };
  server.over(accepting);
  return { server, clock, port: listener.addr.port, [Symbol.asyncDispose]: () => server.close(0) };
}

/** A server that answers everything. */
async function withServer(
  test: (port: number) => Promise<void>,
  accept?: (listener: Deno.TcpListener) => Promise<Deno.Conn>,
): Promise<void> {
  await using server = serve(() => Promise.resolve(new Response("served")), accept);
  await test(server.port);
}

async function ask(port: number): Promise<string> {
  return await (await fetch(`http://127.0.0.1:${port}/`)).text();
}

Deno.test("clients that reset their connections keep no other from being served", () =>
  withServer(async (port) => {
    resetConnections(port);
    assertEquals(await ask(port), "served");
  }));

Deno.test("a client that is gone once it is accepted ends nothing but its own connection", () => {
  let accepted = 0;
  return withServer(async (port) => {
    await assertRejects(() => ask(port), TypeError);
    assertEquals(await ask(port), "served");
  }, async (listener) => {
    const client = await listener.accept();
    // As macOS does it; Linux takes the option all the same.
    if (accepted++ === 0) client.setNoDelay = () => raise(new TypeError("Invalid argument (os error 22)"));
    return client;
  });
});

function raise(error: Error): never {
  throw error;
}

/** A connection that is to end: its last answer has been handed over. */
interface LastAnswer {
  server: BoundedServer<void>;
  clock: VirtualClock;
  client: Deno.TcpConn;
  /** Bytes that the server has read of the client since then. */
  arrived: () => number;
}

/** A server that answers without the request's body and ends the connection. */
async function withLastAnswer(test: (at: LastAnswer) => Promise<void>): Promise<void> {
  let arrived = 0;
  const answer: Answer = (_request, connection) => {
    connection.last();
    return Promise.resolve(new Response("enough", { status: 413 }));
  };
  await using at = serve(answer, async (listener) => {
    const conn = await listener.accept();
    const read = conn.read.bind(conn);
    conn.read = async (buffer) => {
      const count = await read(buffer);
      arrived += count ?? 0;
      return count;
    };
    return conn;
  });
  using client = await Deno.connect({ hostname: "127.0.0.1", port: at.port });
  await client.write(new TextEncoder().encode(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${2 ** 40}\r\n\r\n`));
  assertStringIncludes(await rest(client), "413 Payload Too Large");
  const before = arrived;
  await test({ ...at, client, arrived: () => arrived - before });
}

/** Everything that comes until the other side says no more; this side stays open. */
async function rest(client: Deno.TcpConn): Promise<string> {
  const buffer = new Uint8Array(4096);
  let text = "";
  for (let count = await client.read(buffer); count !== null; count = await client.read(buffer)) {
    text += new TextDecoder().decode(buffer.subarray(0, count));
  }
  return text;
}

Deno.test("after its last answer a connection drains the client for a second", () =>
  withLastAnswer(async ({ server, clock }) => {
    // The server checks its deadlines four times a second.
    const pass = async (ms: number) => {
      for (let passed = 0; passed < ms; passed += 250) {
        await clock.sleeper(250);
        clock.advance(250);
        await turns();
      }
    };
    await pass(1_000);
    assertEquals(server.connections, 1);
    await pass(250);
    while (server.connections > 0) await turns();
  }));

Deno.test("after its last answer 16 MiB of a connection are dropped, and more ends it", () =>
  withLastAnswer(async ({ server, client, arrived }) => {
    const chunk = new Uint8Array(1 << 20);
    for (let left = 16 << 20; left > 0;) left -= await client.write(chunk.subarray(0, left));
    while (arrived() < 16 << 20 && server.connections > 0) await turns();
    await turns();
    assertEquals(server.connections, 1);
    // Time stands still: nothing else can end it.
    await client.write(new Uint8Array(1));
    while (server.connections > 0) await turns();
    await assertRejects(async () => {
      for (;;) await client.write(chunk);
    });
  }));

Deno.test("a head that began during the answer before it has the deadline of a head", async () => {
  const [asked, finish] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  await using at = serve(async () => {
    asked.resolve();
    await finish.promise;
    return new Response("enough");
  });
  using client = await Deno.connect({ hostname: "127.0.0.1", port: at.port });
  await client.write(new TextEncoder().encode("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  await asked.promise;
  await client.write(new TextEncoder().encode("GET / HT"));
  for (let turn = 0; turn < 20; turn++) await turns();
  finish.resolve();
  await client.read(new Uint8Array(4096));
  for (let passed = 0; passed <= 5_000; passed += 250) {
    await at.clock.sleeper(250);
    at.clock.advance(250);
    await turns();
  }
  while (at.server.connections > 0) await turns();
});

const bytes = (text: string) => new TextEncoder().encode(text);
const GET = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

Deno.test("requests that come at once are answered one at a time, in their order", async () => {
  let [running, most, count] = [0, 0, 0];
  await using at = serve(async () => {
    most = Math.max(most, ++running);
    await turns();
    running--;
    return new Response(`answer ${++count}`);
  });
  using client = await Deno.connect({ hostname: "127.0.0.1", port: at.port });
  await client.write(bytes(GET.repeat(3)));
  await client.closeWrite();
  // A client that sends nothing more still gets what it asked for.
  const text = await rest(client);
  assertEquals(text.match(/answer \d/g), ["answer 1", "answer 2", "answer 3"]);
  assertEquals(most, 1);
});

Deno.test("empty lines between requests buy no time", async () => {
  await using at = serve(() => Promise.resolve(new Response("enough")));
  using client = await Deno.connect({ hostname: "127.0.0.1", port: at.port });
  await client.write(bytes(GET));
  await client.read(new Uint8Array(4096));
  let passed_ms = 0;
  for (; at.server.connections > 0; passed_ms += 250) {
    await client.write(bytes("\r\n")).catch(() => {});
    await at.clock.sleeper(250);
    at.clock.advance(250);
    await turns();
  }
  // Far less than an idle connection has.
  assert(passed_ms < 60_000, String(passed_ms));
});

Deno.test("a head that came with the request before it has the deadline of a head", async () => {
  await using at = serve(() => Promise.resolve(new Response("enough")), undefined, { read_header_ms: 300 });
  using client = await Deno.connect({ hostname: "127.0.0.1", port: at.port });
  await client.write(bytes(`${GET}GET / HT`));
  assertStringIncludes(await rest(client), "enough");
});

Deno.test("a client that goes away in the middle of a long answer ends nothing but its own", async () => {
  const cancelled = Promise.withResolvers<void>();
  let asked = 0;
  await using at = serve(() =>
    Promise.resolve(
      new Response(
        asked++ > 0 ? "served" : new ReadableStream({
          pull: (controller) => controller.enqueue(new Uint8Array(1 << 16)),
          cancel: () => cancelled.resolve(),
        }),
      ),
    )
  );
  const client = await Deno.connect({ hostname: "127.0.0.1", port: at.port });
  await client.write(bytes(GET));
  await client.read(new Uint8Array(4096));
  client.close();
  await cancelled.promise;
  assertEquals(await ask(at.port), "served");
});

/** A server with a bound of connections and of shares, whose requests name their owner and are answered at `finish`. */
async function withShares(
  { max_connections, max_share }: { max_connections: number; max_share: number },
  test: (at: { listener: VirtualListener; clock: VirtualClock; finish: () => void }) => Promise<void>,
): Promise<void> {
  const clock = new VirtualClock();
  let finished = Promise.withResolvers<void>();
  const server: BoundedServer<void> = new BoundedServer<void>({
    clock,
    max_connections,
    max_share,
    serve: async ({ incoming, outgoing, stream }) => {
      const owner = incoming.headers["x-owner"];
      const taken = typeof owner !== "string" || server.assign(stream, `task ${owner}`);
      if (taken && incoming.url === "/held") await finished.promise;
      outgoing.statusCode = taken ? 200 : 503;
      outgoing.end();
    },
  });
  const listener = new VirtualListener();
  server.over(listener, undefined);
  const finish = () => {
    finished.resolve();
    finished = Promise.withResolvers();
  };
  try {
    await test({ listener, clock, finish });
  } finally {
    finish();
    await server.close(0);
  }
}

const get = (owner: string, path = "/") => `GET ${path} HTTP/1.1\r\nHost: x\r\nX-Owner: ${owner}\r\n\r\n`;
const LOOPBACK = "127.0.0.1";

async function once(holds: () => boolean): Promise<void> {
  while (!holds()) await turns();
}

Deno.test("who opens connections and asks for nothing keeps no one of its address out", () =>
  withShares({ max_connections: 100, max_share: 8 }, async ({ listener, clock }) => {
    const silent = Array.from({ length: 8 }, () => listener.connect(LOOPBACK));
    await turns();
    for (let task = 0; task < 20; task++) {
      clock.advance(1);
      const client = listener.connect(LOOPBACK);
      client.send(get(String(task)));
      await once(() => client.text.includes("200 OK"));
    }
    // One at a time, the oldest first.
    assertEquals(silent.map(({ closed }) => closed), [true, ...Array(7).fill(false)]);
  }));

Deno.test("tasks that share an address have their shares each, and a busy one is refused alone", () =>
  withShares({ max_connections: 100, max_share: 8 }, async ({ listener, clock, finish }) => {
    const held: VirtualClient[] = [];
    for (let count = 0; count < 24; count++) {
      held.push(listener.connect(LOOPBACK));
      held.at(-1)!.send(get("abc"[count % 3]!, "/held"));
      await turns();
    }
    const further = listener.connect(LOOPBACK);
    further.send(get("a", "/held"));
    await once(() => further.text.includes("503 "));
    const other = listener.connect(LOOPBACK);
    other.send(get("d"));
    await once(() => other.text.includes("200 OK"));
    assertEquals(held.filter(({ closed, text }) => closed || text !== ""), []);
    finish();
    await once(() => held.every(({ text }) => text.includes("200 OK")));
    // Idle again, the oldest of its own task gives way.
    clock.advance(1);
    const late = listener.connect(LOOPBACK);
    late.send(get("a"));
    await once(() => late.text.includes("200 OK"));
    assertEquals(held.filter(({ closed }) => closed).length, 1);
    assertEquals(held.findIndex(({ closed }) => closed) % 3, 0);
  }));

Deno.test("at a listener's bound clients without an owner give way first, and busy ones never", () =>
  withShares({ max_connections: 4, max_share: 4 }, async ({ listener, clock, finish }) => {
    const known = listener.connect("10.0.0.1");
    known.send(get("a"));
    await once(() => known.text.includes("200 OK"));
    clock.advance(1);
    // Addresses of loopback are as many as one likes.
    const silent = [2, 3, 4].map((at) => listener.connect(`127.0.0.${at}`));
    await turns();
    const held = ["b", "c", "d"].map((owner) => {
      const client = listener.connect(LOOPBACK);
      client.send(get(owner, "/held"));
      return client;
    });
    await once(() => silent.every(({ closed }) => closed));
    assertEquals(known.closed, false);
    const last = listener.connect(LOOPBACK);
    last.send(get("e", "/held"));
    await once(() => known.closed);
    await turns();
    const refused = listener.connect(LOOPBACK);
    await once(() => refused.closed);
    assertEquals([...held, last].filter(({ closed }) => closed), []);
    finish();
    await once(() => [...held, last].every(({ text }) => text.includes("200 OK")));
  }));

/** The head of a request whose body never comes. */
const HALF = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nh";

/** A server of 4 connections, which reads a body whole before it answers. */
async function withBodies(
  test: (at: { listener: VirtualListener; clock: VirtualClock }) => Promise<void>,
): Promise<void> {
  const clock = new VirtualClock();
  const server = new BoundedServer<void>({
    clock,
    max_connections: 4,
    serve: serveFetch({
      answer: async (request) => new Response(`${(await request.text()).length} bytes`),
      failed: () => new Response(null, { status: 500 }),
    }),
  });
  const listener = new VirtualListener();
  server.over(listener, undefined);
  try {
    await test({ listener, clock });
  } finally {
    const closed = server.close(0);
    // What a client keeps back is waited for, on this clock.
    while (server.connections > 0) {
      clock.advance(1_000);
      await turns();
    }
    await closed;
  }
}

Deno.test("who keeps back the rest of their requests keeps no one out for more than a second", () =>
  withBodies(async ({ listener, clock }) => {
    const halves = Array.from({ length: 4 }, () => listener.connect(LOOPBACK));
    for (const half of halves) half.send(HALF);
    await turns();
    clock.advance(999);
    // Until then a request may be on its way.
    const refused = listener.connect(LOOPBACK);
    await once(() => refused.closed);
    assertEquals(halves.filter(({ closed }) => closed), []);
    clock.advance(1);
    for (let count = 0; count < 2; count++) {
      const client = listener.connect(LOOPBACK);
      client.send(GET);
      await once(() => client.text.includes("0 bytes"));
    }
    // An idle one goes first, so that the second client has the place of the first.
    assertEquals(halves.map(({ closed }) => closed), [true, false, false, false]);
    for (const half of halves.slice(1)) half.send("alf done");
    await once(() => halves.slice(1).every(({ text }) => text.includes("9 bytes")));
  }));

Deno.test("what a client with an owner has asked for does not give way to one without", () =>
  withShares({ max_connections: 2, max_share: 2 }, async ({ listener, clock }) => {
    const half = (owner: string) =>
      get(owner, "/held").replace("GET", "POST").replace("\r\n\r\n", "\r\nContent-Length: 9\r\n\r\nh");
    const known = ["a", "b"].map((owner) => {
      const client = listener.connect(LOOPBACK);
      client.send(half(owner));
      return client;
    });
    for (let turn = 0; turn < 20; turn++) await turns();
    clock.advance(10_000);
    const refused = listener.connect(LOOPBACK);
    await once(() => refused.closed);
    assertEquals(known.filter(({ closed }) => closed), []);
  }));

Deno.test("what ended leaves no count behind", () =>
  withShares({ max_connections: 3, max_share: 2 }, async ({ listener }) => {
    for (let round = 0; round < 50; round++) {
      const clients = Array.from({ length: 5 }, (_, at) => listener.connect(`10.0.0.${at % 2}`));
      for (const client of clients) client.send(get("a").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
      await once(() => clients.every(({ closed, text }) => closed || text !== ""));
    }
    const client = listener.connect(LOOPBACK);
    client.send(get("b"));
    await once(() => client.text.includes("200 OK"));
  }));

/** Lets timers and sockets have their turn. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await nextTurn();
}
