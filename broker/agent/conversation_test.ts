import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { VirtualClock } from "../../tests/support/clock.ts";
import type { ChatMessage } from "./chat.ts";
import { runAgent } from "./conversation.ts";
import { ModelClient } from "./model.ts";
import type { AgentProgress } from "./progress.ts";
import { callTool } from "./tools.ts";
import { WorkTree } from "./work_tree.ts";

type Call = [name: string, args: unknown];

/** Runs the agent against a model that answers the n-th request with `answer(n)`. */
async function run(work_dir: string, max_turns: number, answer: (turn: number) => { text?: string; calls?: Call[] }) {
  const requests: { length: number; messages: ChatMessage[] }[] = [];
  const rows: AgentProgress[] = [];
  const clock = new VirtualClock();
  const onProgress = (row: AgentProgress) => void rows.push(row);
  const reply: typeof fetch = (_input, init) => {
    const body = String(init?.body);
    requests.push({ length: body.length, messages: JSON.parse(body).messages });
    const { text = null, calls = [] } = answer(requests.length);
    const tool_calls = calls.map(([name, args], index) => ({
      id: `${requests.length}-${index}`,
      type: "function",
      function: { name, arguments: JSON.stringify(args) },
    }));
    return Promise.resolve(Response.json({ choices: [{ message: { content: text, tool_calls } }] }));
  };
  const model = new ModelClient({ gateway_url: "http://g", token: "t", model: "m", clock, fetch: reply, onProgress });
  const config = {
    gateway_url: "http://g",
    token: "t",
    model: "m",
    system_prompt: "Rules",
    instruction: "Do it",
    tools: [],
    max_turns,
  };
  const context = { tree: new WorkTree(work_dir), clock };
  const outcome = await runAgent({
    config,
    model,
    callTool: ({ name, arguments: json }) => callTool(name, json, context),
    onProgress,
  });
  return { outcome, requests, rows };
}

async function inFolder(test: (work: string) => Promise<void>): Promise<void> {
  const work = Deno.realPathSync(Deno.makeTempDirSync());
  try {
    await test(work);
  } finally {
    Deno.removeSync(work, { recursive: true });
  }
}

Deno.test("the conversation stays in bounds, keeps the task, and every answer still belongs to a call", () =>
  inFolder(async (work) => {
    Deno.writeTextFileSync(`${work}/long.txt`, `${"x".repeat(90)}\n`.repeat(500));
    const { requests } = await run(work, 40, (turn) => ({
      calls: [["read", { path: "long.txt", first_line: turn }], ["write", {
        path: "out.txt",
        content: "y".repeat(20_000) + turn,
      }]],
    }));
    assertEquals(requests.length, 40);
    for (const { length, messages } of requests) {
      assert(length < 600_000, `${length}`);
      assertStringIncludes(messages[1]!.content!, "Do it");
      const asked = messages.flatMap((message) => message.role === "assistant" ? message.tool_calls ?? [] : []);
      for (const call of asked) JSON.parse(call.function.arguments);
      const answered = messages.flatMap((message) => message.role === "tool" ? [message.tool_call_id] : []);
      assertEquals(answered, asked.map(({ id }) => id));
    }
    const last = requests.at(-1)!.messages.filter(({ role }) => role === "tool");
    assertStringIncludes(last[0]!.content!, "left out");
    assertStringIncludes(last.at(-2)!.content!, "xxx");
  }));

Deno.test("a model that talks is reminded of the tools once, and may go on", () =>
  inFolder(async (work) => {
    const { outcome, requests, rows } = await run(work, 10, (turn) =>
      turn === 1 ? { text: "Let me think." } : turn === 2 ? { calls: [["list", { path: "." }]] } : {
        text: "All done.",
        calls: [["finish", { summary: "Nothing to do" }], ["write", { path: "a", content: "" }]],
      });
    assertEquals(outcome, "finished");
    assertStringIncludes(requests[1]!.messages.at(-1)!.content!, "You called no tool");
    assertEquals(rows.at(-1), { type: "result", outcome: "finished", summary: "Nothing to do", turns: 3, requests: 3 });
  }));

Deno.test("a work folder that vanishes ends the run as failed", () =>
  inFolder(async (work) => {
    const { outcome } = await run(`${work}/gone`, 10, () => ({ calls: [["list", { path: "." }]] }));
    assertEquals(outcome, "failed");
  }));
