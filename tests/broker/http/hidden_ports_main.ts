/**
 * Fails if a broker listens on anything beside its addresses, or leaves a socket that another could connect to. A
 * process of its own, so that whatever else it listens on is the broker's.
 */

import { assertEquals } from "@std/assert";
import { guardedSocketOf } from "../../../lib/socket_path.ts";
import { withBroker } from "./_broker.ts";

await withBroker(async (broker) => {
  const reported = new Set([broker.port, broker.ui_port]);
  const hidden = listeningPorts().filter((port) => !reported.has(port));
  assertEquals(hidden, []);
  // While a connection is open, and its server with it.
  using open = await Deno.connect({ hostname: "127.0.0.1", port: broker.port! });
  await open.write(new TextEncoder().encode("GET /healthz HTTP/1.1\r\n"));
  assertEquals((await broker.client.health()).ok, true);
  const { directory } = guardedSocketOf(broker.http.socket);
  assertEquals([Deno.statSync(directory).mode! & 0o777, [...Deno.readDirSync(directory)]], [0o700, []]);
  console.log("nothing hidden");
}, { addr: "127.0.0.1:0" });

/** Ports on which this process listens. */
function listeningPorts(): number[] {
  const sockets = new Set<string>();
  for (const { name } of Deno.readDirSync("/proc/self/fd")) {
    try {
      sockets.add(/^socket:\[(\d+)\]$/.exec(Deno.readLinkSync(`/proc/self/fd/${name}`))?.[1] ?? "");
    } catch {
      // The descriptor of this very listing is gone.
    }
  }
  return Deno.readTextFileSync("/proc/self/net/tcp").split("\n").slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[3] === "0A" && sockets.has(fields[9]!))
    .map((fields) => parseInt(fields[1]!.split(":")[1]!, 16));
}
