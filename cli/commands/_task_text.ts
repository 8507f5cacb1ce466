/** Phrases that the commands of tasks print. */

import type { TaskListItem, TaskView } from "../../broker/api/wire.ts";
import { decisionFacts } from "../../broker/task/decided.ts";
import { TaskdError } from "../../lib/errors.ts";
import { commitAddress } from "../../lib/text/commit_address.ts";
import type { Outcome, Stage } from "../../broker/task/stages.ts";
import { formatDuration } from "../../lib/text/duration.ts";
import { plural } from "../../lib/text/plural.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { shellWord } from "../../lib/text/shell_word.ts";

/** Digits of an id that lists and hints show: two tasks do not share them in practice. */
const ID_DIGITS = 12;

/** Digits of a SHA-256 of what was read that stand for it in a command: too many to be forged by search. */
export const DIFF_DIGITS = 16;

export function shortId(id: string): string {
  return id.slice(0, ID_DIGITS);
}

type TaskSpend = Pick<TaskListItem, "spend" | "live" | "claimed_usd">;

/** The amount spent, in a few characters: `$0.0123`, `$0.0123+`, `unmetered`, `$0.50 agent-reported`. */
export function spendWord({ spend, live, claimed_usd }: TaskSpend): string {
  const metered = live ?? spend;
  if (metered === undefined) return claimed_usd === undefined ? "-" : `$${claimed_usd.toFixed(2)} agent-reported`;
  if (metered.priced) return `$${metered.usd.toFixed(4)}`;
  return metered.usd === 0 ? "unmetered" : `$${metered.usd.toFixed(4)}+`;
}

export function spendWords(spent: TaskSpend): string {
  const metered = spent.live ?? spent.spend;
  const amount = spendWord(spent);
  if (metered === undefined || amount.endsWith("agent-reported")) return amount;
  const requests = plural(metered.requests, "request");
  const unmetered = metered.unmetered_requests === 0 ? "" : `, ${metered.unmetered_requests} unmetered`;
  return `${amount} (${requests}${unmetered})`;
}

export function age(iso: string, now_ms: number): string {
  const ms = Math.max(0, now_ms - Date.parse(iso));
  return ms < 1_000 ? "0s" : formatDuration(ms < 60_000 ? Math.floor(ms / 1_000) * 1_000 : ms);
}

/** Where a task stands: its outcome once it has one. */
export function standing({ stage, outcome }: Pick<TaskListItem, "stage" | "outcome">): string {
  return outcome ?? (stage === "data_waits" ? "pushed, data waits" : stage);
}

export function approveCommand(id: string, gate: { diff_sha256: string; second_look: readonly string[] }): string {
  const flags = gate.second_look.map((category) => ` --acknowledge ${shellWord(category)}`).join("");
  return `taskd approve ${shortId(id)} --diff ${gate.diff_sha256.slice(0, DIFF_DIGITS)}${flags}`;
}

/** Decides what waits, as it is read now. */
export function decideCommand(id: string, conflicts_read_sha256: string): string {
  return `taskd push ${shortId(id)} --conflicts ${conflicts_read_sha256.slice(0, DIFF_DIGITS)}`;
}

/**
 * Whether `named` is the beginning of `digest`, as commands take what was read.
 *
 * @throws {TaskdError} `usage` when it cannot be that of any.
 */
export function isDigestOf(digest: string, named: string, { flag, id }: { flag: string; id: string }): boolean {
  if (!/^[0-9a-f]+$/i.test(named) || named.length < DIFF_DIGITS || named.length > 64) {
    throw new TaskdError("usage", `Cannot read ${flag}: it is not ${DIFF_DIGITS} to 64 digits of a SHA-256`, {
      hint: `taskd review ${shortId(id)} ends with the whole command`,
    });
  }
  return digest.startsWith(named.toLowerCase());
}

/** What was decided on a task by whom and when, and where it went: safe to print. */
export function decisionText(task: TaskView): string {
  const { pushed, repo, reason } = task;
  const lines: (string | false)[] = [
    `The task is at ${standing(task)}: there is nothing to approve`,
    ...decisionFacts(task).map(([name, text]) => `${name}: ${text}`),
    reason !== undefined && reason !== "" && `Reason: ${reason}`,
    pushed !== undefined && `Pushed to ${pushed.branch}, commit ${commitAddress(repo, pushed.commit) ?? pushed.commit}`,
    pushed?.pull_request !== undefined && `Pull request ${pushed.pull_request}`,
  ];
  return lines.filter((line) => line !== false).map(sanitizeLine).join("\n");
}

/** Outcomes that `--wait` counts as success. */
const SUCCESSES: ReadonlySet<Outcome> = new Set<Outcome>(["pushed", "promoted", "no_diff"]);

/** Whether a task that was waited for has succeeded: at the gate, pushed, or without a change. */
export function isSuccess({ stage, outcome }: { stage: Stage; outcome?: Outcome }): boolean {
  return outcome === undefined ? stage === "awaiting_approval" || stage === "awaiting_ci" : SUCCESSES.has(outcome);
}

/** The commands that come next for a task in this stage, or with this outcome. */
export function nextSteps(id: string, { stage, outcome }: { stage: Stage; outcome?: Outcome }): string[] {
  const short = shortId(id);
  if (stage === "awaiting_approval") return [`taskd review ${short}`];
  if (stage === "push_failed" || stage === "data_waits") {
    return [`taskd push ${short}`, `taskd inspect ${short}`, `taskd kill ${short} to give it up`];
  }
  switch (outcome) {
    case undefined:
      return [`taskd logs ${short} -f`];
    case "pushed":
    case "promoted":
    case "no_diff":
      return [];
    case "policy_blocked":
    case "denied":
      return [`taskd review ${short}`, `taskd inspect ${short}`];
    default:
      return [`taskd inspect ${short}`, `taskd logs ${short}`];
  }
}
