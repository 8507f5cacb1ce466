/**
 * The command `taskd stats`: reads the audit directory itself, so it works without a
 * broker; only the headroom of the global ceiling is the broker's to tell.
 */

import { LANES, laneText } from "../../broker/agents.ts";
import type { CeilingView } from "../../broker/api/wire.ts";
import { BrokerClient } from "../../broker/client/client.ts";
import { RunningStats } from "../../broker/task/stats.ts";
import type { Grouping, GroupTally, TaskStats } from "../../broker/task/stats_schema.ts";
import { visitTraces } from "../../broker/task/task_index.ts";
import { systemClock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { parseDuration } from "../../lib/text/duration.ts";
import type { Args } from "../plan/args.ts";
import { bar, sparkline } from "../text/chart.ts";
import type { Io } from "../text/io.ts";
import { textTable } from "../text/text_table.ts";
import { plural } from "../../lib/text/plural.ts";
import { reconcileBill, type Reconciliation, reconciliationText } from "./_bill_text.ts";

/** How long the broker is waited for: everything else is there already. */
const BROKER_DEADLINE_MS = 2_000;
const BAR_COLUMNS = 24;

/** Figures of tasks, and the global ceiling; null when it cannot be known. */
export interface StatsResult extends TaskStats {
  global_ceiling: CeilingView | null;
  /** Present with --reconcile. */
  reconciliation?: Reconciliation;
}

export async function run(args: Args, io: Io): Promise<StatsResult> {
  const { socket, host } = args.broker;
  // The broker that runs may have been started with another socket than is configured now.
  const asked = args.text("socket") ?? host?.live_socket ?? socket;
  const since = args.text("since");
  const by = args.choice<Grouping>("by");
  const running = new RunningStats({
    ...(since === undefined ? {} : { since_ms: parseSince(since, systemClock.now()) }),
    ...(by === undefined ? {} : { by }),
  });
  let damaged = 0;
  const reading = visitTraces(args.settings.audit_root, (found) => {
    if ("fault" in found) damaged++;
    else running.add(found);
  });
  const [global_ceiling] = await Promise.all([ceiling(asked, io.signal), reading]);
  const bill = args.text("reconcile");
  return {
    ...running.stats(damaged),
    global_ceiling,
    ...(bill === undefined ? {} : { reconciliation: await reconcileBill(args, bill) }),
  };
}

async function ceiling(socket: string, signal: AbortSignal): Promise<CeilingView | null> {
  try {
    return await new BrokerClient({ socket }, { signal, head_deadline_ms: BROKER_DEADLINE_MS }).ceiling();
  } catch (error) {
    // Without a broker there is no headroom to tell; what it spent is in its traces.
    if (error instanceof TaskdError && error.code !== "interrupted") return null;
    throw error;
  }
}

/** A point in time: a date, a date with a time, or so long ago; throws `usage`. */
export function parseSince(text: string, now_ms: number): number {
  if (/^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?Z)?$/.test(text)) {
    const ms = Date.parse(text);
    if (!Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text.slice(0, 10))) return ms;
  }
  try {
    return Math.max(0, now_ms - parseDuration(text));
  } catch {
    throw new TaskdError("usage", `Cannot parse --since ${JSON.stringify(text.slice(0, 64))}`, {
      hint: "Give a duration such as 7d or 12h, or a date in UTC such as 2026-01-31 or 2026-01-31T08:00:00Z",
    });
  }
}

export async function render(result: StatsResult, io: Io): Promise<string> {
  if (result.reconciliation !== undefined) return await reconciliationText(result.reconciliation, io);
  const charts = io.columns !== undefined;
  const sections = [await totals(result, charts)];
  if (result.groups !== undefined && result.groups.length > 0) {
    sections.push(await groupTable(result.by!, result.groups, io));
  }
  if (charts && result.days.length > 1) sections.push(dayLines(result, io.columns!));
  if (result.global_ceiling?.enabled) sections.push(ceilingLines(result.global_ceiling).join("\n"));
  return sections.join("\n\n");
}

function dollars(usd: number): string {
  return `$${usd.toFixed(usd !== 0 && usd < 1 ? 4 : 2)}`;
}

/** The metered amount; `+` marks a lower bound, `unmetered` an unknown amount. */
function spendText({ usd, unmetered_tasks }: TaskStats["spend"]): string {
  if (unmetered_tasks === 0) return dollars(usd);
  return usd === 0 ? "unmetered" : `${dollars(usd)}+`;
}

