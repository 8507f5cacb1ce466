import { assertEquals } from "@std/assert";
import { readableLines } from "./_agent_output.ts";

Deno.test("readableLines() shows what each agent said and did, and nothing of its bookkeeping", () => {
  const table: [object, string[]][] = [
    [{ type: "turn", turn: 1 }, []],
    [{ type: "said", turn: 2, text: "Done" }, ["Done"]],
    [{ type: "tool", turn: 1, tool: "write", ok: true, summary: "created a.ts" }, ["[write] created a.ts"]],
    [{ type: "tool", turn: 1, tool: "edit", ok: false, summary: "no such text" }, ["[edit] failed: no such text"]],
    [{ type: "result", outcome: "finished", summary: "Done", turns: 3, requests: 3 }, ["[finished] Done"]],
    [{ type: "system", subtype: "init", tools: ["Bash"] }, []],
    [
      {
        type: "assistant",
        message: {
          content: [{ type: "text", text: "First\nthen" }, {
            type: "tool_use",
            name: "Bash",
            input: { command: "ls" },
          }],
        },
      },
      ["First", "then", '[Bash] {"command":"ls"}'],
    ],
    [{ type: "user", message: { content: [{ type: "tool_result", content: "long" }] } }, []],
    [{ type: "result", subtype: "success", result: "All done", total_cost_usd: 1 }, ["[success] All done"]],
    [{ type: "item.completed", item: { type: "agent_message", text: "Hello" } }, ["Hello"]],
    [{ type: "item.completed", item: { type: "command_execution", command: "ls" } }, ["[command] ls"]],
    [{ type: "item.completed", item: { type: "file_change", changes: [{ kind: "add", path: "a" }] } }, ["[add] a"]],
    [{ type: "turn.completed", usage: {} }, []],
  ];
  for (const [row, lines] of table) assertEquals(readableLines(`${JSON.stringify(row)}\n`), lines, JSON.stringify(row));
});

Deno.test("readableLines() shows what it does not recognise as it is, whatever shape it takes", () => {
  for (
    const line of ["", "plain", "{not json", '{"type":"unknown","x":1}', '{"type":"assistant"}', "[1]", "null", "{}"]
      .concat(['{"type":"assistant","message":{"content":"x"}}', '{"type":"item.completed"}', '{"type":"result"}'])
      .concat([
        '{"type":"item.completed","item":{"type":"file_change","changes":7}}',
        `{"type":"${"x".repeat(70_000)}"}`,
      ])
  ) assertEquals(readableLines(`${line}\n`), [line]);
  assertEquals(readableLines('a\n{"type":"turn","turn":1}\nb\n'), ["a", "b"]);
});
