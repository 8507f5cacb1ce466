import { assertEquals } from "@std/assert";
import { load } from "../../tests/broker/settings/harness.ts";
import { startWarnings } from "./warnings.ts";

const warned = async (config: string) =>
  startWarnings((await load({ config })).settings).map((text) => text.slice(0, 40));

Deno.test("the defaults cause no warning", async () => {
  assertEquals(await warned(""), []);
  assertEquals(await warned("global_window: 0"), []);
  assertEquals(await warned("global_budget_usd: 5\nglobal_max_tasks: 5"), []);
});

// conformance: b8.total_warning
Deno.test("a limb that is set in total mode is warned of by its name", async () => {
  const warningsOf = async (config: string) =>
    startWarnings((await load({ config: `global_window: 0s\n${config}` })).settings);
  for (const limb of ["global_budget_usd", "global_max_tasks"]) {
    const [text] = await warningsOf(`${limb}: 5`);
    assertEquals(text?.startsWith(`global_window is 0, so nothing ages out of ${limb}: once`), true, text);
  }
  const [both] = await warningsOf("global_budget_usd: 5\nglobal_max_tasks: 5");
  assertEquals(both?.includes("global_budget_usd and global_max_tasks"), true);
});

Deno.test("a listener that other machines can reach is warned of", async () => {
  for (const addr of ["127.0.0.1:1", "'[::1]:1'", "localhost:1", "127.9.9.9:1"]) {
    assertEquals(await warned(`broker: { addr: ${addr} }`), [], addr);
  }
  for (const addr of ["0.0.0.0:1", "'[::]:1'", "10.0.0.1:1", "host.example:1"]) {
    assertEquals((await warned(`broker: { addr: ${addr} }`)).length, 1, addr);
  }
});

Deno.test("an endpoint whose model has no price is warned of", async () => {
  const compat = (rest: string) => warned(`compat: { base_url: https://e.example, ${rest} }`);
  assertEquals((await compat("model: m")).length, 1);
  assertEquals((await compat("prices: { n: { input: 1, output: 1 } }, model: m")).length, 1);
  assertEquals(await compat("prices: { m: { input: 1, output: 1 } }, model: m"), []);
  assertEquals(await compat("prices: { default: { input: 1, output: 1 } }"), []);
});
