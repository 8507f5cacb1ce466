/**
 * Asks every port that a broker's listeners keep to themselves, and fails unless each refuses. A process of its own,
 * so that whatever else it listens on is the broker's.
 */

import { assertEquals } from "@std/assert";
import { verdictOf, withBroker } from "./_broker.ts";

await withBroker(async (broker) => {
  const told = new Set([broker.port, broker.ui_port]);
  const hidden = listeningPorts().filter((port) => !told.has(port));
  for (const port of hidden) {
    const answer = await broker.ask("GET /tasks", [`Host: 127.0.0.1:${port}`], { port });
    assertEquals(verdictOf(answer), [403, "denied"]);
  }
  console.log(`${hidden.length} refused`);
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
