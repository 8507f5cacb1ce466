/**
 * The command that adds up what tasks came to and what they cost.
 */

import type { CommandSpec } from "../plan/command_spec.ts";
import type { Plan } from "../plan/plan.ts";
import { NO_PERMISSIONS, unionOf } from "../plan/permissions.ts";
import { brokerOf } from "../plan/plan.ts";
import { askNeeds } from "./_broker_needs.ts";

/** What tasks can be grouped by; a test compares it with the broker's own list. */
export const GROUPING_NAMES: readonly string[] = ["agent", "vendor", "repo", "day"];

/** The records of tasks, which are only read, and the broker, which may be stopped. */
function statsNeeds(plan: Plan) {
  const audit_root = brokerOf(plan).settings?.audit_root;
  return unionOf(askNeeds(plan), { ...NO_PERMISSIONS, read: audit_root === undefined ? [] : [audit_root] });
}

export const STATS_COMMANDS: readonly CommandSpec[] = [
  {
    name: "stats",
    group: "Tasks",
    summary: "Add up what tasks came to and what they cost",
    details: "Spend is what the broker has metered. An amount with + is a lower bound: some requests reported no " +
      "usage or have no price. A figure that only the agent reports is marked agent-reported and counts in no total. It " +
      "reads the records of tasks, so it works while the broker is stopped; the section about the global ceiling " +
      "needs a running one.",
    positionals: [],
    flags: [
      { name: "since", kind: "string", value: "WHEN", help: "Only tasks started since: 7d, 12h, 2026-01-31" },
      {
        name: "by",
        kind: "string",
        value: "WHAT",
        choices: GROUPING_NAMES,
        help: `Also one row for each: ${GROUPING_NAMES.join(", ")}`,
      },
    ],
    examples: [
      { words: "stats", why: "Everything there is a record of" },
      { words: "stats --since 7d --by repo", why: "The last week, the dearest repository first" },
      { words: "stats --json", why: "For programs; with the global ceiling as global_ceiling" },
    ],
    output: "data",
    uses: "home",
    config: "required",
    needs: statsNeeds,
  },
];
