/** The command `taskd inspect`. */

import { grantLines, renderBrief } from "../../broker/task/brief.ts";
import { requestOf, type TrustBrief } from "../../broker/task/schema.ts";
import type { BrokerClient } from "../../broker/client/client.ts";
import type { TaskView, Verification } from "../../broker/api/wire.ts";
import { decisionFacts } from "../../broker/task/decided.ts";
import { systemClock } from "../../lib/clock.ts";
import { hasCode } from "../../lib/errors.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { Args } from "../plan/args.ts";
import { EXIT_FAILURE, EXIT_OK } from "../text/exit_codes.ts";
import type { Io } from "../text/io.ts";
import { textList } from "../text/text_table.ts";
import { age, nextSteps, spendWords, standing } from "./_task_text.ts";
import { stamp } from "./_result_text.ts";
import { plural } from "../../lib/text/plural.ts";

export interface InspectResult {
  task: TaskView;
  /** Null before anything was established. */
  brief: TrustBrief | null;
  /** With --verify. */
  verification?: Verification;
}

export async function run(args: Args, _io: Io, broker: BrokerClient): Promise<InspectResult> {
  const task = await broker.task(args.positional("id"));
  if (args.on("verify")) return { task, brief: null, verification: await broker.verification(task.id) };
  return { task, brief: await briefOf(broker, task.id) };
}

export async function briefOf(broker: BrokerClient, id: string): Promise<TrustBrief | null> {
  try {
    return await broker.brief(id);
  } catch (error) {
    if (hasCode(error, "not_found")) return null;
    throw error;
  }
}

export async function render({ task, brief, verification }: InspectResult): Promise<string> {
  if (verification !== undefined) return await verificationText(verification);
  // This is the command that the others name.
  const next = nextSteps(task.id, task).filter((step) => !step.startsWith("taskd inspect "));
  const sections = [
    await recordText(task),
    ["instruction:", ...task.instruction.split("\n").map((line) => `  ${sanitizeLine(line)}`)].join("\n"),
    brief === null ? "Nothing was established yet: there is no brief" : renderBrief(brief).trimEnd(),
    ...(task.egress_grants === undefined || brief?.egress_grants ? [] : [grantLines(task.egress_grants).join("\n")]),
    ...refusedSection(task),
    ...(next.length === 0 ? [] : [`Next: ${next.join(" or ")}`]),
  ];
  return sections.join("\n\n");
}

async function recordText(task: TaskView): Promise<string> {
  const { pushed, ci, disk, gate } = task;
  const { repo, instruction: _, agent, model, base, egress_extra, databases, ...flags } = requestOf(task);
  return await textList([
    ["task", task.id],
    ["state", `${standing(task)}, for ${age(task.stage_since, systemClock.now())}`],
    ["reason", task.reason || undefined],
    ["created", stamp(task.created_at)],
    ["repository", repo],
    ["base", base],
    ["agent", model === undefined ? agent : `${agent} with ${model}`],
    ["spent", spendWords(task)],
    ["disk", disk && `at most ${formatBytes(disk.peak_bytes)} of ${formatBytes(disk.limit_bytes)}`],
    ["retry of", task.retry_of],
    ...Object.entries(flags).map(([name, value]): [string, string] => [name, value === true ? "yes" : String(value)]),
    ["databases", databases?.join(", ")],
    ["egress", egress_extra?.map(({ host, ports }) => `${host}:${ports.join(",")}`).join(" ")],
    ["look twice", gate === undefined || gate.second_look.length === 0 ? undefined : gate.second_look.join(", ")],
    ...decisionFacts(task).map(([name, text]): [string, string] => [name.toLowerCase(), text]),
    ["pushed", pushed === undefined ? undefined : `${pushed.commit} to ${pushed.branch}`],
    ["pull request", pushed?.pull_request],
    ["checks", ci === undefined ? undefined : `${ci.state}${ci.detail ? `: ${ci.detail}` : ""}`],
    [
      "trace",
      task.trace.intact ? `intact, ${plural(task.trace.rows, "row")}` : `ALTERED OR DAMAGED: ${task.trace.fault}`,
    ],
  ]);
}

async function verificationText({ id, verified, checks }: Verification): Promise<string> {
  const lines = checks.map(({ what, holds, detail }) => [what, `${holds ? "holds" : "FAILS"}: ${detail}`] as const);
  const verdict = verified ? "verified" : "NOT what was recorded, or not all of it";
  return `${await textList([["task", id], ...lines])}\n\n${verdict}`;
}

function refusedSection({ refused_egress }: TaskView): string[] {
  if (refused_egress.length === 0) return [];
  const lines = refused_egress.flatMap(({ target, reason, hint }) => [
    `  ${sanitizeLine(`${target}  ${reason}`)}`,
    ...(hint === undefined ? [] : [`    ${sanitizeLine(hint)}`]),
  ]);
  return [["refused by the egress proxy:", ...lines].join("\n")];
}

/** A record that was altered is worth a script's attention. */
export function exitCode({ task, verification }: InspectResult): number {
  return task.trace.intact && verification?.verified !== false ? EXIT_OK : EXIT_FAILURE;
}
