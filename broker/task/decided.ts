/**
 * What was decided on a task by whom and when, and which databases it went to: for the terminal and the pages. The texts
 * are as they were recorded.
 */

import type { TaskRecord } from "./schema.ts";
import { seenText } from "./seen.ts";
import type { Decider } from "./stages.ts";

type Decided = Pick<TaskRecord, "approval" | "push_asked" | "ended_by" | "outcome" | "stage_since" | "evidence">;

/** Names and texts; times are ISO 8601 in UTC. */
export function decisionFacts(task: Decided): [name: string, text: string][] {
  const { approval, push_asked, ended_by, outcome, stage_since, evidence: { database_results: results } } = task;
  const promoted = (Array.isArray(results) ? results : []).flatMap((one) =>
    typeof one === "object" && one !== null && !Array.isArray(one) && one.result === "promoted"
      ? [`${one.db}@${one.base}${one.safety_branch === undefined ? "" : ` (before: ${one.db}@${one.safety_branch})`}`]
      : []
  );
  const end = outcome === "denied" ? "Denied" : approval === undefined ? "Killed" : "Given up";
  const facts: [string, string | false | undefined][] = [
    ["Approved", approval?.at],
    ["Approved by", approval?.by && byText(approval.by)],
    ["Acknowledged", approval?.acknowledged.join(", ")],
    ["Shown", approval?.seen && (seenText(approval.seen) || "nothing that the client reports")],
    ["Push asked", push_asked?.at],
    ["Push asked by", push_asked && byText(push_asked.by)],
    [end, (outcome === "denied" || ended_by !== undefined) && stage_since],
    [`${end} by`, ended_by && byText(ended_by)],
    ["Promoted", promoted.join(", ")],
  ];
  return facts.flatMap(([name, text]) => text ? [[name, text]] : []);
}

function byText({ via, who }: Decider): string {
  return `${who}, via ${via}`;
}
