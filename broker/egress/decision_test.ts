import { assertEquals } from "@std/assert";
import { DecisionRing, type EgressDecision } from "./decision.ts";

function decision(host: string, at_ms = 0): EgressDecision {
  return {
    at_ms,
    peer: "192.168.66.7",
    method: "CONNECT",
    host,
    port: 443,
    verdict: "denied",
    reason: "not_listed",
    status: 403,
  };
}

Deno.test("equal decisions count in one entry, with the first and the last time", () => {
  const ring = new DecisionRing();
  ring.add(decision("a.example", 1));
  ring.add(decision("b.example", 2));
  ring.add(decision("a.example", 3));
  const found = ring.list().map(({ host, count, first_at_ms, last_at_ms }) => [host, count, first_at_ms, last_at_ms]);
  assertEquals(found, [["b.example", 1, 2, 2], ["a.example", 2, 1, 3]]);
});

Deno.test("a flood of names pushes out what was quiet for longest, and counts it", () => {
  const ring = new DecisionRing();
  for (let i = 0; i < 10_000; i++) {
    ring.add(decision(`n${i}.example`));
    ring.add(decision("retried.example"));
  }
  const list = ring.list();
  assertEquals([list.length, ring.dropped], [256, 10_001 - 256]);
  assertEquals(list.find(({ host }) => host === "retried.example")?.count, 10_000);
});
