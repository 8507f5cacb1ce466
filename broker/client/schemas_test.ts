import { assertEquals } from "@std/assert";
import * as v from "valibot";
import { buildBrief } from "../brief.ts";
import { TRUST_BRIEF } from "./schemas.ts";

Deno.test("a brief comes whole to a client, with the rows of databases, blobs among them", () => {
  const brief = buildBrief({
    task_id: "0".repeat(32),
    instruction: "Correct the invoices",
    repo: "example.com/o/r",
    agent: "agent_d",
    databases: [{
      db: "shop",
      base: "main",
      changed: true,
      tables: [{
        table: "items",
        change: "changed",
        rows_added: 0,
        rows_removed: 1,
        rows_changed: 1,
        rows: [
          { change: "changed", key: { id: 1 }, before: { cents: 5994, note: null }, after: { cents: 5997, note: "x" } },
          { change: "removed", key: { id: 2 }, before: { image: { hex: "00ff", bytes: 2 } } },
        ],
      }],
      more_tables: 1,
      schema: [{ type: "view", name: "cheap", change: "added" }],
      more_schema: 0,
      other_changes: false,
    }],
  });
  assertEquals(v.parse(TRUST_BRIEF, JSON.parse(JSON.stringify(brief))), brief);
});
