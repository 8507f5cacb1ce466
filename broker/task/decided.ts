/**
 * What was decided on a task by whom and when, and which databases it went to: for the terminal and the pages. The texts
 * are as they were recorded.
 */

import type { TaskRecord } from "./schema.ts";
import type { Decision } from "./database_schema.ts";
import { seenText } from "./seen.ts";
import type { Decider } from "./stages.ts";

type Decided = Pick<
  TaskRecord,
  "submitted_by" | "approval" | "push_asked" | "ended_by" | "outcome" | "stage_since" | "evidence" | "decisions"
>;

/** Decided conflicts that are named. */
const MAX_PLACES = 20;

/** Names and texts; times are ISO 8601 in UTC. */
export function decisionFacts(task: Decided): [name: string, text: string][] {
  const { submitted_by, approval, push_asked, ended_by, outcome, stage_since } = task;
  const { database_results: results } = task.evidence;
  const decisions = task.decisions ?? approval?.decisions ?? [];
  const promoted = (Array.isArray(results) ? results : []).flatMap((one) =>
    typeof one === "object" && one !== null && !Array.isArray(one) && one.result === "promoted"
      ? [`${one.db}@${one.base}${one.safety_branch === undefined ? "" : ` (before: ${one.db}@${one.safety_branch})`}`]
      : []
  );
  const end = outcome === "denied" ? "Denied" : approval === undefined ? "Killed" : "Given up";
  const facts: [string, string | false | undefined][] = [
    ["Submitted by", submitted_by && byText(submitted_by)],
    ["Approved", approval?.at],
    ["Approved by", approval?.by && byText(approval.by)],
    ["Decided for the base", placesOf(decisions, "ours")],
    ["Decided for the task", placesOf(decisions, "theirs")],
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

/** The conflicts that were decided for a side: a few by name. */
function placesOf(decisions: readonly Decision[], side: Decision["take"]): string {
  const places = decisions.filter(({ take }) => take === side).map(({ db, table, key = {}, column }) =>
    [db, table, ...Object.entries(key).map(([name, value]) => `${name}=${JSON.stringify(value)}`), column].filter(
      Boolean,
    )
      .join(" ")
  );
  const more = places.length > MAX_PLACES ? [`and ${places.length - MAX_PLACES} more`] : [];
  return [...places.slice(0, MAX_PLACES), ...more].join(", ");
}

function byText({ via, who }: Decider): string {
  return `${who}, via ${via}`;
}
