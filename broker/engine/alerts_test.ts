/**
 * The shipped alerts of the broker: what its metrics show while something is wrong raises the alert for it, by promtool,
 * and what they show of good days raises none.
 */

import { existsSync } from "@std/fs/exists";
import { assertEquals } from "@std/assert";
import { parse } from "@std/yaml/parse";
import { settlement } from "../../tests/broker/admission/site.ts";
import { PROMTOOL, Recording } from "../../tests/support/recording.ts";
import type { CeilingView } from "../api/wire.ts";
import { BrokerMetrics, type Standing } from "./metrics.ts";

const missing = existsSync(PROMTOOL) ? "" : " (ignored: promtool is not installed)";
const ALERTS = (parse(
  await Deno.readTextFile(new URL("../../docs/monitoring/alerts-broker.yml", import.meta.url)),
) as { groups: { rules: { alert: string }[] }[] }).groups.flatMap(({ rules }) => rules.map(({ alert }) => alert));

/** Five hours, a scrape a minute. */
const MINUTES = 300;

const CEILING: CeilingView = {
  enabled: true,
  window: "24h",
  window_ms: 86_400_000,
  budget_usd: 100,
  spent_usd: 1,
  headroom_usd: 99,
  max_tasks: 100,
  recorded_starts: 0,
  in_flight_starts: 0,
  starts: 0,
  headroom_starts: 100,
  usd: { blocked: false, reason: "" },
  tasks: { blocked: false, reason: "" },
  damaged: 0,
  oldest_entry: null,
  newest_entry: null,
};

/** The alerts after `MINUTES` in which `happens` is called once for each. */
async function raised(
  happens: (metrics: BrokerMetrics, standing: Standing, minute: number) => void | "unreachable",
): Promise<string[]> {
  const standing: Standing = { running: 0, pending: 0, slots: 2, ceiling: { ...CEILING } };
  const metrics = new BrokerMetrics("dev", () => standing);
  const recording = new Recording("taskd-broker", 1 / 60);
  for (let minute = 0; minute < MINUTES; minute++) {
    const answer = happens(metrics, standing, minute);
    recording.add(answer === "unreachable" ? undefined : await metrics.text());
  }
  return await recording.firing("alerts-broker.yml", ALERTS);
}

/** A day on which every task succeeds. */
function goodMinute(metrics: BrokerMetrics): void {
  metrics.started();
  metrics.settled(settlement("good", 0.01));
  metrics.ended("pushed");
}

/** Each alert, and what raises it. */
const INCIDENTS: Record<string, Parameters<typeof raised>[0]> = {
  TaskdBrokerDown: (metrics, _, minute) => minute > 290 ? "unreachable" : goodMinute(metrics),
  TaskdCeilingRefuses: (_metrics, standing) => {
    standing.ceiling.usd = { blocked: true, reason: "reached" };
  },
  TaskdLedgerDamaged: (_metrics, standing) => {
    standing.ceiling.damaged = 1;
  },
  TaskdCeilingNear: (metrics, standing) => {
    metrics.settled(settlement("near", 1));
    standing.ceiling.headroom_usd = 20;
  },
  TaskdTasksFail: (metrics, _, minute) => metrics.ended(minute % 4 === 0 ? "pushed" : "agent_failed"),
  TaskdSpendUnmetered: (metrics) => metrics.settled({ ...settlement("free", 0), unmetered: true }),
  TaskdVendorFails: (metrics, _, minute) =>
    metrics.settled({ ...settlement("v", 0.01), ending: minute % 3 === 0 ? "upstream_failed" : "complete" }),
  TaskdChangesWait: (_metrics, standing) => {
    standing.waiting = new Map([["data_waits", ["a task"]]]);
  },
  TaskdApprovalsWait: (_metrics, standing) => {
    standing.pending = 1;
  },
};

Deno.test({
  name: `each alert of the broker is raised by its incident alone, and none by good days${missing}`,
  ignore: missing !== "",
  fn: async () => {
    assertEquals(Object.keys(INCIDENTS), ALERTS);
    assertEquals(await raised(goodMinute), []);
    for (const [alert, happens] of Object.entries(INCIDENTS)) assertEquals(await raised(happens), [alert]);
  },
});
