import { assertEquals } from "@std/assert";
import { VirtualClock } from "../../support/clock.ts";
import { resetConnections } from "../../support/resets.ts";
import { Bench } from "./_harness.ts";

Deno.test("a sandbox that resets its connections keeps no other from the proxy", async () => {
  // Time stands still: a proxy that pauses after a failed accept never goes on.
  await using bench = await Bench.start({ list: {}, clock: new VirtualClock() });
  resetConnections(bench.port);
  assertEquals((await bench.ask("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n")).status, 407);
});
