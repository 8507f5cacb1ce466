import { assert, assertEquals } from "@std/assert";
import { PING_MS } from "../../../lib/http/server_sent_events.ts";
import { MAX_BODY_BYTES } from "../../../broker/api/wire.ts";
import { HTTP_TIMEOUTS } from "../../../lib/http/connection_stream.ts";
import { MAX_HTTP_CONNECTIONS } from "../../../lib/http/server.ts";
import { withBroker } from "./_broker.ts";
import { PAGE, withReference } from "./reference.ts";

/** A page without what the formatter does to it. */
function unpadded(page: string): string {
  return page.replaceAll(/\s+/g, " ").replaceAll(/-{3,}/g, "---");
}

Deno.test("docs/reference/broker_api.md says what the tables of routes and statuses say", async () => {
  const page = await Deno.readTextFile(PAGE);
  assertEquals(unpadded(page), unpadded(withReference(page)), "run: deno run -A tests/broker/http/reference.ts");
});

Deno.test("docs/reference/broker_api.md has the limits that hold", async () => {
  const page = unpadded(await Deno.readTextFile(PAGE));
  assertEquals([MAX_BODY_BYTES, MAX_HTTP_CONNECTIONS, PING_MS], [1 << 20, 2_048, 15_000]);
  const { read_header_ms, read_ms, write_ms, idle_ms, stalled_write_ms } = HTTP_TIMEOUTS;
  assertEquals([read_header_ms, read_ms * 0.8, write_ms, idle_ms, stalled_write_ms], [5e3, 24e3, 90e3, 120e3, 45e3]);
  for (const text of ["1 MiB", "2,048", "5 s", "24 s", "90 s", "2 min", "45 s", "15 s"]) {
    assert(page.includes(text), text);
  }
});

Deno.test("the order in docs/reference/broker_api.md is accepted", async () => {
  const page = await Deno.readTextFile(PAGE);
  const body = /### Bodies[^]*?```json\n([^]*?)```/.exec(page)![1]!;
  await withBroker(async (broker) => assertEquals((await broker.ask("POST /tasks", [], { body })).status, 202));
});
