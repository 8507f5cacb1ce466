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

Deno.test("of equal decisions the last is kept, in the place of the last", () => {
  const ring = new DecisionRing();
  ring.add(decision("a.example", 1));
  ring.add(decision("b.example", 2));
  ring.add(decision("a.example", 3));
  assertEquals(ring.list().map(({ host, at_ms }) => [host, at_ms]), [["b.example", 2], ["a.example", 3]]);
});

Deno.test("a flood of names pushes out what was quiet for longest", () => {
  const ring = new DecisionRing();
  for (let i = 0; i < 10_000; i++) {
    ring.add(decision(`n${i}.example`));
    ring.add(decision("retried.example"));
  }
  const list = ring.list();
  assertEquals(list.length, 256);
  assertEquals(list.map(({ host }) => host).slice(-2), ["n9999.example", "retried.example"]);
});
