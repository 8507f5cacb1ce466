/**
 * The SDK of the Model Context Protocol, loaded when the command that speaks it runs.
 *
 * The runtime fetches every package that a literal `import()` names before the first line of a program runs. This one
 * has some ninety packages, so its name is computed; `deno task compile` includes it by name.
 */

/** The parts of the SDK that are used. */
export type McpSdk =
  & Pick<typeof import("@modelcontextprotocol/sdk/server/index.js"), "Server">
  & Pick<typeof import("@modelcontextprotocol/sdk/server/stdio.js"), "StdioServerTransport">
  & Pick<typeof import("@modelcontextprotocol/sdk/types.js"), "CallToolRequestSchema" | "ListToolsRequestSchema">;

/** With its version: an import map does not apply to a computed name in an installed package. */
export const MCP_SDK: string = "npm:@modelcontextprotocol/sdk@1.32.2";

/** Loads the SDK; the first time it may have to be downloaded. */
export async function loadMcpSdk(): Promise<McpSdk> {
  const parts = ["server/index.js", "server/stdio.js", "types.js"].map((part) => import(`${MCP_SDK}/${part}`));
  return Object.assign({}, ...await Promise.all(parts));
}
