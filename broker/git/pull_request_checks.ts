/**
 * The checks of a pull request, and what they come to.
 *
 * Decided on each check's own state, not on gh's buckets: there, a check that went stale is pending forever. What
 * is not known for certain is never a success: a state that this program does not know counts as pending.
 */

import * as v from "valibot";

export type CheckOutcome = "passed" | "failed" | "pending" | "skipped";

export interface CheckRun {
  /** `workflow / job`, or the context of a status. */
  name: string;
  outcome: CheckOutcome;
  /** The host's word for it, in capitals: `SUCCESS`, `IN_PROGRESS`. */
  state: string;
  /** Where to read more; empty when unknown. */
  url: string;
}

/** What a pull request's checks come to. `no_checks` is no success either: they may not have been created yet. */
export type ChecksConclusion = "passed" | "failed" | "pending" | "no_checks";

const text = v.optional(v.nullable(v.string()), "");

/** `statusCheckRollup` of `gh pr view --json`: check runs (Actions and apps) and commit statuses. */
export const RollupSchema = v.array(v.object({
  __typename: v.optional(v.string()),
  // Of a check run.
  name: text,
  workflowName: text,
  status: text,
  conclusion: text,
  detailsUrl: text,
  startedAt: text,
  completedAt: text,
  // Of a status.
  context: text,
  state: text,
  targetUrl: text,
}));

type RollupEntry = v.InferOutput<typeof RollupSchema>[number];

/** States of commit statuses and conclusions of check runs: CheckConclusionState and StatusState of GitHub's schema. */
const OUTCOMES: ReadonlyMap<string, CheckOutcome> = new Map([
  ["SUCCESS", "passed"],
  ["NEUTRAL", "skipped"],
  ["SKIPPED", "skipped"],
  ["FAILURE", "failed"],
  ["ERROR", "failed"],
  ["CANCELLED", "failed"],
  ["TIMED_OUT", "failed"],
  ["STARTUP_FAILURE", "failed"],
  // Waits for a person; the host drops it after 14 days.
  ["ACTION_REQUIRED", "failed"],
  ["STALE", "failed"],
  ["PENDING", "pending"],
  ["EXPECTED", "pending"],
]);

/** The checks that count: of a run that was repeated, the last. */
export function decodeRollup(rollup: v.InferOutput<typeof RollupSchema>): CheckRun[] {
  return rollup.filter((entry) => !rollup.some((other) => replaces(other, entry))).map((entry) => {
    const state = stateOf(entry);
    const name = [entry.workflowName, entry.name || entry.context].filter(Boolean).join(" / ");
    const url = entry.detailsUrl || entry.targetUrl || "";
    return { name, outcome: OUTCOMES.get(state) ?? "pending", state, url: /^https?:\/\//.test(url) ? url : "" };
  });
}

function stateOf({ state, status, conclusion }: RollupEntry): string {
  if (state) return state;
  // A run that is not complete may carry the conclusion of an earlier attempt.
  return (status === "COMPLETED" ? conclusion : status) || "UNKNOWN";
}

/**
 * Whether `later` is the same run, begun after `earlier` was over. Runs that overlap are runs of several events under
 * one name, and all of them count.
 */
function replaces(later: RollupEntry, earlier: RollupEntry): boolean {
  if (later === earlier || !later.name || later.name !== earlier.name) return false;
  if ((later.workflowName ?? "") !== (earlier.workflowName ?? "")) return false;
  const [begun, over] = [Date.parse(later.startedAt ?? ""), Date.parse(earlier.completedAt ?? "")];
  // A run that is not over has year 1 there.
  return over > 0 && begun > over;
}

export function concludeChecks(checks: readonly CheckRun[]): ChecksConclusion {
  const has = (outcome: CheckOutcome) => checks.some((check) => check.outcome === outcome);
  if (has("failed")) return "failed";
  if (has("pending")) return "pending";
  return checks.length === 0 ? "no_checks" : "passed";
}
