/**
 * The SDK of the Model Context Protocol, loaded when the command that speaks it runs.
 *
 * The runtime fetches every package that a literal `import()` or a type names: `deno install` resolves types as well.
 * This one has some ninety packages, so its name is computed, and what is used of it is written down here;
 * tests/cli/mcp_sdk_test.ts compares that with the SDK's own types. `deno task compile` includes it by name.
 */

export interface McpServer {
  setRequestHandler(
    schema: McpSdk["CallToolRequestSchema"] | McpSdk["ListToolsRequestSchema"],
    handler: (request: { params: McpCall }) => object | Promise<object>,
  ): void;
  onclose?: (() => void) | undefined;
  connect(transport: object): Promise<void>;
  close(): Promise<void>;
}

export interface McpCall {
  name: string;
  arguments?: Record<string, unknown>;
}

export interface McpSdk {
  Server: new (self: { name: string; version: string }, options: { capabilities: { tools: object } }) => McpServer;
  CallToolRequestSchema: object;
  ListToolsRequestSchema: object;
  JSONRPCMessageSchema: { safeParse(value: unknown): { success: boolean } };
}

/** With its version: an import map does not apply to a computed name in an installed package. */
export const MCP_SDK: string = "npm:@modelcontextprotocol/sdk@1.32.2";

/** Loads the SDK; the first time it may have to be downloaded. */
export async function loadMcpSdk(): Promise<McpSdk> {
  const parts = ["server/index.js", "types.js"].map((part) => import(`${MCP_SDK}/${part}`));
  return Object.assign({}, ...await Promise.all(parts));
}
