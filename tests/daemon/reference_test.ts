import { assertEquals } from "@std/assert";
import type { DaemonEvent, EventType, OpName } from "../../lib/protocol/messages.ts";
import { EVENT_TYPES } from "../../lib/protocol/events.ts";
import { OPS } from "../../lib/protocol/operations.ts";
import { parseArgs } from "../../lib/protocol/parse_args.ts";
import { PAGE, withReference } from "./reference.ts";
import { TaskdError } from "../../lib/errors.ts";
import { decodeRequest } from "../../lib/protocol/codec.ts";

/** A page without what the formatter does to it. */
function unpadded(page: string): string {
  return page.replaceAll(/\s+/g, " ").replaceAll(/-{3,}/g, "---");
}

Deno.test("docs/reference/store_protocol.md matches the tables", async () => {
  const page = await Deno.readTextFile(PAGE);
  assertEquals(unpadded(page), unpadded(withReference(page)), "run: deno run -A tests/daemon/reference.ts");
});

Deno.test("the examples in docs/reference/store_protocol.md are requests and events that exist", async () => {
  const page = await Deno.readTextFile(PAGE);
  const types: EventType[] = [...EVENT_TYPES];
  let examples = 0;
  for (const [, block] of page.matchAll(/```json\n([^]*?)```/g)) {
    for (const line of block!.trim().split("\n")) {
      const value = JSON.parse(line) as { op?: OpName } | DaemonEvent;
      examples++;
      if ("type" in value) assertEquals(types.includes(value.type) && value.v, 1);
      if (!("op" in value) || value.op === undefined) continue;
      const { request } = decodeRequest(line);
      if (request instanceof TaskdError) throw request;
      assertEquals(request.op in OPS, true);
      parseArgs(request.op as OpName, request.fields);
    }
  }
  assertEquals(examples > 8, true);
});
