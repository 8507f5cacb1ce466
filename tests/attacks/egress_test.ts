import { assertEquals } from "@std/assert";
import type { Surfaces } from "./context.ts";
import { EGRESS_PROMISES } from "./egress_destinations.ts";
import { PASSING_PROMISES } from "./egress_content.ts";
import { allReported, tryThem, unheld } from "./_context.ts";
import { naiveProxy } from "./_naive_proxy.ts";

Deno.test("the egress proxy holds every promise", async () => {
  assertEquals(unheld(await tryThem(["egress"])), []);
});

Deno.test("every promise about egress is a hole with a proxy that checks nothing", async () => {
  const surfaces: Partial<Surfaces> = { proxy: naiveProxy, classifyAddress: () => "public" };
  const tried = await tryThem(["egress"], { surfaces, timeout_ms: 300 });
  assertEquals(tried.length, EGRESS_PROMISES.length + PASSING_PROMISES.length);
  allReported(tried);
});
