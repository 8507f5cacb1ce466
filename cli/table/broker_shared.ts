/**
 * What several commands of the task broker share. Names of stages and agents are repeated here, because every call of the
 * program would load the broker's modules for them; a test compares.
 */

import type { FlagSpec, PositionalSpec } from "../plan/command_spec.ts";
import { brokerNeeds } from "../plan/needs.ts";

/** A command that only asks the broker. */
export const ASKS_BROKER = { uses: "broker", needs: brokerNeeds } as const;

export const STAGE_NAMES: readonly string[] = [
  "admission",
  "staging",
  "setting_up",
  "running",
  "collecting",
  "awaiting_approval",
  "pushing",
  "awaiting_ci",
  "done",
];

/** The agents, by both of their names. */
export const AGENT_NAMES: readonly string[] = [
  "agent_a",
  "agent_b",
  "agent_c",
  "agent_d",
  "claude",
  "codex",
  "gemini",
  "opencode",
];

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
  { name: "file", kind: "file", value: "FILE", help: "Read the instruction from this file" },
  {
    name: "agent",
    kind: "string",
    value: "AGENT",
    choices: AGENT_NAMES,
    help: "Who does it: agent_a (claude), agent_b (codex), agent_c (gemini), agent_d (opencode); by default the " +
      "setting default_agent",
  },
  { name: "model", kind: "string", value: "MODEL", help: "The agent's model; by default the setting default_model" },
  { name: "base", kind: "string", value: "REF", help: "The branch or commit to start from; by default HEAD" },
  {
    name: "egress",
    kind: "string",
    value: "HOST:PORT",
    repeatable: true,
    help: "Another host that the task may reach, beside those of egress.yaml; may be repeated",
  },
  {
    name: "database",
    kind: "string",
    value: "DB",
    repeatable: true,
    help: "A database of the branch store that the task gets a branch of; may be repeated",
  },
  { name: "sensitive", kind: "boolean", help: "Mark the task as one that needs a careful review" },
  { name: "draft", kind: "boolean", help: "Open the pull request as a draft" },
  { name: "platform", kind: "string", value: "PLATFORM", help: "Platform of the sandbox, such as linux/amd64" },
];