async function totals(stats: StatsResult, charts: boolean): Promise<string> {
  const { tasks, under_way, push_failed, data_waits, outcomes, spend, agent_reported, damaged, since } = stats;
  const span = since === null ? "" : ` since ${since.slice(0, 16).replace("T", " ")}Z`;
  const lines = [`tasks: ${tasks}${span}${under_way === 0 ? "" : `, ${under_way} under way`}`];
  if (push_failed > 0) lines.push(`push failed: ${push_failed} wait, approved (taskd tasks --stage push_failed)`);
  if (data_waits > 0) lines.push(`pushed, data waits: ${data_waits} (taskd tasks --stage data_waits)`);
  if (damaged > 0) lines.push(`damaged: ${damaged} more, whose records cannot be followed (taskd inspect <id>)`);
  lines.push(`spend: ${spendText(spend)} in ${plural(spend.requests, "request")} (broker-metered)`);
  if (spend.unmetered_tasks > 0) {
    lines.push(
      `unmetered: what ${plural(spend.unmetered_requests, "request")} of ${
        plural(spend.unmetered_tasks, "task")
      } cost is not known, or not all of it`,
    );
  }
  if (agent_reported.tasks > 0) {
    lines.push(
      `agent-reported: ${dollars(agent_reported.usd)} by ${
        plural(agent_reported.tasks, "task")
      } without any metering, in no total`,
    );
  }
  const ended = Object.entries(outcomes).filter(([, count]) => count > 0);
  if (ended.length === 0) return lines.join("\n");
  const most = Math.max(...ended.map(([, count]) => count));
  const rows = ended.map(([name, count]) => [name, String(count), ...(charts ? [bar(count, most, BAR_COLUMNS)] : [])]);
  return `${lines.join("\n")}\n\n${await textTable(rows, { head: ["OUTCOME", "TASKS"], right: [1] })}`;
}

async function groupTable(by: Grouping, groups: readonly GroupTally[], io: Io): Promise<string> {
  const charts = io.columns !== undefined;
  const claims = groups.some(({ agent_reported }) => agent_reported.tasks > 0);
  const most = Math.max(...groups.map(({ spend }) => spend.usd));
  const head = [by.toUpperCase(), "TASKS", "PUSHED", "SPEND", ...(claims ? ["AGENT-REPORTED"] : [])];
  const rows = groups.map(({ name, tasks, outcomes, spend, agent_reported }) => [
    by === "vendor" ? vendorText(name) : name,
    String(tasks),
    String(outcomes.pushed),
    spendText(spend),
    ...(claims ? [agent_reported.tasks === 0 ? "-" : dollars(agent_reported.usd)] : []),
    ...(charts ? [bar(spend.usd, most, BAR_COLUMNS)] : []),
  ]);
  return await textTable(rows, { head, right: [1, 2, 3, ...(claims ? [4] : [])], names: [0], columns: io.columns });
}

/** A group may also be an agent of another version, whose vendor is not known. */
function vendorText(name: string): string {
  const lane = LANES.find((one) => one === name);
  return lane === undefined ? name : laneText(lane);
}

function dayLines({ days }: StatsResult, columns: number): string {
  const shown = days.slice(-Math.max(1, Math.min(days.length, columns - "tasks  ".length)));
  return [
    `tasks  ${sparkline(shown.map(({ tasks }) => tasks))}`,
    `spend  ${sparkline(shown.map(({ usd }) => usd))}`,
    `       ${shown[0]!.day} to ${shown.at(-1)!.day}`,
  ].join("\n");
}

export function ceilingLines(view: CeilingView): string[] {
  const { window, window_ms, budget_usd, spent_usd, headroom_usd, max_tasks, starts, headroom_starts } = view;
  const limit = headroom_usd === null ? "no limit" : `of $${budget_usd.toFixed(2)}, $${headroom_usd.toFixed(2)} left`;
  const starts_limit = headroom_starts === null ? "no limit" : `of ${max_tasks}, ${headroom_starts} left`;
  const counts = `${view.recorded_starts} recorded, ${view.in_flight_starts} in flight`;
  const lines = [
    window_ms === 0 ? "global ceiling (in total, nothing ages out):" : `global ceiling (the last ${window}):`,
    `  spend:  $${spent_usd.toFixed(2)} ${limit} (broker-metered)`,
    `  starts: ${starts} ${starts_limit} (${counts})`,
  ];
  for (const { blocked, reason } of [view.usd, view.tasks]) if (blocked) lines.push(`  refuses: ${reason}`);
  return lines;
}
