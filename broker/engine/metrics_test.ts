import { existsSync } from "@std/fs/exists";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { settlement } from "../../tests/broker/admission/site.ts";
import { SeededRandom } from "../../tests/support/writers/random.ts";
import type { CeilingView } from "../api/wire.ts";
import { REASONS } from "../egress/reasons.ts";
import { BrokerMetrics, type Standing } from "./metrics.ts";
import {
  anyLife,
  encodeAll,
  foldRows,
  someOrder,
  staged,
  START_MS,
  TO_THE_GATE,
} from "../../tests/broker/task/lives.ts";
import type { TaskEvent } from "../task/rows.ts";
import { OUTCOMES } from "../task/stages.ts";
import { EMPTY_HEAD } from "../task/trace.ts";

const PROMTOOL = "/usr/bin/promtool";
const DOCS = new URL("../../docs/monitoring/", import.meta.url).pathname;
const missing = !existsSync(PROMTOOL);
const why = missing ? " (ignored: prometheus is not installed)" : "";

async function promtool(args: string[], input = ""): Promise<{ code: number; text: string }> {
  const child = new Deno.Command(PROMTOOL, { args, stdin: "piped", stdout: "piped", stderr: "piped" }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(input));
  await writer.close();
  const { code, stdout, stderr } = await child.output();
  return { code, text: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
}

const OFF: CeilingView = {
  enabled: false,
  window: "24h",
  window_ms: 86_400_000,
  budget_usd: 0,
  spent_usd: 0,
  headroom_usd: null,
  max_tasks: 0,
  recorded_starts: 0,
  in_flight_starts: 0,
  starts: 0,
  headroom_starts: null,
  usd: { blocked: false, reason: "" },
  tasks: { blocked: false, reason: "" },
  damaged: 0,
  oldest_entry: null,
  newest_entry: null,
};
const IDLE: Standing = { running: 0, pending: 0, slots: 2, ceiling: OFF };

/** Passes these events to the metrics, as the task store does. */
function feed(metrics: BrokerMetrics, events: readonly TaskEvent[]): void {
  const rows = encodeAll(events, START_MS).map(({ row }) => row);
  for (const [index, row] of rows.entries()) {
    metrics.changed({ rows: [row], record: foldRows(rows.slice(0, index + 1)), head: EMPTY_HEAD });
  }
}

const samples = (text: string, name: string) =>
  text.split("\n").filter((line) =>
    line.startsWith(`taskd_broker_${name}{`) || line.startsWith(`taskd_broker_${name} `)
  );

Deno.test("what is known beforehand stands at 0, so that its first event is an increase", async () => {
  const text = await new BrokerMetrics("1.2.3", () => IDLE).text();
  for (const outcome of Object.keys(OUTCOMES)) {
    assertStringIncludes(text, `taskd_broker_tasks_ended_total{outcome="${outcome}"} 0\n`);
  }
  assertEquals(samples(text, "egress_decisions_total").length, Object.keys(REASONS).length);
  assertStringIncludes(text, 'taskd_broker_build_info{version="1.2.3"} 1\n');
  assertStringIncludes(text, 'taskd_broker_starts_refused_total{code="ceiling_reached"} 0\n');
});

Deno.test("spend and requests are counted by lane and auth; an invalid figure adds nothing", async () => {
  const metrics = new BrokerMetrics("dev", () => IDLE);
  metrics.settled(settlement("a", 0.5));
  metrics.settled(settlement("a", 0.25, { unmetered: true, ending: "client_gone", duration_ms: 1_500 }));
  metrics.settled(settlement("a", 2, { lane: "vendor_b", auth: "subscription" }));
  for (const usd of [Number.NaN, -1, Infinity]) metrics.settled(settlement("a", usd));
  const text = await metrics.text();
  for (
    const line of [
      'gateway_spend_usd_total{lane="vendor_a",auth="api_key"} 0.75',
      'gateway_spend_usd_total{lane="vendor_b",auth="subscription"} 2',
      'gateway_unmetered_requests_total{lane="vendor_a",auth="api_key"} 1',
      'gateway_requests_total{lane="vendor_a",auth="api_key",ending="client_gone"} 1',
      'gateway_request_duration_seconds_bucket{le="1",lane="vendor_a"} 4',
      'gateway_request_duration_seconds_count{lane="vendor_a"} 5',
    ]
  ) assertStringIncludes(text, `taskd_broker_${line}\n`);
});

Deno.test("a stage's duration counts when it is left, and is never below zero", async () => {
  const metrics = new BrokerMetrics("dev", () => IDLE);
  feed(metrics, [{ type: "created", task: someOrder("a1".repeat(16)) }, ...TO_THE_GATE.map(staged)]);
  let text = await metrics.text();
  const sum = (stage: string) =>
    samples(text, "stage_duration_seconds_sum").find((line) => line.includes(`"${stage}"`));
  assertEquals(sum("staging"), 'taskd_broker_stage_duration_seconds_sum{stage="staging"} 1');
  assertEquals(sum("awaiting_approval"), undefined);
  const rows = encodeAll([{ type: "created", task: someOrder("b2".repeat(16)) }, staged(TO_THE_GATE[0]!)], START_MS);
  const record = foldRows(rows.map(({ row }) => row));
  const back = { ...rows[1]!.row, ts: new Date(START_MS - 9_000_000).toISOString() };
  metrics.changed({ rows: [rows[0]!.row, back], record, head: EMPTY_HEAD });
  text = await metrics.text();
  assertEquals(sum("admission"), 'taskd_broker_stage_duration_seconds_sum{stage="admission"} 1');
});

Deno.test("a task that an earlier broker left is timed from its first move here on", async () => {
  const metrics = new BrokerMetrics("dev", () => IDLE);
  const events = [{ type: "created" as const, task: someOrder("c3".repeat(16)) }, ...TO_THE_GATE.map(staged)];
  const rows = encodeAll(events, START_MS).map(({ row }) => row);
  metrics.changed({ rows: [rows.at(-1)!], record: foldRows(rows), head: EMPTY_HEAD });
  assertEquals(samples(await metrics.text(), "stage_duration_seconds_count"), []);
});

Deno.test("limbs that are off have no headroom, which is something else than none left", async () => {
  let standing: Standing = IDLE;
  const metrics = new BrokerMetrics("dev", () => standing);
  assertEquals(samples(await metrics.text(), "ceiling_headroom_usd"), []);
  const usd = { blocked: true, reason: "reached" };
  standing = {
    ...IDLE,
    ceiling: { ...OFF, headroom_usd: 0, usd, damaged: 2 },
    queue: [{ state: "queued" }, { state: "queued" }, { state: "completed" }],
  };
  const text = await metrics.text();
  for (
    const line of [
      "ceiling_headroom_usd 0",
      'ceiling_blocked{limb="usd"} 1',
      'ceiling_blocked{limb="tasks"} 0',
      "ceiling_damaged_lines 2",
      'queue_items{state="queued"} 2',
      'queue_items{state="awaiting_ci"} 0',
    ]
  ) assertStringIncludes(text, `taskd_broker_${line}\n`);
  assertEquals(samples(text, "queue_items").length, 4);
});

Deno.test("nothing that tasks do makes more series than the tables have", async () => {
  const metrics = new BrokerMetrics("dev", () => IDLE);
  const random = new SeededRandom(3);
  for (let n = 0; n < 200; n++) {
    const id = n.toString(16).padStart(32, "0");
    feed(metrics, anyLife(id, random));
    metrics.settled(settlement(id, 1, { model: `model-${n}` }));
  }
  const text = await metrics.text();
  assert(text.split("\n").length < 400, `${text.split("\n").length} lines`);
  assert(!/model-|[0-9a-f]{32}/.test(text));
});

Deno.test({
  name: `promtool finds nothing wrong with the broker's metrics${why}`,
  ignore: missing,
  fn: async () => {
    const metrics = new BrokerMetrics("dev", () => ({ ...IDLE, queue: [{ state: "queued" as const }] }));
    feed(metrics, anyLife("a1".repeat(16), new SeededRandom(1)));
    metrics.started();
    metrics.ended("pushed");
    metrics.refused("at_capacity");
    metrics.settled(settlement("a", 1));
    metrics.decided({ reason: "not_listed" });
    assertEquals(await promtool(["check", "metrics"], await metrics.text()), { code: 0, text: "" });
  },
});

Deno.test("the dashboard and the alerts ask for families that exist", async () => {
  const metrics = new BrokerMetrics("dev", () => ({
    ...IDLE,
    queue: [{ state: "queued" as const }],
    ceiling: { ...OFF, headroom_usd: 1, headroom_starts: 1 },
  }));
  feed(metrics, [{ type: "created", task: someOrder("a1".repeat(16)) }, ...TO_THE_GATE.map(staged)]);
  metrics.settled(settlement("a", 1));
  const text = await metrics.text();
  const families = new Set([...text.matchAll(/^(taskd_broker_\w+)/gm)].map(([name]) => name));
  for (const file of ["grafana-broker.json", "alerts-broker.yml"]) {
    const asked = new Set(
      [...Deno.readTextFileSync(`${DOCS}${file}`).matchAll(/taskd_broker_\w+/g)].map(([name]) => name),
    );
    assert(asked.size > 5, file);
    assertEquals([...asked].filter((name) => !families.has(name)), [], file);
  }
});

Deno.test({
  name: `promtool accepts docs/monitoring/alerts-broker.yml, and its rules fire when they should${why}`,
  ignore: missing,
  fn: async () => {
    const { code, text } = await promtool(["check", "rules", `${DOCS}alerts-broker.yml`]);
    assertEquals(code, 0, text);
    const place = await Deno.makeTempDir();
    try {
      const series = (name: string, values: string) => ({ series: `taskd_broker_${name}`, values });
      const fires = (alertname: string, eval_time: string, ...labels: Record<string, string>[]) => ({
        alertname,
        eval_time,
        exp_alerts: labels.map((exp_labels) => ({ exp_labels })),
      });
      const broker = 'job="taskd-broker",instance="a"';
      const suite = {
        rule_files: [`${DOCS}alerts-broker.yml`],
        evaluation_interval: "1m",
        tests: [{
          interval: "1m",
          input_series: [
            series(`ceiling_blocked{limb="usd",${broker}}`, "0x10 1x20"),
            series(`ceiling_headroom_usd{${broker}}`, "5x40"),
            series(`gateway_spend_usd_total{lane="vendor_a",auth="api_key",${broker}}`, "0+1x40"),
            series(`tasks_ended_total{outcome="agent_failed",${broker}}`, "0+1x60"),
            series(`tasks_ended_total{outcome="pushed",${broker}}`, "0x60"),
          ],
          alert_rule_test: [
            fires("TaskdCeilingRefuses", "9m"),
            fires("TaskdLedgerDamaged", "20m"),
            fires("TaskdTasksFail", "5m"),
          ],
        }],
      };
      // JSON is YAML.
      Deno.writeTextFileSync(`${place}/rules.yml`, JSON.stringify(suite));
      const quiet = await promtool(["test", "rules", `${place}/rules.yml`]);
      assertEquals(quiet.code, 0, quiet.text);
      const firing = ["TaskdCeilingRefuses", "TaskdCeilingNear", "TaskdTasksFail"];
      suite.tests[0]!.alert_rule_test = firing.map((name) => fires(name, "30m"));
      Deno.writeTextFileSync(`${place}/rules.yml`, JSON.stringify(suite));
      const loud = await promtool(["test", "rules", `${place}/rules.yml`]);
      assertEquals(loud.code, 1, loud.text);
      for (const name of firing) assertStringIncludes(loud.text, `alertname: ${name}, time: 30m`);
    } finally {
      await Deno.remove(place, { recursive: true });
    }
  },
});
