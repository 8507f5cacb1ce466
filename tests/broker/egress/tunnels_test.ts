import { assert, assertEquals, assertLess } from "@std/assert";
import { ownBytes } from "../../support/memory.ts";
import { Bench, connectHead, latin1, type RawClient, Server, text } from "./_harness.ts";
import { scaled, scaledTest } from "../../support/long.ts";

const LIST = { "allowed.example": [5432] };

async function bench(server: Server, options: Parameters<typeof Bench.start>[0] | object = {}): Promise<Bench> {
  return await Bench.start({ list: LIST, ports: { 5432: server.port }, ...options });
}

async function tunnel(bench: Bench, task = bench.admit()): Promise<RawClient> {
  const client = await bench.client();
  assertEquals(await client.tunnel("allowed.example:5432", task), 200);
  return client;
}

/** Waits until `condition` holds, giving others their turn. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 1));
}

function openDescriptors(): number {
  return [...Deno.readDirSync("/proc/self/fd")].length;
}

Deno.test("half-close: a client that has sent everything still gets the whole answer", async () => {
  const answer = "y".repeat(3_000_000);
  await using server = Server.start(async (conn) => {
    const buffer = new Uint8Array(64 << 10);
    let length = 0;
    for (let count = await conn.read(buffer); count !== null; count = await conn.read(buffer)) length += count;
    const bytes = latin1(`${length}:${answer}`);
    for (let done = 0; done < bytes.length;) done += await conn.write(bytes.subarray(done));
  });
  await using proxy = await bench(server);
  const client = await tunnel(proxy);
  await client.send("x".repeat(1_000_000));
  await client.conn.closeWrite();
  assertEquals(await client.rest(), `1000000:${answer}`);
});

Deno.test("half-close: a host that has sent everything still receives everything", async () => {
  const heard = Promise.withResolvers<string>();
  await using server = Server.start(async (conn) => {
    await conn.write(latin1("bye"));
    await conn.closeWrite();
    const buffer = new Uint8Array(1_000);
    let all = "";
    for (let count = await conn.read(buffer); count !== null; count = await conn.read(buffer)) {
      all += text(buffer.subarray(0, count));
    }
    heard.resolve(all);
  });
  await using proxy = await bench(server);
  const client = await tunnel(proxy);
  assertEquals(await client.rest(), "bye");
  await client.send("one more thing");
  await client.conn.closeWrite();
  assertEquals(await heard.promise, "one more thing");
});

Deno.test("bytes that follow the CONNECT at once are not lost", async () => {
  await using server = Server.echo();
  await using proxy = await bench(server);
  const client = await proxy.client();
  await client.send(`${connectHead("allowed.example:5432", proxy.admit())}early`);
  assertEquals((await client.response()).status, 200);
  assertEquals(await client.until("early"), "early");
});

Deno.test("backpressure: what the client does not take stays with the host", async () => {
  let written = 0;
  await using server = Server.start(async (conn) => {
    const bytes = new Uint8Array(1 << 20);
    for (;;) written += await conn.write(bytes);
  });
  await using proxy = await bench(server);
  const client = await tunnel(proxy);
  // The kernel's buffers take some megabytes; then the host's writes must stand still.
  let before = -1;
  while (before !== written || written === 0) {
    before = written;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assertLess(written, 64 << 20);
  client.conn.close();
  await until(() => proxy.proxy.connections === 0);
});

Deno.test("a reset on one side ends the other", async () => {
  await using server = Server.start(async (conn) => {
    await conn.read(new Uint8Array(10));
    conn.close();
  });
  await using proxy = await bench(server);
  const client = await tunnel(proxy);
  while (proxy.proxy.connections > 0) {
    await client.send("into the void").catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  assertEquals(await client.rest(), "");
});

scaledTest(
  "idle tunnels of one task exhaust neither another's place, descriptors nor memory",
  async () => {
    await using server = Server.echo();
    await using proxy = await bench(server);
    const greedy = proxy.admit("greedy");
    const descriptors = openDescriptors();
    const memory = ownBytes();
    const statuses = new Map<number, number>();
    const held: RawClient[] = [];
    const asked = scaled({ short: 1_000, long: 10_000 });
    for (let i = 0; i < asked; i++) {
      const client = await proxy.client();
      const status = await client.tunnel("allowed.example:5432", greedy);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (status === 200) held.push(client);
      else client.conn.close();
    }
    assertEquals([...statuses], [[200, 256], [429, asked - 256]]);
    // Four descriptors for each tunnel here: the client's, the proxy's two and the host's.
    await until(() => openDescriptors() <= descriptors + 4 * 256 + 16);
    assertLess(ownBytes() - memory, 256 << 20);
    const other = await tunnel(proxy, proxy.admit("other"));
    await other.send("still served");
    assertEquals(await other.until("still served"), "still served");
    await held[0]!.send("and so is the greedy one, in bounds");
    assertEquals(await held[0]!.until("bounds"), "and so is the greedy one, in bounds");
    held[0]!.conn.close();
    await until(() => proxy.proxy.connections === 256);
    await tunnel(proxy, greedy);
  },
);

Deno.test("connections that prove nothing are bounded by address and in all, and give way to others", async () => {
  await using server = Server.echo();
  await using proxy = await bench(server, { limits: { pending_per_peer: 4, connections: 6 } });
  const task = proxy.admit();
  const silent = [];
  for (let count = 0; count < 4; count++) silent.push(await proxy.client());
  await until(() => proxy.proxy.connections === 4);
  // Each that proves itself takes the oldest one's place, first of its address, then of all.
  const proved = [await tunnel(proxy, task), await tunnel(proxy, task), await tunnel(proxy, task)];
  assertEquals(await silent[0]!.rest(), "");
  assertEquals(proxy.proxy.connections, 6);
  for (let count = 0; count < 3; count++) proved.push(await tunnel(proxy, task));
  for (const client of silent) assertEquals(await client.rest(), "");
  assertEquals(proxy.proxy.connections, 6);
  const late = await proxy.client();
  assert((await late.rest()).startsWith("HTTP/1.1 503 Overloaded"));
  assertEquals(proxy.decisions.at(-1)!.reason, "overloaded");
  proved[0]!.conn.close();
  await until(() => proxy.proxy.connections === 5);
  await tunnel(proxy, task);
});

Deno.test("close() does not wait for a lookup or a connection that hangs", async () => {
  await using server = Server.echo();
  const never = new Promise<never>(() => {});
  const hanging = [
    { resolve: () => never },
    {
      connect: (_address: string, _port: number, signal: AbortSignal) =>
        new Promise<never>((_, reject) => {
          if (signal.aborted) reject(signal.reason);
          signal.addEventListener("abort", () => reject(signal.reason));
        }),
      resolve: () => Promise.resolve(["8.8.8.8", "9.9.9.9"]),
    },
  ];
  for (const options of hanging) {
    await using proxy = await bench(server, options);
    const client = await proxy.client();
    await client.send(connectHead("allowed.example:5432", proxy.admit()));
    await until(() => proxy.proxy.connections === 1);
    await proxy.proxy.close();
    assertEquals(proxy.proxy.connections, 0);
  }
});

Deno.test("close() ends every connection and waits for it", async () => {
  await using server = Server.echo();
  await using proxy = await bench(server);
  const clients = [await tunnel(proxy), await proxy.client()];
  await proxy.proxy.close();
  for (const client of clients) assertEquals(await client.rest(), "");
  assertEquals(proxy.proxy.connections, 0);
});
