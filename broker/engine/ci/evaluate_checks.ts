/**
 * What a look at a pushed change's pull request means. A success is believed late, a
 * failure at once, and nothing that was not seen is ever a success.
 */

import { type CheckRun, concludeChecks } from "../../git/pull_request_checks.ts";
import type { PullRequestView } from "../../git/gh.ts";
import type { CiObservation } from "../../task/schema.ts";
import { plural } from "../../../lib/text/plural.ts";

/** The contract's floor below which `watch_timeout` may not be, and before which an absence of checks means nothing. */
export const DISPATCH_FLOOR_MS = 5 * 60_000;
const MAX_NAMED = 20;

/** Milliseconds after the push before which `passed` and `no_checks` are not believed: checks may still be created. */
export function dispatchFloor(poll_interval_ms: number): number {
  return Math.max(2 * poll_interval_ms, DISPATCH_FLOOR_MS);
}

/** The change was given up. A merge is another matter: the checks of the commit go on. */
const CLOSED: CiObservation = {
  state: "no_conclusion",
  detail: "the pull request was closed before its checks had concluded",
};

/** Evaluates what was seen; `pending` means that the watch goes on. */
export function evaluateChecks(
  view: PullRequestView,
  { commit, age_ms, floor_ms }: { commit: string; age_ms: number; floor_ms: number },
): CiObservation {
  if (view.head_oid !== commit) {
    return { state: "no_conclusion", detail: "the branch has another commit now than the one that was pushed" };
  }
  const conclusion = concludeChecks(view.checks);
  if (conclusion === "failed") return { state: "failed", detail: `failed: ${named(view.checks, "failed")}` };
  if (conclusion === "pending") {
    if (view.state === "closed") return CLOSED;
    return { state: "pending", detail: `waiting for: ${named(view.checks, "pending")}` };
  }
  if (age_ms >= floor_ms) {
    return conclusion === "passed"
      ? { state: "passed", detail: `${plural(view.checks.length, "check")}, none failed` }
      : { state: "no_checks", detail: "the pull request has no checks" };
  }
  if (view.state === "closed") return CLOSED;
  return {
    state: "pending",
    detail: conclusion === "passed" ? "all checks have passed so far" : "there are no checks so far",
  };
}

function named(checks: readonly CheckRun[], outcome: CheckRun["outcome"]): string {
  const names = checks.filter((check) => check.outcome === outcome).map(({ name }) => name.slice(0, 200));
  const more = names.length - MAX_NAMED;
  return names.slice(0, MAX_NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
