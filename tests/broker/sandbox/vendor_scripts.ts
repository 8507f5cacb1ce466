/**
 * What a vendor's API would answer to each agent: first that it write `/workspace/hello.txt`, then that all is done. The
 * shapes are those of recorded answers.
 */

import type { Answer, Seen } from "../gateway/vendor_server.ts";

type Json = Record<string, unknown>;

/** What an agent asked, as far as the answer depends on it. */
interface Asked {
  tools: { name?: string }[];
  /** The whole conversation, as text. */
  conversation: string;
}

function askedIn({ body }: Seen): Asked {
  const json = JSON.parse(body) as { tools?: { name?: string }[] };
  return { tools: json.tools ?? [], conversation: JSON.stringify({ ...json, tools: [] }) };
}

/** Server-sent events; a name of `""` sends data alone. */
function stream(events: [name: string, data: Json | string][]): Answer {
  return (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const [name, data] of events) {
      const text = typeof data === "string" ? data : JSON.stringify(data);
      response.write(`${name === "" ? "" : `event: ${name}\n`}data: ${text}\n\n`);
    }
    response.end();
  };
}

const typed = (type: string, rest: Json): [string, Json] => [type, { type, ...rest }];
const text = (agent: string) => `hello from ${agent}\n`;
const PATH = "/workspace/hello.txt";

function anthropic({ tools, conversation }: Asked): Answer {
  const done = tools.length === 0 || conversation.includes("tool_result");
  const block = done ? { type: "text", text: "" } : { type: "tool_use", id: "toolu_1", name: "Write", input: {} };
  const delta = done
    ? { type: "text_delta", text: "done" }
    : { type: "input_json_delta", partial_json: JSON.stringify({ file_path: PATH, content: text("claude") }) };
  const message = {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "claude-sonnet-4-5",
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: 100, output_tokens: 1, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 },
  };
  return stream([
    typed("message_start", { message }),
    typed("content_block_start", { index: 0, content_block: block }),
    typed("content_block_delta", { index: 0, delta }),
    typed("content_block_stop", { index: 0 }),
    typed("message_delta", {
      delta: { stop_reason: done ? "end_turn" : "tool_use", stop_sequence: null },
      usage: { output_tokens: 20 },
    }),
    typed("message_stop", {}),
  ]);
}

function responses({ tools, conversation }: Asked): Answer {
  const command = `printf 'hello from codex\\n' > ${PATH}`;
  const isNew = tools.some(({ name }) => name === "exec_command");
  const item = conversation.includes("function_call_output")
    ? {
      type: "message",
      id: "m1",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: "done", annotations: [] }],
    }
    : {
      type: "function_call",
      id: "fc1",
      call_id: "c1",
      name: isNew ? "exec_command" : "shell",
      arguments: JSON.stringify(isNew ? { cmd: command } : { command: ["sh", "-c", command] }),
      status: "completed",
    };
  const usage = {
    input_tokens: 100,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 20,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 120,
  };
  const response = { id: "r1", object: "response", model: "gpt-5" };
  return stream([
    typed("response.created", { response: { ...response, status: "in_progress", output: [] } }),
    typed("response.output_item.added", { output_index: 0, item }),
    typed("response.output_item.done", { output_index: 0, item }),
    typed("response.completed", { response: { ...response, status: "completed", output: [item], usage } }),
  ]);
}

function gemini({ conversation }: Asked): Answer {
  const part = conversation.includes("functionResponse")
    ? { text: "done" }
    : { functionCall: { name: "write_file", args: { file_path: PATH, content: text("gemini") } } };
  return stream([["", {
    candidates: [{ content: { role: "model", parts: [part] }, finishReason: "STOP", index: 0 }],
    usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 20, totalTokenCount: 120 },
    modelVersion: "gemini-2.5-pro",
  }]]);
}

function chat({ tools, conversation }: Asked): Answer {
  const done = tools.length === 0 || conversation.includes('"role":"tool"');
  const call = { name: "write", arguments: JSON.stringify({ filePath: PATH, content: text("opencode") }) };
  const delta = done
    ? { role: "assistant", content: "done" }
    : { role: "assistant", tool_calls: [{ index: 0, id: "c1", type: "function", function: call }] };
  const chunk = { id: "x", object: "chat.completion.chunk", created: 1, model: "test-model" };
  return stream([
    ["", { ...chunk, choices: [{ index: 0, delta, finish_reason: null }] }],
    ["", {
      ...chunk,
      choices: [{ index: 0, delta: {}, finish_reason: done ? "stop" : "tool_calls" }],
      usage: { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 },
    }],
    ["", "[DONE]"],
  ]);
}

const SCRIPTS: Readonly<Record<string, (asked: Asked) => Answer>> = {
  claude: anthropic,
  codex: responses,
  gemini,
  opencode: chat,
};

/** The answers for the agent of a label. */
export function vendorScript(label: string): Answer {
  return (response, request, seen) => {
    if (seen.method === "POST") return SCRIPTS[label]!(askedIn(seen))(response, request, seen);
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ data: [], models: [] }));
  };
}
