/**
 * What is checked of a task before it begins: all that would make it fail later for a reason that is known now.
 */

import { TaskdError } from "../../lib/errors.ts";
import { type Agent, agentOf } from "../agents.ts";
import type { SubmitRequest, TaskOrder } from "../task/schema.ts";
import { parseRequested } from "../databases/requested_databases.ts";
import { canonicalHost } from "../egress/host_name.ts";
import { type EgressList, EgressRules } from "../egress/egress_rules.ts";
import { parseRepo, type RepoUrl } from "../git/repo_url.ts";
import { isBase } from "../git/base_ref.ts";
import { hasSetup } from "./profile/run_setup.ts";
import type { SandboxRuntime } from "../sandbox/runtime.ts";
import { isLocalName } from "../settings/egress_file.ts";
import { authOf, type Profile, type Settings, type VendorAuth } from "../settings/settings.ts";
import type { TaskOrigin } from "./engine_deps.ts";

export interface TaskPlan {
  order: Omit<TaskOrder, "id">;
  url: RepoUrl;
  agent: Agent;
  auth: VendorAuth;
  /** What the task may spend, in US dollars; nothing is metered by it under a subscription. */
  budget_usd: number;
  model: string | undefined;
  extra: EgressList;
  profile: Profile | undefined;
}

export interface PlanContext {
  settings: Settings;
  runtime: Pick<SandboxRuntime, "name" | "programs">;
  origin: TaskOrigin;
}

function refuse(why: string, hint: string): never {
  throw new TaskdError("invalid_request", `Cannot take the task: ${why}`, { hint });
}

/** @throws {TaskdError} `invalid_request`, with what to change. */
export function planTask(request: SubmitRequest, context: PlanContext): TaskPlan {
  const { settings, runtime, origin } = context;
  const url = parseRepo(request.repo);
  const agent = agentNamed(request.agent ?? settings.default_agent);
  if (request.base !== undefined && !isBase(request.base)) {
    refuse(`${JSON.stringify(request.base.slice(0, 200))} is no base`, "Give a branch, a tag or a commit id");
  }
  const model = modelFor(agent, request.model, settings);
  const extra = checkEgress(request.egress_extra ?? []);
  const own = profileOf(settings, url);
  const profile = hasSetup(own) ? own : undefined;
  checkRuntime(runtime, agent, request, profile);
  parseRequested(request.databases ?? []);
  const auth = authOf(settings, agent.lane);
  const budget_usd = budgetOf(request, settings, auth);
  const { agent: _agent, model: _model, repo: _repo, ...rest } = request;
  const order: TaskPlan["order"] = {
    ...rest,
    repo: url.transport === "file" ? url.clone_url : request.repo,
    agent: agent.name,
    ...(model === undefined ? {} : { model }),
    ...origin,
  };
  return { order, url, agent, auth, budget_usd, model, extra, profile };
}

function agentNamed(name: string): Agent {
  try {
    return agentOf(name);
  } catch (error) {
    if (!(error instanceof TaskdError)) throw error;
    return refuse(error.message, error.hint ?? "Name another agent");
  }
}

function modelFor(agent: Agent, asked: string | undefined, settings: Settings): string | undefined {
  if (agent.lane !== "compat") {
    const fallback = agent.takes_default_model && settings.default_model !== "" ? settings.default_model : undefined;
    return checkModel(asked ?? fallback);
  }
  const { base_url, model } = settings.compat;
  if (base_url === "") refuse(`${agent.name} has no endpoint`, "Set compat.base_url in config.yaml: `taskd setup`");
  const chosen = asked ?? (model === "" ? undefined : model);
  if (chosen === undefined) refuse(`${agent.name} has no model`, "Set compat.model in config.yaml, or name a model");
  return checkModel(chosen);
}

function budgetOf({ budget_usd }: SubmitRequest, { task_budget_usd }: Settings, auth: VendorAuth): number {
  if (budget_usd === undefined) return task_budget_usd;
  if (auth !== "api_key") {
    refuse("a subscription has no budget in dollars", "Leave `budget_usd` out; task_max_requests bounds the requests");
  }
  if (budget_usd > task_budget_usd) {
    refuse(
      `its budget of $${budget_usd.toFixed(2)} is above task_budget_usd ($${task_budget_usd.toFixed(2)})`,
      "Ask for less, or raise task_budget_usd in config.yaml",
    );
  }
  return budget_usd;
}

/** A model id goes into a command line and a path: no option, nothing but a name. */
function checkModel(model: string | undefined): string | undefined {
  if (model === undefined || /^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$/.test(model)) return model;
  return refuse(`${JSON.stringify(model.slice(0, 200))} is no model id`, "Write it as the vendor does");
}

function checkEgress(entries: NonNullable<SubmitRequest["egress_extra"]>): EgressList {
  const list = { entries };
  // Throws for what is no name, addresses among them.
  new EgressRules(list);
  for (const { host } of entries) {
    const parsed = canonicalHost(host.replace(/^\*\./, ""));
    if (typeof parsed === "string") continue;
    if (isLocalName(parsed.host) || !parsed.host.includes(".")) {
      refuse(
        `egress_extra has ${JSON.stringify(host.slice(0, 300))}, which is no name of the public internet`,
        "Sandboxes never reach this machine or its network; name a public host with its domain",
      );
    }
  }
  return list;
}

/** The profile of a repository, if there is one. */
export function profileOf({ profiles: { repos } }: Settings, { canonical }: RepoUrl): Profile | undefined {
  return Object.hasOwn(repos, canonical) ? repos[canonical] : undefined;
}

const INSTALL = "Install podman and set `runtime: podman`";

function checkRuntime(
  { name, programs }: PlanContext["runtime"],
  agent: Agent,
  request: SubmitRequest,
  profile: Profile | undefined,
): void {
  if (programs?.includes(agent.label) === false) {
    refuse(
      `${agent.label} is not installed on this machine, whose programs the runtime ${name} runs`,
      `Install it, so that PATH leads to it, and run \`taskd start\` again`,
    );
  }
  if (name === "bubblewrap" && request.platform !== undefined) {
    refuse("the runtime bubblewrap has no platform but this machine's", `${INSTALL}, or leave \`platform\` out`);
  }
  if (name !== "deno") return;
  if (agent.lane !== "compat") {
    refuse(
      `${agent.name} (${agent.label}) is a program, and the embedded runtime runs none`,
      `${INSTALL}, or use agent_d`,
    );
  }
  if (profile !== undefined) {
    refuse("the repository's profile has commands, and the embedded runtime runs none", INSTALL);
  }
  if (request.platform !== undefined) {
    refuse("the embedded runtime has no platform but this machine's", `${INSTALL}, or leave \`platform\` out`);
  }
}
