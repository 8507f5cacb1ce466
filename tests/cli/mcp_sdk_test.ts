import { assertEquals } from "@std/assert";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import {
  type CallToolRequest,
  CallToolRequestSchema,
  JSONRPCMessageSchema,
  ListToolsRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import type { StdioTransport } from "../../cli/mcp/stdio.ts";
import { loadMcpSdk, type McpCall, type McpSdk, type McpServer } from "../../cli/mcp/sdk.ts";

// The product names no type of the SDK, for the reason that sdk.ts gives: this calls the SDK's own types as cli/ does.

Deno.test("the types of the MCP SDK that are written down are the SDK's own", async () => {
  const make: (...args: ConstructorParameters<McpSdk["Server"]>) => Omit<McpServer, "setRequestHandler" | "connect"> = (
    self,
    options,
  ) => new Server(self, options);
  const connect: (server: Server, transport: StdioTransport & Transport) => ReturnType<McpServer["connect"]> = (
    server,
    transport,
  ) => server.connect(transport);
  const call = ({ params: { name, arguments: given } }: CallToolRequest): McpCall => ({
    name,
    ...(given === undefined ? {} : { arguments: given }),
  });
  const parts: Omit<McpSdk, "Server"> = { JSONRPCMessageSchema, CallToolRequestSchema, ListToolsRequestSchema };
  const server = make({ name: "taskd", version: "1" }, { capabilities: { tools: {} } });
  await server.close();
  assertEquals(typeof connect, "function");
  const request = CallToolRequestSchema.parse({ method: "tools/call", params: { name: "list", arguments: { a: 1 } } });
  assertEquals(call(request), { name: "list", arguments: { a: 1 } });
  const loaded = await loadMcpSdk();
  for (const [name, part] of Object.entries({ ...parts, Server })) assertEquals(loaded[name as keyof McpSdk], part);
});
