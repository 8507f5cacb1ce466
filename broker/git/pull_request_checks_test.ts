import { assertEquals } from "@std/assert";
import * as v from "valibot";
import { concludeChecks, decodeRollup, RollupSchema } from "./pull_request_checks.ts";

const OVER = { startedAt: "2026-01-01T10:00:00Z", completedAt: "2026-01-01T10:05:00Z" };
const RUNNING = { startedAt: "2026-01-01T10:00:00Z", completedAt: "0001-01-01T00:00:00Z" };

function run(fields: Record<string, unknown>) {
  return {
    __typename: "CheckRun",
    name: "test",
    workflowName: "CI",
    status: "COMPLETED",
    detailsUrl: "https://github.com/acme/app/actions/runs/1/job/2",
    ...OVER,
    ...fields,
  };
}

function status(state: string) {
  return {
    __typename: "StatusContext",
    context: "ci/circleci: build",
    state,
    targetUrl: "https://circleci.com/1",
    ...OVER,
  };
}

function conclude(rollup: unknown[]) {
  return concludeChecks(decodeRollup(v.parse(RollupSchema, rollup)));
}

Deno.test("every state of a check has its outcome, and an unknown one is no success", () => {
  const table: [unknown, string][] = [
    [run({ conclusion: "SUCCESS" }), "passed"],
    [run({ conclusion: "NEUTRAL" }), "passed"],
    [run({ conclusion: "SKIPPED" }), "passed"],
    [run({ conclusion: "FAILURE" }), "failed"],
    [run({ conclusion: "CANCELLED" }), "failed"],
    [run({ conclusion: "TIMED_OUT" }), "failed"],
    [run({ conclusion: "ACTION_REQUIRED" }), "failed"],
    [run({ conclusion: "STARTUP_FAILURE" }), "failed"],
    [run({ conclusion: "STALE" }), "failed"],
    [run({ conclusion: "BRAND_NEW" }), "pending"],
    [run({ conclusion: "" }), "pending"],
    [run({ conclusion: null }), "pending"],
    [run({ conclusion: "", status: "QUEUED", ...RUNNING }), "pending"],
    [run({ conclusion: "", status: "IN_PROGRESS", ...RUNNING }), "pending"],
    [run({ conclusion: "", status: "WAITING", ...RUNNING }), "pending"],
    [run({ conclusion: "SUCCESS", status: "IN_PROGRESS", ...RUNNING }), "pending"],
    [status("SUCCESS"), "passed"],
    [status("FAILURE"), "failed"],
    [status("ERROR"), "failed"],
    [status("PENDING"), "pending"],
    [status("EXPECTED"), "pending"],
    [{}, "pending"],
  ];
  for (const [entry, conclusion] of table) assertEquals(conclude([entry]), conclusion, JSON.stringify(entry));
});

Deno.test("one failure fails, one pending check keeps all pending, and none is not passed", () => {
  const [good, bad, open] = [
    run({ name: "a", conclusion: "SUCCESS" }),
    run({ name: "b", conclusion: "FAILURE" }),
    run({ name: "c", status: "QUEUED" }),
  ];
  assertEquals(conclude([good, bad, open]), "failed");
  assertEquals(conclude([good, open]), "pending");
  assertEquals(conclude([good, status("SUCCESS")]), "passed");
  assertEquals(conclude([]), "no_checks");
});

Deno.test("a run that was repeated counts as its last, runs of two events count both", () => {
  const failed = run({ conclusion: "FAILURE" });
  const repeated = run({
    conclusion: "SUCCESS",
    startedAt: "2026-01-01T10:06:00Z",
    completedAt: "2026-01-01T10:09:00Z",
  });
  const overlapping = run({ conclusion: "SUCCESS", startedAt: "2026-01-01T10:00:03Z" });
  assertEquals(conclude([failed, repeated]), "passed");
  assertEquals(conclude([repeated, failed]), "passed");
  assertEquals(conclude([failed, overlapping]), "failed");
  assertEquals(conclude([failed, { ...repeated, workflowName: "Other" }]), "failed");
  const again = run({ status: "IN_PROGRESS", ...RUNNING, startedAt: "2026-01-01T10:06:00Z" });
  assertEquals(conclude([failed, again]), "pending");
});

Deno.test("checks are named after workflow and job, and only web addresses are passed on", () => {
  const [first, second] = decodeRollup(v.parse(RollupSchema, [
    run({ conclusion: "SUCCESS", detailsUrl: "javascript:alert(1)" }),
    status("SUCCESS"),
  ]));
  assertEquals([first!.name, first!.url, first!.state], ["CI / test", "", "SUCCESS"]);
  assertEquals([second!.name, second!.url], ["ci/circleci: build", "https://circleci.com/1"]);
});
