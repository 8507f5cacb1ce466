import { assertEquals, assertRejects } from "@std/assert";
import { VirtualClock } from "../../tests/support/clock.ts";
import { resetConnections } from "../../tests/support/resets.ts";
import { ConnectionGuard } from "./guard.ts";

/** A guard before a server that answers everything; `accept` accepts for it. */
async function withGuard(
  test: (port: number) => Promise<void>,
  accept = (listener: Deno.TcpListener): Promise<Deno.Conn> => listener.accept(),
): Promise<void> {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, () => new Response("served"));
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const guard = ConnectionGuard.over(
    { addr: listener.addr, accept: () => accept(listener), close: () => listener.close() },
    // Time stands still: a guard that pauses after a failed accept never goes on.
    { backend: { hostname: "127.0.0.1", port: server.addr.port }, clock: new VirtualClock() },
  );
  try {
    await test(guard.address.port);
  } finally {
    await guard.close();
    await server.shutdown();
  }
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
