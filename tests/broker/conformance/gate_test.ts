/**
 * The diff policy in a whole broker.
 */

import { assertEquals } from "@std/assert";
import type { Scripted } from "../../support/model_server.ts";
import { BrokerBench } from "../engine/bench.ts";
import { longTest } from "../../support/long.ts";

/** Two files, three lines. */
const TWO_FILES: Scripted[] = [
  { calls: [["write", { path: "src/a.txt", content: "1\n2\n" }], ["write", { path: "db/b.sql", content: "3\n" }]] },
  { calls: [["finish", { summary: "done" }]] },
];

const POLICIES: readonly [policy: string, outcome: string | undefined, reason: string | undefined, looks: string[]][] =
  [
    ["max_files_changed: 2", undefined, undefined, []],
    ["max_files_changed: 1", "policy_blocked", "2 files changed, and max_files_changed is 1", []],
    ["max_lines_changed: 3", undefined, undefined, []],
    ["max_lines_changed: 2", "policy_blocked", "3 lines added and deleted, and max_lines_changed is 2", []],
    ["blocked_paths: ['db/*']", "policy_blocked", "1 changed path matches db/*", []],
    ["blocked_paths: ['*.sql']", undefined, undefined, []],
    ["second_look_paths: ['**/*.sql']", undefined, undefined, ["path:**/*.sql"]],
  ];

// conformance: b2.diff_policy.max_files_changed b2.diff_policy.max_lines_changed b2.diff_policy.blocked_paths
// conformance: b2.diff_policy.second_look_paths b2.diff_policy.globs b7.diff_policy
longTest("a change at the diff policy's bounds comes to the gate, and one past them fails its task", async () => {
  for (const [policy, outcome, reason, second_look] of POLICIES) {
    await using bench = await BrokerBench.start({ script: TWO_FILES, config: `diff_policy:\n  ${policy}\n` });
    const { id } = await bench.submit();
    const record = await bench.reaches(id, "awaiting_approval");
    assertEquals([record.outcome, record.reason], [outcome, reason], policy);
    if (outcome === undefined) assertEquals(record.gate?.second_look, second_look, policy);
    else assertEquals((await bench.branches()).size, 1);
  }
});
