import { assertEquals } from "@std/assert";
import { VirtualClock } from "../../tests/support/clock.ts";
import { resetConnections } from "../../tests/support/resets.ts";
import { ConnectionGuard } from "./guard.ts";

Deno.test("clients that reset their connections keep no other from being served", async () => {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, () => new Response("served"));
  const guard = ConnectionGuard.listen({ hostname: "127.0.0.1", port: 0 }, {
    backend: { hostname: "127.0.0.1", port: server.addr.port },
    // Time stands still: a guard that pauses after a failed accept never goes on.
    clock: new VirtualClock(),
  });
  try {
    resetConnections(guard.address.port);
    const response = await fetch(`http://127.0.0.1:${guard.address.port}/`);
    assertEquals(await response.text(), "served");
  } finally {
    await guard.close();
    await server.shutdown();
  }
});
