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

const LOOPBACK = ["127.0.0.1:1", "'[::1]:1'", "localhost:1", "127.9.9.9:1"];
const OUTWARD = ["0.0.0.0:1", "'[::]:1'", "10.0.0.1:1", "host.example:1"];

Deno.test("broker.addr is warned of wherever it listens, with who can come in", async () => {
  const warningsOf = async (addr: string) =>
    startWarnings((await load({ config: `broker: { addr: ${addr} }` })).settings);
  for (const [addresses, who] of [[LOOPBACK, "every user of this machine"], [OUTWARD, "other machines"]] as const) {
    for (const addr of addresses) {
      const [text, ...more] = await warningsOf(addr);
      assertEquals([text?.includes(who), text?.includes("broker.api_addr"), more], [true, true, []], addr);
    }
  }
});

Deno.test("open metrics on other addresses are warned of, and tokens without TLS", async () => {
  for (const addr of LOOPBACK) {
    assertEquals(await warned(`broker: { metrics_addr: ${addr} }`), [], addr);
    assertEquals(await warned(`broker: { api_addr: ${addr} }`), [], addr);
  }
  for (const addr of OUTWARD) {
    assertEquals((await warned(`broker: { metrics_addr: ${addr} }`)).length, 1, addr);
    assertEquals(await warned(`broker: { metrics_addr: ${addr}, metrics_token_env: SCRAPE }`), [], addr);
    assertEquals((await warned(`broker: { api_addr: ${addr}, api_allow_non_loopback: true }`)).length, 1, addr);
  }
});

Deno.test("an endpoint whose model has no price is warned of", async () => {
  const compat = (rest: string) => warned(`compat: { base_url: https://e.example, ${rest} }`);
  assertEquals((await compat("model: m")).length, 1);
  assertEquals((await compat("prices: { n: { input: 1, output: 1 } }, model: m")).length, 1);
  assertEquals(await compat("prices: { m: { input: 1, output: 1 } }, model: m"), []);
  assertEquals(await compat("prices: { default: { input: 1, output: 1 } }"), []);
});
