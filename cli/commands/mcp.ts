/** The command `taskd mcp`: the store's operations as tools of the Model Context Protocol, over stdin and stdout. */

import { systemRandom } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { failure } from "../../lib/protocol/codec.ts";
import { VERSION } from "../../lib/version.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import { Confirmations } from "../mcp/confirmations.ts";
import { loadMcpSdk, type McpCall } from "../mcp/sdk.ts";
import { StdioTransport } from "../mcp/stdio.ts";
import { TOOLS } from "../mcp/tools.ts";
import type { Operations } from "../plan/operations.ts";

/** Serves until its input ends or it is interrupted. Nothing but the protocol is written to stdout. */
export async function run(_args: Args, io: Io, ops: Operations): Promise<undefined> {
  const { CallToolRequestSchema, ListToolsRequestSchema, JSONRPCMessageSchema, Server } = await loadMcpSdk();
  const server = new Server({ name: "taskd", version: VERSION }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: TOOLS.map(({ name, description, effect, input_schema, output_schema }) => ({
      name,
      description,
      inputSchema: input_schema,
      outputSchema: output_schema,
      annotations: { readOnlyHint: effect === "reads", destructiveHint: effect === "destroys", openWorldHint: false },
    })),
  }));
  const confirmations = new Confirmations(systemRandom);
  const running = new Set<Promise<object>>();
  server.setRequestHandler(CallToolRequestSchema, ({ params }) => {
    const answer: Promise<object> = call(params, io, { ops, confirmations }).finally(() => running.delete(answer));
    running.add(answer);
    return answer;
  });
  const ended = Promise.withResolvers<void>();
  server.onclose = () => ended.resolve();
  io.signal.addEventListener("abort", () => ended.resolve(), { once: true });
  const transport = new StdioTransport((value) => JSONRPCMessageSchema.safeParse(value).success);
  transport.ended.then(ended.resolve);
  await server.connect(transport);
  io.note(`taskd: serving ${TOOLS.length} tools on stdin and stdout`);
  await ended.promise;
  // An interrupt does not leave an operation half done.
  await Promise.all(running);
  await server.close();
}

/** Runs one tool; never rejects. */
async function call(
  { name, arguments: given = {} }: McpCall,
  io: Io,
  { ops, confirmations }: { ops: Operations; confirmations: Confirmations },
) {
  const text = (value: object) => ({ content: [{ type: "text" as const, text: JSON.stringify(value) }] });
  try {
    const found = TOOLS.find((tool) => tool.name === name);
    if (!found) throw new TaskdError("unknown_op", `There is no tool ${JSON.stringify(name.slice(0, 100))}`);
    const answer = await found.run(ops, given, confirmations);
    return { ...text(answer), structuredContent: answer };
  } catch (error) {
    if (!(error instanceof TaskdError)) io.note(`taskd: defect: ${(error as Error).stack ?? String(error)}`);
    const { ok: _ok, ...details } = failure(undefined, error);
    return { ...text(details), isError: true };
  }
}
