import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { VirtualClock } from "../../tests/support/clock.ts";
import { resetConnections } from "../../tests/support/resets.ts";
import { nextTurn } from "../clock.ts";
import { ConnectionServers } from "./connection_server.ts";
import { ConnectionGuard, type GuardOptions } from "./guard.ts";

/** A guard before a server that answers everything; `accept` accepts for it. */
async function withGuard(
  test: (port: number) => Promise<void>,
  accept = (listener: Deno.TcpListener): Promise<Deno.Conn> => listener.accept(),
): Promise<void> {
  await using servers = makeServers();
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const guard = ConnectionGuard.over(
    { addr: listener.addr, accept: () => accept(listener), close: () => listener.close() },
    // Time stands still: a guard that pauses after a failed accept never goes on.
    { servers, answer: () => new Response("served"), clock: new VirtualClock() },
  );
  try {
    await test(guard.address.port);
  } finally {
    await guard.close();
  }
}

/** Servers of connections, in a directory of a test's own; `onCompleted` is called once an answer was handed over. */
function makeServers(onCompleted = () => {}): ConnectionServers & AsyncDisposable {
  const directory = Deno.makeTempDirSync();
  const servers = new ConnectionServers(`${directory}/s`, () => new Response(null, { status: 500 }));
  return Object.assign(servers, {
    open: (answer: Parameters<ConnectionServers["open"]>[0]) =>
      ConnectionServers.prototype.open.call(servers, (request, completed) => {
        const response = answer(request, completed);
        completed.then(onCompleted);
        return response;
      }),
    [Symbol.asyncDispose]: async () => {
      await servers.close();
      // Nothing is left of it.
      Deno.removeSync(directory);
    },
  });
}

async function ask(port: number): Promise<string> {
  return await (await fetch(`http://127.0.0.1:${port}/`)).text();
}

Deno.test("clients that reset their connections keep no other from being served", () =>
  withGuard(async (port) => {
    resetConnections(port);
    assertEquals(await ask(port), "served");
  }));

Deno.test("a client that is gone once it is accepted ends nothing but its own connection", () => {
  let accepted = 0;
  return withGuard(async (port) => {
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
  guard: ConnectionGuard;
  clock: VirtualClock;
  client: Deno.TcpConn;
  /** Bytes that the guard has read of the client since then. */
  arrived: () => number;
}

/** A guard on a clock that stands still, before a server that answers without the request's body and ends the connection. */
async function withLastAnswer(test: (at: LastAnswer) => Promise<void>): Promise<void> {
  const clock = new VirtualClock();
  let arrived = 0;
  const answered = Promise.withResolvers<void>();
  await using servers = makeServers(answered.resolve);
  const answer: GuardOptions["answer"] = (_request, guarded) => {
    guarded.last();
    return new Response("enough", { status: 413 });
  };
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const accept = async () => {
    const conn = await listener.accept();
    const read = conn.read.bind(conn);
    conn.read = async (buffer) => {
      const count = await read(buffer);
      arrived += count ?? 0;
      return count;
    };
    return conn;
  };
  const guard = ConnectionGuard.over({ addr: listener.addr, accept, close: () => listener.close() }, {
    servers,
    answer,
    clock,
  });
  try {
    using client = await Deno.connect({ hostname: "127.0.0.1", port: guard.address.port });
    await client.write(new TextEncoder().encode(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${2 ** 40}\r\n\r\n`));
    await answered.promise;
    const before = arrived;
    await test({ guard, clock, client, arrived: () => arrived - before });
  } finally {
    await guard.close();
  }
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
  withLastAnswer(async ({ guard, clock, client }) => {
    assertStringIncludes(await rest(client), "413 Payload Too Large");
    // The guard checks its deadlines four times a second.
    const pass = async (ms: number) => {
      for (let passed = 0; passed < ms; passed += 250) {
        await clock.sleeper(250);
        clock.advance(250);
        await turns();
      }
    };
    await pass(1_000);
    assertEquals(guard.connections, 1);
    await pass(250);
    while (guard.connections > 0) await turns();
  }));

Deno.test("after its last answer 16 MiB of a connection are dropped, and more ends it", () =>
  withLastAnswer(async ({ guard, client, arrived }) => {
    const chunk = new Uint8Array(1 << 20);
    for (let left = 16 << 20; left > 0;) left -= await client.write(chunk.subarray(0, left));
    while (arrived() < 16 << 20 && guard.connections > 0) await turns();
    await turns();
    assertEquals(guard.connections, 1);
    // Time stands still: nothing else can end it.
    await client.write(new Uint8Array(1));
    while (guard.connections > 0) await turns();
    await assertRejects(async () => {
      for (;;) await client.write(chunk);
    });
  }));

Deno.test("a head that began during the answer before it has the deadline of a head", async () => {
  const clock = new VirtualClock();
  const [asked, finish] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const done = Promise.withResolvers<void>();
  await using servers = makeServers(done.resolve);
  const answer: GuardOptions["answer"] = async (_request, guarded) => {
    guarded.bodyDone();
    asked.resolve();
    await finish.promise;
    return new Response("enough");
  };
  const guard = ConnectionGuard.listen({ hostname: "127.0.0.1", port: 0 }, { servers, answer, clock });
  try {
    using client = await Deno.connect({ hostname: "127.0.0.1", port: guard.address.port });
    await client.write(new TextEncoder().encode("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    await asked.promise;
    await client.write(new TextEncoder().encode("GET / HT"));
    for (let turn = 0; turn < 20; turn++) await turns();
    finish.resolve();
    await done.promise;
    for (let passed = 0; passed <= 5_000; passed += 250) {
      await clock.sleeper(250);
      clock.advance(250);
      await turns();
    }
    for (let turn = 0; turn < 100 && guard.connections > 0; turn++) await turns();
    assertEquals(guard.connections, 0);
  } finally {
    await guard.close();
  }
});

/** Lets timers and sockets have their turn. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await nextTurn();
}
