import { assertEquals } from "@std/assert";
import type { CheckRun } from "../../git/pull_request_checks.ts";
import type { PullRequestView } from "../../git/gh.ts";
import { DISPATCH_FLOOR_MS, dispatchFloor, evaluateChecks } from "./evaluate_checks.ts";

const COMMIT = "c".repeat(40);
const check = (outcome: CheckRun["outcome"], name: string = outcome): CheckRun => ({
  name,
  outcome,
  state: "X",
  url: "",
});
const LATE = 3_600_000;

function stateOf(view: Partial<PullRequestView>, age_ms = LATE): string {
  const whole: PullRequestView = { state: "open", head_oid: COMMIT, checks: [], ...view };
  return evaluateChecks(whole, { commit: COMMIT, age_ms, floor_ms: dispatchFloor(60_000) }).state;
}

// conformance: b2.ci.watch_timeout
Deno.test("the floor is twice the interval, and at least five minutes", () => {
  assertEquals([dispatchFloor(10_000), dispatchFloor(150_000), dispatchFloor(600_000)], [
    DISPATCH_FLOOR_MS,
    DISPATCH_FLOOR_MS,
    1_200_000,
  ]);
});

Deno.test("passed and no_checks are believed only from the floor on, a failure at once", () => {
  const passed = { checks: [check("passed"), check("skipped")] };
  assertEquals([stateOf(passed, DISPATCH_FLOOR_MS - 1), stateOf(passed, DISPATCH_FLOOR_MS)], ["pending", "passed"]);
  assertEquals([stateOf({}, DISPATCH_FLOOR_MS - 1), stateOf({}, DISPATCH_FLOOR_MS)], ["pending", "no_checks"]);
  assertEquals(stateOf({ checks: [check("passed"), check("pending"), check("failed")] }, 0), "failed");
  assertEquals(stateOf({ checks: [check("passed"), check("pending")] }), "pending");
});

Deno.test("evaluateChecks() concludes nothing from another commit, an early close or a merge", () => {
  assertEquals(stateOf({ head_oid: "d".repeat(40), checks: [check("passed")] }), "no_conclusion");
  assertEquals(stateOf({ head_oid: "d".repeat(40), checks: [check("failed")] }), "no_conclusion");
  for (const [state, early] of [["closed", "no_conclusion"], ["merged", "pending"]] as const) {
    assertEquals(stateOf({ state, checks: [check("pending")] }), early);
    assertEquals(stateOf({ state, checks: [check("passed")] }, 0), early);
    assertEquals(stateOf({ state, checks: [check("passed")] }), "passed");
    assertEquals(stateOf({ state, checks: [check("failed")] }, 0), "failed");
  }
});

Deno.test("the report of many checks is bounded", () => {
  const checks = Array.from({ length: 100 }, (_, i) => check("failed", `${i} ${"x".repeat(1_000)}`));
  const { detail } = evaluateChecks({ state: "open", head_oid: COMMIT, checks }, {
    commit: COMMIT,
    age_ms: 0,
    floor_ms: 1,
  });
  assertEquals([detail!.length < 5_000, detail!.endsWith("and 80 more")], [true, true]);
});
