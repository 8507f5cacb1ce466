/**
 * What several commands of the task broker share. Names of stages and agents are repeated here, because every call of the
 * program would load the broker's modules for them; a test compares.
 */

import type { FlagSpec, PositionalSpec } from "../plan/command_spec.ts";
import { file, on, text } from "./_row.ts";

export const STAGE_NAMES: readonly string[] =
  "admission staging setting_up running collecting awaiting_approval pushing push_failed data_waits awaiting_ci done"
    .split(" ");

/** A host that sandboxes may reach. */
export const EGRESS_HOST: PositionalSpec = {
  name: "host",
  kind: "word",
  help: "host:port; port 443 where none is given",
};

/** The agents, by both of their names. */
export const AGENT_NAMES: readonly string[] = "agent_a agent_b agent_c agent_d claude codex gemini opencode"
  .split(" ");

export const TASK: PositionalSpec = {
  name: "id",
  kind: "word",
  help: "The task's id, or a beginning of it that no other task has",
};

/** What submit and queue add take. */
export const SUBMISSION_ARGUMENTS: readonly PositionalSpec[] = [
  { name: "repo", kind: "repo", help: "The repository: a URL, host/owner/repo, or a path on this machine" },
  { name: "instruction", kind: "word", optional: true, help: "What to do; - reads it from stdin" },
];

/** What submit and queue add say about the task. */
export const SUBMISSION: readonly FlagSpec[] = [
  file("file FILE", "Read the instruction from this file"),
  text(
    "agent AGENT",
    "Who does it: agent_a (claude), agent_b (codex), agent_c (gemini), agent_d (opencode); by default the " +
      "setting default_agent",
    { choices: AGENT_NAMES },
  ),
  text("model MODEL", "The agent's model; by default the setting default_model"),
  text("base REF", "The branch or commit to start from; by default HEAD"),
  text("egress HOST:PORT", "Another host that the task may reach, beside those of egress.yaml; may be repeated", {
    repeatable: true,
  }),
  text("database DB", "A database of the branch store that the task gets a branch of; may be repeated", {
    repeatable: true,
  }),
  on("sensitive", "Mark the task as one that needs a careful review"),
  on("draft", "Open the pull request as a draft"),
  text(
    "budget USD",
    "Most that the task may spend, such as 0.50; by default, and at most, the setting task_budget_usd",
  ),
  text("platform PLATFORM", "Platform of the sandbox, such as linux/amd64"),
];
