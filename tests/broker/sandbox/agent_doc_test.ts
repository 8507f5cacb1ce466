import { assertEquals } from "@std/assert";
import { OUTCOMES } from "../../../broker/agent/progress.ts";
import { TOOLS } from "../../../broker/agent/tools.ts";

Deno.test("docs/reference/built_in_agent.md names every tool, argument, outcome and exit code", async () => {
  const text = await Deno.readTextFile(new URL("../../../docs/reference/built_in_agent.md", import.meta.url));
  const rows = [...text.matchAll(/^- `(\w+)` \(([^)]*)\):/gm)].map(([, name, second]) => [name!, second!]);
  const tools = Object.entries(TOOLS).map(([name, { parameters }]) => [
    name,
    Object.keys(parameters).map((key) => `\`${key}\``).join(", "),
  ]);
  const outcomes = Object.entries(OUTCOMES).map(([name, code]) => [name, String(code)]);
  assertEquals(rows, [...tools, ...outcomes]);
});
