import { assertEquals } from "@std/assert";
import { type AgentProgress, encodeProgress, MAX_PROGRESS_TEXT } from "./progress.ts";
import { parseProgress } from "./progress_reader.ts";

Deno.test("a row of progress is read back on one line and safe to show", () => {
  const rows: AgentProgress[] = [
    { type: "turn", turn: 1 },
    { type: "said", turn: 1, text: "I look" },
    { type: "tool", turn: 1, tool: "read", ok: false, summary: "no file" },
    { type: "waiting", wait_ms: 1_000, summary: "busy" },
    { type: "result", outcome: "finished", summary: "done", turns: 1, requests: 1 },
  ];
  for (const row of rows) assertEquals(parseProgress(encodeProgress(row).trimEnd()), row);
  const line = encodeProgress({ type: "said", turn: 1, text: `a\n\x1b[2J\u202e${"x".repeat(10_000)}` });
  // deno-lint-ignore no-control-regex
  assertEquals(/[\x00-\x09\x0b-\x1f\u202e]/.test(line), false);
  const row = parseProgress(line.trimEnd());
  assertEquals(row?.type === "said" && row.text.startsWith("a \\x1b[2J\\u202exxx"), true);
  assertEquals(row?.type === "said" && row.text.length, MAX_PROGRESS_TEXT);
});

Deno.test("what a taken-over agent prints is believed in nothing but its shape", () => {
  const hostile = [
    "plain text",
    "{",
    "null",
    '{"type":"approve"}',
    '{"type":"turn","turn":-1}',
    '{"type":"turn","turn":1,"extra":true}',
    '{"type":"result","outcome":"pushed","summary":"","turns":1,"requests":1}',
    '{"type":"result","outcome":"constructor","summary":"","turns":1,"requests":1}',
  ];
  for (const line of hostile) assertEquals(parseProgress(line), undefined, line);
  const row = parseProgress('{"type":"said","turn":1,"text":"\\u001b]0;title\\u0007\\nnext"}');
  assertEquals(row, { type: "said", turn: 1, text: "\\x1b]0;title\\x07 next" });
});
