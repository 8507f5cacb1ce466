import { assertEquals, assertThrows } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import { EgressRules } from "./egress_rules.ts";

const rules = new EgressRules({
  entries: [
    { host: "example.com", ports: [443] },
    { host: "*.Wild.example.", ports: [443, 8443] },
    { host: "bücher.example", ports: [443] },
  ],
}, { entries: [{ host: "example.com", ports: [8080] }] });

const verdict = (host: string, port = 443) => rules.match({ host, port }).listed;

Deno.test("a name admits itself, and neither what ends in it nor what lies below it", () => {
  assertEquals(verdict("example.com"), "exact");
  for (const host of ["evilexample.com", "www.example.com", "example.com.evil.net", "com", "example.co", ""]) {
    assertEquals([host, verdict(host)], [host, "no"]);
  }
});

Deno.test("a wildcard admits every depth below it, and not the name itself", () => {
  assertEquals(verdict("a.wild.example"), "wildcard");
  assertEquals(verdict("a.b.wild.example"), "wildcard");
  for (const host of ["wild.example", "evilwild.example", "a.wild.example.net"]) {
    assertEquals([host, verdict(host)], [host, "no"]);
  }
});

Deno.test("a host allowed on one port is refused on every other, and the answer lists the ports", () => {
  for (const port of [22, 25, 80, 444]) {
    assertEquals(rules.match({ host: "example.com", port }), { listed: "no", ports: [443, 8080] });
  }
  assertEquals(rules.match({ host: "other.example", port: 443 }), { listed: "no", ports: [] });
});

Deno.test("a task's extra list adds to the operator's", () => {
  assertEquals(verdict("example.com", 8080), "exact");
});

Deno.test("entries are brought to the same form as targets", () => {
  assertEquals(verdict("xn--bcher-kva.example"), "exact");
});

Deno.test("an entry that is no name, an address or no port is refused", () => {
  for (const host of ["", "*", "*.", "*.*.example", "a*.example", "user@example.com", "127.0.0.1", "[::1]", "*.10"]) {
    assertThrows(() => new EgressRules({ entries: [{ host, ports: [443] }] }), TaskdError, "Cannot take");
  }
  for (const port of [0, -1, 65_536, 1.5, NaN]) {
    assertThrows(() => new EgressRules({ entries: [{ host: "a.example", ports: [port] }] }), TaskdError, "no port");
  }
});
