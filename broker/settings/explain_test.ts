import * as v from "valibot";
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { load } from "../../tests/broker/settings/harness.ts";
import { compareWithLive, explainTable, policyView, verdictLine } from "./explain.ts";
import { POLICY_VIEW } from "./policy_view.ts";
import { canonicalJson } from "../../lib/text/canonical_json.ts";
import { SETTING_PATHS } from "./settings.ts";

// conformance: b3.sources b4.explain.table
Deno.test("policy explain lists every setting with its value as written and its source", async () => {
  const resolved = await load({
    config: "task_timeout: 5400s\ncompat: { prices: { m: { input: 1, output: 2 } } }",
    env: { TASKD_TASK_BUDGET_USD: "3.5" },
  });
  const rows = explainTable(resolved.fields());
  assertEquals(rows.map(([setting]) => setting), [...SETTING_PATHS, "egress_config"]);
  const row = (name: string) => rows.find(([setting]) => setting === name);
  assertEquals(row("task_timeout"), ["task_timeout", "1h30m", "config.yaml"]);
  assertEquals(row("task_budget_usd"), ["task_budget_usd", "3.5", "env:TASKD_TASK_BUDGET_USD"]);
  assertEquals(row("compat.prices")?.[1], '{"m":{"input":1,"output":2}}');
  assertEquals(row("default_model"), ["default_model", '""', "default"]);
  assertEquals(row("aggregate_window")?.[1], "24h");
  assertEquals(row("approval_timeout")?.[1], "0s");
});

Deno.test("equal values are in sync, wherever they come from", async () => {
  const local = await load({ config: "task_budget_usd: 2.0\nci: { poll_interval: 0 }" });
  const live = policyView(await load({ env: { TASKD_TASK_BUDGET_USD: "2", TASKD_CI_POLL_INTERVAL: "1m" } }));
  const comparison = compareWithLive(local, live);
  assertEquals(comparison.in_sync, true);
  assertEquals(verdictLine(comparison), "daemon: in sync");
});

// conformance: b4.explain.hash
Deno.test("the listener settings cause no divergence", async () => {
  const local = await load({ env: { BROKER_SOCKET: "/x.sock", BROKER_ADDR: "127.0.0.1:1", TMPDIR: "/var/tmp" } });
  assertEquals(compareWithLive(local, policyView(await load())).in_sync, true);
});

// conformance: b2.diff_policy.compared b4.explain.hash
Deno.test("every other setting diverges, also in groups, and the verdict names it", async () => {
  const live = policyView(await load());
  const table: [string, string][] = [
    ["task_budget_usd: 5", "task_budget_usd"],
    ["notifications: false", "notifications"],
    [
      "diff_policy: { max_files_changed: 1, blocked_paths: ['a/**'] }",
      "diff_policy.max_files_changed, diff_policy.blocked_paths",
    ],
    ["profiles: { repos: { a.example/b/c: {} } }", "profiles.repos"],
    ["compat: { model: m }", "compat.model"],
    ["ci: { watch: true }", "ci.watch"],
    ["upstreams: { vendor_a: http://localhost:1 }", "upstreams.vendor_a"],
  ];
  for (const [config, names] of table) {
    const comparison = compareWithLive(await load({ config }), live);
    assertEquals(comparison.in_sync, false);
    assertEquals(verdictLine(comparison), `daemon: divergent: ${names} (start again to apply the configuration)`);
  }
});

Deno.test("an egress list that changed since the broker started diverges", async () => {
  const live = policyView(await load({ egress: "allow: [{ host: a.example }]" }));
  const local = await load({ egress: "allow: [{ host: a.example, ports: [443, 80] }]" });
  assertEquals(compareWithLive(local, live).in_sync, false);
  const again = await load({ egress: "allow:\n- ports: [443]\n  host: A.example.\n" });
  assertEquals(compareWithLive(again, live).in_sync, true);
});

Deno.test("a comparison survives JSON, and a broker of another version diverges", async () => {
  const local = await load({
    config: "compat: { prices: { b: { input: 1, output: 2 }, a: { output: 1, input: 2 } } }",
  });
  const comparison = compareWithLive(local, v.parse(POLICY_VIEW, JSON.parse(JSON.stringify(policyView(local)))));
  assertEquals(JSON.parse(JSON.stringify(comparison)).in_sync, true);
  assertEquals(Object.keys(comparison), ["local", "live", "in_sync"]);
  const other = { ...policyView(local), hash: "0".repeat(64) };
  assertEquals(verdictLine(compareWithLive(local, other)).startsWith("daemon: divergent: "), true);
  assertEquals(compareWithLive(local, null), { local: policyView(local), live: null, in_sync: null });
});

Deno.test("an invalid answer is not compared, and one with unknown settings is", async () => {
  const hash = "0".repeat(64);
  for (
    const answer of [
      null,
      "in sync",
      {},
      { fields: [], hash: "short" },
      { fields: [{ setting: "a", value: null, source: "default" }], hash },
      { fields: [{ setting: 1, value: 1, source: "default" }], hash },
      { fields: {}, hash },
    ]
  ) assertEquals(v.is(POLICY_VIEW, answer), false, JSON.stringify(answer));
  const local = await load();
  const strange = { setting: "\u001b[2J", value: { __proto__: [1] }, source: "default" };
  const live = v.parse(POLICY_VIEW, { fields: [...local.fields(), strange], hash });
  assertEquals(
    verdictLine(compareWithLive(local, live)),
    "daemon: divergent: \\x1b[2J (start again to apply the configuration)",
  );
});

Deno.test("the hash depends on every value and not on the order of keys", async () => {
  const hash = async (config: string) => (await load({ config })).hash;
  const [one, other] = ["a: { input: 1, output: 2 }", "b: { input: 3, output: 4 }"];
  assertEquals(
    await hash(`compat: { prices: { ${one}, ${other} } }`),
    await hash(`compat: { prices: { ${other}, ${one} } }`),
  );
  assertNotEquals(
    await hash("diff_policy: { blocked_paths: [a, b] }"),
    await hash("diff_policy: { blocked_paths: [b, a] }"),
  );
  assertEquals(canonicalJson({ b: [{ d: 1, c: "x" }], a: true }), '{"a":true,"b":[{"c":"x","d":1}]}');
  assert(/^[0-9a-f]{64}$/.test(await hash("")));
});

Deno.test("policy explain shows the name of a key's variable and never the key", async () => {
  const env = { VENDORA_API_KEY: "sk-secret-1", MY_KEY: "sk-secret-2", ANTHROPIC_API_KEY: "sk-secret-3" };
  const resolved = await load({ config: "compat: { api_key_env: MY_KEY }", env });
  const shown = JSON.stringify([explainTable(resolved.fields()), policyView(resolved)]);
  assert(shown.includes("MY_KEY") && !shown.includes("sk-secret"));
});
