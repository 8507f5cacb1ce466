import { assertEquals } from "@std/assert";
import * as v from "valibot";
import { buildBrief } from "../task/brief.ts";
import { TASK_VIEW, type TaskView, TRUST_BRIEF } from "./wire.ts";
import { readable } from "./readable.ts";

Deno.test("readable() keeps every field of a task: retry, attempt, queue item, push", () => {
  const now = "2026-01-01T00:00:00.000Z";
  const task: TaskView = {
    id: "1".repeat(32),
    repo: "example.com/o/r",
    instruction: "Correct the invoices",
    agent: "agent_d",
    retry_of: "2".repeat(32),
    ci_attempt: 1,
    queue_id: "3".repeat(32),
    stage: "pushing",
    created_at: now,
    updated_at: now,
    stage_since: now,
    push_attempts: [{ remote: "https://example.com/o/r", branch: "agent/1", commit: "c".repeat(40) }],
    push_begun_at: now,
    evidence: {},
    seq: 9,
    trace: { intact: true, rows: 9 },
    refused_egress: [],
    links: {
      self: "/tasks/1",
      events: "/tasks/1/events",
      diff: "/tasks/1/diff",
      brief: "/tasks/1/brief",
      log: "/tasks/1/log",
    },
  };
  assertEquals(v.parse(readable(TASK_VIEW), JSON.parse(JSON.stringify(task))), task);
});

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
        storage_rows: 7,
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
  assertEquals(v.parse(readable(TRUST_BRIEF), JSON.parse(JSON.stringify(brief))), brief);
});
