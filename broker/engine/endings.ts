/**
 * How a task ends before its change is at the gate: asked for from outside, or by what happened to its agent.
 */

import { formatDuration } from "../../lib/text/duration.ts";
import { OUTCOMES as AGENT_EXITS } from "../agent/progress.ts";
import { isSpent } from "../gateway/usd_limit.ts";
import { DEFAULT_MAX_REQUESTS, type Spend } from "../gateway/lease.ts";
import type { Sandbox, SandboxEnd } from "../sandbox/runtime.ts";
import type { Settings, VendorAuth } from "../settings/settings.ts";
import { type Decider, type Outcome, type Stage, STAGES } from "../task/stages.ts";

/** Ends the work on a task; also the reason of the signal that stops it. */
export class TaskEnding extends Error {
  override name = "TaskEnding";
  readonly outcome: Outcome;
  readonly by: Decider | undefined;

  /** Ends it with `outcome`; `reason` is for the person who reads the record. */
  constructor(outcome: Outcome, reason: string, by?: Decider) {
    super(reason);
    this.outcome = outcome;
    this.by = by;
  }
}

/** The outcome that stands for "it failed here" in a stage that the broker works in. */
export function failureIn(stage: Stage): "setup_failed" | "agent_failed" {
  const { at_restart } = STAGES[stage];
  return at_restart.kind === "fail" ? at_restart.outcome : "agent_failed";
}

/** `outcome` where a task may end with it from `stage`; else the stage's own failure. */
export function allowedOutcome(stage: Stage, outcome: Outcome): Outcome {
  const ends: readonly Outcome[] = STAGES[stage].ends;
  return ends.includes(outcome) ? outcome : failureIn(stage);
}

export function timeoutEnding(task_timeout: number): TaskEnding {
  return new TaskEnding("timed_out", `it ran longer than task_timeout (${formatDuration(task_timeout)})`);
}

/** What the exit codes of the built-in agent mean; the gateway's own figures go before them. */
const EXITS: Readonly<Record<number, string>> = {
  [AGENT_EXITS.turn_limit]: "it used up its turns without coming to an end",
  [AGENT_EXITS.token_refused]: "the gateway refused its token",
  [AGENT_EXITS.request_refused]: "the gateway or the endpoint refused a request; the output says which",
  [AGENT_EXITS.model_unavailable]: "the model's endpoint did not answer, or with errors alone; the output says which",
  [AGENT_EXITS.bad_model_output]: "what the model's endpoint answers is no chat completion",
};

/** What the limits of a task are taken from. */
export interface TaskLimits {
  settings: Settings;
  spend: Spend;
  auth: VendorAuth;
  budget_usd: number;
}

export function limitMet({ settings, spend, auth, budget_usd }: TaskLimits): string | undefined {
  const { task_budget_usd, task_max_requests } = settings;
  const max_requests = task_max_requests > 0 ? task_max_requests : DEFAULT_MAX_REQUESTS;
  if (auth === "api_key" && spend.usd > 0 && isSpent(spend.usd, budget_usd)) {
    const more = budget_usd < task_budget_usd ? "give the task a larger one" : "raise task_budget_usd";
    return `its budget is spent ($${spend.usd.toFixed(4)} of $${budget_usd.toFixed(2)}); ${more}`;
  }
  if (spend.requests >= max_requests) {
    return `it made ${spend.requests} of ${max_requests} requests; raise task_max_requests`;
  }
  return undefined;
}

export function endingOf(
  end: SandboxEnd,
  known: TaskLimits & { built_in: boolean },
): TaskEnding | undefined {
  if (end.reason === "timed_out") return timeoutEnding(known.settings.task_timeout);
  if (end.reason === "out_of_memory") {
    return new TaskEnding("agent_failed", "the agent needed more memory than it may have");
  }
  if (end.reason === "exited" && end.code === 0 && end.signal === undefined) return undefined;
  const limit = limitMet(known) ?? refusedBudget(end, known);
  if (limit !== undefined) return new TaskEnding("agent_failed", `the agent ended: ${limit}`);
  const meaning = known.built_in ? EXITS[end.code] : undefined;
  const how = end.signal === undefined ? `with code ${end.code}` : `by ${end.signal}`;
  return new TaskEnding("agent_failed", `the agent ended ${how}${meaning === undefined ? "" : `: ${meaning}`}`);
}

/** A reservation or a budget of nothing refuses before there is any spend to show for it. */
function refusedBudget(end: SandboxEnd, { built_in }: { built_in: boolean }): string | undefined {
  if (!built_in) return undefined;
  if (end.code === AGENT_EXITS.budget_exhausted) {
    return "the gateway has no room left in its budget; raise task_budget_usd, or lower max_request_cost_usd";
  }
  if (end.code === AGENT_EXITS.request_cap) return "the gateway refuses more requests; raise task_max_requests";
  return undefined;
}

export async function waitForEnd(sandbox: Sandbox, signal: AbortSignal): Promise<SandboxEnd> {
  const stop = () => {
    // `wait` reports a failure too.
    sandbox.stop().catch(() => {});
  };
  signal.addEventListener("abort", stop, { once: true });
  try {
    if (signal.aborted) stop();
    return await sandbox.wait();
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
