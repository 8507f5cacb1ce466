import { assertEquals } from "@std/assert";
import type { DaemonEvent } from "../../lib/protocol/messages.ts";
import { eventLine } from "./watch.ts";

Deno.test("eventLine() shows the time, type, branch and details", () => {
  const ts = "2026-01-31T12:00:00.123Z";
  const table: [DaemonEvent, string][] = [
    [
      {
        v: 1,
        ts,
        type: "flushed",
        db: "shop",
        branch: "main",
        detail: { kind: "auto", txid: 7, duration_seconds: 0.01 },
      },
      "2026-01-31 12:00:00Z flushed shop@main kind=auto txid=7 duration_seconds=0.01",
    ],
    [
      { v: 1, ts, type: "fenced", db: "shop", branch: "try", detail: { cause: "lost \x1b[2J lease" } },
      '2026-01-31 12:00:00Z fenced shop@try cause="lost \\u001b[2J lease"',
    ],
    [
      { v: 1, ts, type: "dropped_slow_consumer", db: "", branch: "", detail: {} },
      "2026-01-31 12:00:00Z dropped_slow_consumer",
    ],
  ];
  for (const [event, line] of table) assertEquals(eventLine(event), line);
});
