/**
 * The stages and outcomes of a task in the words of the pages.
 */

import type { Outcome, Stage } from "../../task/stages.ts";

export const STAGE_LABELS: Readonly<Record<Stage, string>> = {
  admission: "Accepted",
  staging: "Cloning",
  setting_up: "Setting up",
  running: "Agent at work",
  collecting: "Collecting the change",
  awaiting_approval: "Waiting for approval",
  pushing: "Pushing",
  push_failed: "Push failed, waits",
  data_waits: "Pushed, data waits",
  awaiting_ci: "Watching checks",
  done: "Done",
};

/** Outcomes, each with the colour it has. */
export const OUTCOME_LABELS: Readonly<Record<Outcome, readonly [label: string, kind: "good" | "bad" | "quiet"]>> = {
  pushed: ["Pushed", "good"],
  promoted: ["Promoted", "good"],
  no_diff: ["No change", "quiet"],
  denied: ["Denied", "quiet"],
  cancelled: ["Cancelled", "quiet"],
  timed_out: ["Timed out", "bad"],
  setup_failed: ["Setup failed", "bad"],
  agent_failed: ["Agent failed", "bad"],
  policy_blocked: ["Blocked by policy", "bad"],
  push_failed: ["Push failed", "bad"],
};
