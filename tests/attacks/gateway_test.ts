import { assertEquals } from "@std/assert";
import { GATEWAY_PROMISES } from "./gateway_requests.ts";
import { LIMIT_PROMISES } from "./gateway_limits.ts";
import { allReported, tryThem, unheld } from "./_context.ts";
import { naiveGateway } from "./_naive_gateway.ts";
import { longTest } from "../support/long.ts";

Deno.test("the gateway holds every promise", async () => {
  assertEquals(unheld(await tryThem(["gateway"])), []);
});

longTest("every promise about the gateway is a hole with one that forwards everything", async () => {
  const tried = await tryThem(["gateway"], { surfaces: { gateway: naiveGateway }, timeout_ms: 300 });
  assertEquals(tried.length, GATEWAY_PROMISES.length + LIMIT_PROMISES.length);
  allReported(tried);
});
