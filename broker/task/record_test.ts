import { assertEquals, assertThrows } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import {
  anyLife,
  APPROVED,
  encodeAll,
  foldRows,
  SHA,
  someOrder,
  staged,
  TO_THE_GATE,
} from "../../tests/broker/task/lives.ts";
import { SeededRandom } from "../../tests/support/writers/random.ts";
import { TaskdError } from "../../lib/errors.ts";
import { foldRow } from "./record.ts";
import type { TaskRecord } from "./schema.ts";
import type { Row, TaskEvent } from "./rows.ts";
import { STAGES } from "./stages.ts";

const ID = "ab".repeat(16);
const CREATED: TaskEvent = { type: "created", task: someOrder(ID, { model: "m", sensitive: true }) };

function rowsOf(...events: TaskEvent[]): Row[] {
  return encodeAll(events).map(({ row }) => row);
}

Deno.test("the record says what the rows say", () => {
  const spend = { usd: 0.5, requests: 3, unmetered_requests: 1, input_tokens: 7, output_tokens: 8, priced: false };
  const record = foldRows(rowsOf(
    CREATED,
    ...TO_THE_GATE.map(staged),
    { type: "spend", spend },
    { type: "claimed", usd: 1_000_000 },
    { type: "evidence", name: "image", value: "sha256:1" },
    staged(APPROVED),
    { type: "push_attempt", remote: "https://example.com/o/r", branch: "agent/1", commit: "c" },
    staged({ from: "pushing", to: "awaiting_ci", pushed: { branch: "agent/1", commit: "c" } }),
    { type: "ci", state: "failed", detail: "lint" },
  ));
  const expected: TaskRecord = {
    ...someOrder(ID, { model: "m", sensitive: true }),
    stage: "awaiting_ci",
    created_at: "2026-01-01T00:00:00.000Z",
    updated_at: "2026-01-01T00:00:11.000Z",
    stage_since: "2026-01-01T00:00:10.000Z",
    spend,
    claimed_usd: 1_000_000,
    diff_sha256: SHA,
    gate: { diff_sha256: SHA, second_look: ["ci_files", "lockfile"], timeout_ms: 60_000 },
    acknowledgements: ["ci_files", "lockfile"],
    approval: { diff_sha256: SHA, acknowledged: ["ci_files", "lockfile"], at: "2026-01-01T00:00:08.000Z" },
    push_attempts: [{ remote: "https://example.com/o/r", branch: "agent/1", commit: "c" }],
    push_begun_at: "2026-01-01T00:00:09.000Z",
    pushed: { branch: "agent/1", commit: "c" },
    ci: { state: "failed", detail: "lint" },
    evidence: record.evidence,
    seq: 12,
  };
  assertEquals(record, expected);
  assertEquals({ ...record.evidence }, { image: "sha256:1" });
});

Deno.test("every prefix of every life folds, in one go as row by row, and ends with an outcome", () => {
  fc.assert(
    fc.property(fc.integer(), (seed) => {
      const rows = rowsOf(...anyLife(ID, new SeededRandom(seed)));
      let record: TaskRecord | undefined;
      rows.forEach((row, index) => {
        record = foldRow(record, row);
        assertEquals(record, foldRows(rows.slice(0, index + 1)));
        assertEquals(Object.hasOwn(STAGES, record.stage), true);
        assertEquals(record.outcome !== undefined, record.stage === "done");
      });
      assertEquals(record?.stage, "done");
    }),
    { numRuns: 60 },
  );
});

Deno.test("no row can be left out of a life, moved or repeated", () => {
  fc.assert(
    fc.property(fc.integer(), fc.nat(), (seed, pick) => {
      const rows = rowsOf(...anyLife(ID, new SeededRandom(seed)));
      const at = pick % (rows.length - 1);
      const harmed = [
        rows.toSpliced(at, 1),
        rows.toSpliced(at, 0, rows[at]!),
        rows.toSpliced(at, 2, rows[at + 1]!, rows[at]!),
      ];
      for (const bad of harmed) assertEquals(assertThrows(() => foldRows(bad), TaskdError).code, "corrupt");
    }),
    { numRuns: 60 },
  );
});

Deno.test("rows that cannot follow are refused", () => {
  const created = CREATED;
  const gate = TO_THE_GATE.map(staged);
  const bad: TaskEvent[][] = [
    [],
    [{ type: "note", text: "n" }],
    [created, created],
    [created, staged(APPROVED)],
    [
      created,
      ...gate,
      staged({ ...APPROVED, approval: { diff_sha256: "e0".repeat(32), acknowledged: [] } } as typeof APPROVED),
    ],
    [created, { type: "push_attempt", remote: "r", branch: "b", commit: "c" }],
    [created, { type: "ci", state: "passed" }],
    [created, staged({ from: "admission", to: "done", outcome: "cancelled", reason: "r" }), {
      type: "note",
      text: "n",
    }],
  ];
  for (const events of bad) assertEquals(assertThrows(() => foldRows(rowsOf(...events)), TaskdError).code, "corrupt");
});

Deno.test("a fact may be called __proto__", () => {
  const record = foldRows(rowsOf(CREATED, { type: "evidence", name: "__proto__", value: { polluted: true } }));
  assertEquals(Object.keys(record.evidence), ["__proto__"]);
  assertEquals("polluted" in record, false);
});
