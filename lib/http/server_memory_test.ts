/**
 * What a connection keeps of requests that were answered: nothing. A client may ask a thousand times on one connection,
 * with a large body each time.
 */

import { assert, assertEquals } from "@std/assert";
import { countHeld } from "../../tests/support/held_objects.ts";
import { systemClock } from "../clock.ts";
import { BoundedServer } from "./server.ts";

const REQUESTS = 50;
/** What is still on its way, in a task of node:http or of this test. */
const LAST_ONES = 3;

Deno.test("a connection that stays open holds no request that was answered", async () => {
  const requests: WeakRef<object>[] = [];
  const connections = new Set<string>();
  const server = new BoundedServer<void>({
    serve: ({ incoming, outgoing, stream }) => {
      requests.push(new WeakRef(incoming));
      connections.add(JSON.stringify(stream.conn.remoteAddr));
      incoming.resume();
      outgoing.end("served");
      return Promise.resolve();
    },
    clock: systemClock,
  });
  const { port } = server.listen({ hostname: "127.0.0.1", port: 0 }, "", () => {});
  using client = Deno.createHttpClient({ poolMaxIdlePerHost: 1 });
  for (let i = 0; i < REQUESTS; i++) {
    const answer = await fetch(`http://127.0.0.1:${port}/`, { client, method: "POST", body: "x".repeat(1_000) });
    assertEquals(await answer.text(), "served");
  }
  const held = await countHeld(requests);
  assertEquals([requests.length, connections.size, server.connections], [REQUESTS, 1, 1]);
  assert(held <= LAST_ONES, `${held} of ${REQUESTS} requests are held`);
  await server.close(0);
});
