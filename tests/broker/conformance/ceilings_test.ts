/**
 * Where the two ceilings answer differently: what neither can know.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { BrokerBench } from "../engine/bench.ts";
import { DAY_MS, figures, HOUR_MS, refusal, settlement, Site, START } from "../admission/site.ts";

const ended_at = "2026-01-01T00:00:00.000Z";

/** Tasks that really cost something which was not metered. */
async function runUnmetered(site: Site, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    const { id, claim } = site.begin();
    site.admission.settled(settlement(id, 0, { unmetered: true }));
    await claim.end({ outcome: "pushed", ended_at, spend: figures(0, false) });
  }
}

// conformance: b2.ceiling.cannot_tell
Deno.test("the aggregate ceiling admits unmetered spend and ignores a foreign ledger", async () => {
  await using site = await Site.make({ aggregate_budget_usd: 0.01, max_concurrent_tasks: 9 });
  await runUnmetered(site, 20);
  assertEquals(refusal(site.admission), undefined);
  Deno.mkdirSync(`${site.audit_root}/global`, { recursive: true });
  Deno.writeTextFileSync(site.ledger, "\u0000 no ledger\n");
  await site.restart();
  assertEquals(refusal(site.admission), undefined);
  // The same file under a global ceiling.
  site.settings = { ...site.settings, global_budget_usd: 100 };
  await site.restart();
  assertStringIncludes(refusal(site.admission)!.message, "global ceiling");
});

// conformance: b8.undercount b2.ceiling.starts
Deno.test("the task limb counts unmetered, unpriced and subscribed tasks as starts", async () => {
  await using site = await Site.make({ global_budget_usd: 100, global_max_tasks: 4, max_concurrent_tasks: 4 });
  await runUnmetered(site, 2);
  await site.run(0, { ...START, lane: "vendor_b", auth: "subscription", agent: "agent_b" });
  await site.run(0, { ...START, lane: "compat", agent: "agent_d" });
  const { spent_usd, starts, usd, tasks } = site.admission.ceiling();
  assertEquals([spent_usd, starts, usd.blocked, tasks.blocked], [0, 4, false, true]);
  assertStringIncludes(refusal(site.admission)!.message, "task limb");
});

// conformance: b2.ceiling.both b2.ceiling.aggregate
Deno.test("a start that either ceiling refuses is refused, whichever is the stricter", async () => {
  for (const [aggregate_budget_usd, global_budget_usd, named] of [[1, 9, "aggregate"], [9, 1, "global"]] as const) {
    await using site = await Site.make({ aggregate_budget_usd, global_budget_usd, max_concurrent_tasks: 9 });
    assertEquals(refusal(site.admission), undefined);
    await site.run(1);
    assertStringIncludes(refusal(site.admission)!.message, `${named}_budget_usd`);
    const other = refusal(site.admission, { ...START, lane: "vendor_c", agent: "agent_c" });
    assertEquals(other === undefined, named === "aggregate");
  }
});

// conformance: b2.effect.aggregate_budget_usd b2.effect.global_budget_usd
Deno.test("a USD ceiling is reached by its exact sum, in any fractions, and not by a cent less", async () => {
  for (const tasks of [3, 8, 10]) {
    for (const ceiling of ["aggregate", "global"] as const) {
      await using site = await Site.make({ [`${ceiling}_budget_usd`]: tasks / 10, max_concurrent_tasks: 9 });
      for (let n = 1; n < tasks; n++) await site.run(0.1);
      await site.run(0.09);
      assertEquals(refusal(site.admission), undefined);
      await site.run(0.01);
      assertStringIncludes(refusal(site.admission)!.message, `$${(tasks / 10).toFixed(2)} of`);
    }
  }
});

// conformance: b2.effect.aggregate_window b2.effect.global_window
Deno.test("spend ages out of either ceiling after the configured window, and no earlier", async () => {
  for (const [window_ms, shown] of [[HOUR_MS, "1h"], [3 * DAY_MS, "3d"]] as const) {
    for (const ceiling of ["aggregate", "global"] as const) {
      const limits = { [`${ceiling}_budget_usd`]: 1, [`${ceiling}_window`]: window_ms };
      await using site = await Site.make({ ...limits, max_concurrent_tasks: 9 });
      await site.run(1);
      site.clock.advance(window_ms - 1);
      assertStringIncludes(refusal(site.admission)!.message, `in the last ${shown}`);
      // The aggregate ceiling distinguishes thousandths of its window.
      site.clock.advance(window_ms / 1_000);
      assertEquals(refusal(site.admission), undefined, `${ceiling}, ${shown}`);
    }
  }
});

// conformance: b8.total_mode b2.ceiling.clear b2.ceiling.total
Deno.test("an exhausted total stays so over restarts, until a limb is raised or the ledger is removed", async () => {
  const spent = { global_window: 0, global_budget_usd: 1, global_max_tasks: 0, max_concurrent_tasks: 9 };
  await using site = await Site.make(spent);
  await site.run(1);
  for (let n = 0; n < 3; n++) {
    await site.restart();
    assertStringIncludes(refusal(site.admission)!.message, "does not age out");
  }
  site.settings = { ...site.settings, global_budget_usd: 2 };
  await site.restart();
  assertEquals(refusal(site.admission), undefined);
  site.settings = { ...site.settings, global_budget_usd: 1 };
  await site.restart();
  assert(refusal(site.admission));
  await site.restart(() => Deno.removeSync(site.ledger));
  assertEquals(refusal(site.admission), undefined);
});

// conformance: b8.total_warning
Deno.test("a broker that boots with a limb armed in total mode warns of it, and of no other", async () => {
  for (
    const [config, warned] of [["global_window: 0s\nglobal_max_tasks: 5\n", 1], ["global_max_tasks: 5\n", 0]] as const
  ) {
    await using bench = await BrokerBench.start({ config });
    const warnings = bench.lines.filter((line) => line.includes("nothing ages out of global_max_tasks"));
    assertEquals(warnings.map((line) => JSON.parse(line).level), Array(warned).fill("warn"));
  }
});
