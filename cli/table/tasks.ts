/**
 * The commands that give the task broker work, watch it, decide about it and count it: clients of its socket, except
 * `stats`, which reads the records itself.
 */

import type { CommandSpec, FlagSpec, PositionalSpec } from "../plan/command_spec.ts";
import { unionOf } from "../plan/permissions.ts";
import { brokerOf, type Plan } from "../plan/plan.ts";
import { askNeeds, fileNeeds } from "./_broker_needs.ts";
import { ASKS_BROKER, atHome, commands, duration, file, integer, off, on, text } from "./_row.ts";
import { EGRESS_HOST, STAGE_NAMES, SUBMISSION, SUBMISSION_ARGUMENTS, TASK } from "./broker_shared.ts";

/** How submit and retry go on after the task is accepted. */
const FOLLOWING: readonly FlagSpec[] = [
  on("wait", "Also past the gate, to the very end; exits 0 only for pushed, promoted and no_diff"),
  on("detach", "Print the id and leave the task to itself"),
  on("events", "With --json: print each event as one line of JSON before the result"),
];

/** What becomes of what a task and an application changed differently. */
const DECIDING: readonly FlagSpec[] = [
  text(
    "prefer SIDE",
    "Decides every conflict of two values: ours, as the database has it, or theirs, as the task has it",
    {
      choices: ["ours", "theirs"],
    },
  ),
  file("resolve FILE", "Decides single conflicts: a JSON array of {db, table, key, column, take}"),
];

/** How approve and push wait for what was approved to land. */
const LANDING: readonly FlagSpec[] = [
  off("wait", "Return at once: what was approved lands by itself"),
  duration("timeout", "Wait so long at most; it goes on by itself, and the status is 1", { default: "1h" }),
];

const REASON: PositionalSpec = { name: "reason", kind: "word", optional: true, help: "Why, for the task's record" };

/** What tasks can be grouped by; a test compares it with the broker's own list. */
export const GROUPING_NAMES: readonly string[] = ["agent", "vendor", "repo", "day"];

/** Vendors as they are named; a test compares them with the broker's. */
export const VENDOR_NAMES: readonly string[] = ["vendor_a", "vendor_b", "vendor_c", "compat"];

/** The records of tasks, which are only read, and the broker, which may be stopped. */
function statsNeeds(plan: Plan) {
  const places = [brokerOf(plan).settings?.audit_root, plan.flags.reconcile];
  return unionOf(askNeeds(plan), { read: places.filter((path) => typeof path === "string") });
}

/** Those that may read an instruction, or decisions, from a file. */
const READS_FILE = { needs: fileNeeds } as const;

export const TASK_COMMANDS: readonly CommandSpec[] = commands("Tasks", ASKS_BROKER, [
  {
    name: "submit",
    summary: "Give a coding agent a task",
    details:
      "The task runs in a sandbox of its own, on a copy of the repository. Its id is printed at once; then its " +
      "stages and its spend are shown until it waits for approval or has ended. Ctrl-C leaves the task running.",
    positionals: SUBMISSION_ARGUMENTS,
    flags: [...SUBMISSION, ...FOLLOWING],
    examples: [
      { words: 'submit https://github.com/ada/shop "Fix the rounding in invoices"', why: "With the default agent" },
      { words: "submit git@github.com:ada/shop.git --file task.md --agent codex", why: "The instruction from a file" },
      { words: "submit https://github.com/ada/shop - --wait --json", why: "From stdin, for a script" },
      {
        words: 'submit https://github.com/ada/shop "Update the client" --egress api.example.com:443 --database shop',
        why: "It may reach one more host, and gets a branch of the database shop",
      },
    ],
    ...READS_FILE,
  },
  {
    name: "tasks",
    summary: "List tasks, the newest first",
    details: "Spend is what the broker has metered; + marks a lower bound, where requests have no price or reported " +
      "no usage, and agent-reported what only the agent reports.",
    flags: [
      text("stage STAGE", `Only those in this stage: ${STAGE_NAMES.join(", ")}`, { choices: STAGE_NAMES }),
      integer("limit N", "At most so many", { minimum: 1, default: "20" }),
      on("all", "Every task there is a record of"),
    ],
    examples: [
      { words: "tasks", why: "The last twenty" },
      { words: "tasks --stage awaiting_approval", why: "Those that wait for a person" },
    ],
  },
  {
    name: "inspect",
    summary: "Show a task's record and what the broker established about it",
    details: "Exits with 1 when the record was altered, or does not verify.",
    positionals: [TASK],
    flags: [
      on(
        "verify",
        "Compute again, from the record alone, what was approved, and hold to it what was pushed and promoted",
      ),
    ],
    examples: [
      { words: "inspect 3f9a", why: "Base, image, policy, spend, flags, setup, and what is not established" },
      { words: "inspect 3f9a --verify", why: "That what landed is what was approved" },
    ],
  },
  {
    name: "logs",
    summary: "Print what a task's agent and its setup have printed",
    details:
      "Each JSON row of an agent becomes one line, what the agent wrote and did; --raw and --json leave it as it is.",
    positionals: [TASK],
    flags: [
      on(
        "follow",
        "Go on as it comes, with stages and notes, until the task ends; with --json one line for each event",
        { letter: "f" },
      ),
      on("raw", "The output exactly as it was printed; not with -f"),
    ],
    examples: [
      { words: "logs 3f9a", why: "The output so far" },
      { words: "logs 3f9a -f", why: "Come back to a task that runs" },
    ],
  },
  {
    name: "review",
    summary: "Show a task's change: its brief, what needs a second look, the diff",
    details: "Ends with the command that approves exactly this change.",
    positionals: [TASK],
    flags: [
      on("color", "In colour also where stdout is no terminal"),
      text("table NAME", "All changed rows of this table, too; may be repeated", { repeatable: true }),
      integer("rows N", "The first N changed rows of each table, or of each --table, too", { minimum: 1 }),
      on("all", "All changed rows of all tables, too"),
      on("page", "A screen at a time, at a terminal"),
    ],
    examples: [
      { words: "review 3f9a", why: "Read before approving" },
      { words: "review 3f9a --all --page", why: "The same with every row, a screen at a time" },
      { words: "review 3f9a --all | less", why: "With every row that it changed in databases" },
      { words: "review 3f9a --color | less -R", why: "Page by page" },
    ],
  },
  {
    name: "approve",
    summary: "Approve a task's change, and wait until it has landed",
    details: "An approval names the diff that was read, by its SHA-256, and every category that needs a second look. " +
      "Without --diff it shows the change and asks, which takes a terminal. Exits with 0 once the change has landed, with " +
      "3 when it could not be pushed or is at the gate again with conflicts, with 4 when it is pushed and its data waits; " +
      "what waits is kept for taskd push. Ctrl-C takes no approval back.",
    positionals: [TASK],
    flags: [
      text("diff SHA256", "The diff that was read: its first 16 digits or more"),
      text("acknowledge CATEGORY", "A category that had its second look; may be repeated", { repeatable: true }),
      ...DECIDING,
      ...LANDING,
    ],
    examples: [
      { words: "approve 3f9a", why: "Show the change, and ask" },
      {
        words: "approve 3f9a --diff 9c56cc51b374c3ba --acknowledge lockfile",
        why: "As review prints it, for a change that was read there",
      },
    ],
    output: "note",
    ...READS_FILE,
  },
  {
    name: "deny",
    summary: "Refuse a task's change; nothing is pushed",
    positionals: [TASK, REASON],
    examples: [{ words: 'deny 3f9a "It changes the public interface"', why: "The task ends as denied" }],
    output: "note",
  },
  {
    name: "push",
    summary: "Push an approved change again that could not be pushed, or promote its data",
    details: "For tasks in push_failed or data_waits: what was approved is kept, no agent runs again. Waits until it " +
      "has landed, or could not again, with the exit status of approve; taskd kill gives it up. Conflicts of data that " +
      "waits are decided as review has listed them, by --conflicts: a round since may have found others.",
    positionals: [TASK],
    flags: [
      text("conflicts SHA256", "The conflicts that were read: its first 16 digits or more, as review prints them"),
      ...DECIDING,
      ...LANDING,
    ],
    examples: [
      { words: "push 3f9a", why: "Once the code host, or the branch store, can take it" },
      {
        words: "push 3f9a --conflicts 9c56cc51b374c3ba --prefer theirs",
        why: "Where application and task changed the same value: that of the task",
      },
    ],
    ...READS_FILE,
  },
  {
    name: "kill",
    summary: "End a task before the push, or give up an approved change that waits to land",
    positionals: [TASK, REASON],
    examples: [
      { words: "kill 3f9a", why: "The task ends as cancelled, its sandbox is gone" },
      { words: 'kill 3f9a "done by hand"', why: "In push_failed: the approved change is no longer kept" },
    ],
    output: "note",
  },
  {
    name: "pending",
    summary: "List the tasks that wait for approval, the oldest first",
    examples: [{ words: "pending", why: "Tasks that wait for a review, and until when" }],
  },
  {
    name: "retry",
    summary: "Run a task again, as a new one",
    details: "The same order, with a fresh budget; the new task's record names the old one.",
    positionals: [TASK],
    flags: [...FOLLOWING],
    examples: [{ words: "retry 3f9a --detach", why: "Print the new task's id" }],
  },
  {
    name: "prune",
    summary: "Remove the records of tasks that ended long ago, and unused mirrors",
    details:
      "Traces, diffs and logs go, and the mirrors of repositories that no task began from since. Tasks that run, " +
      "wait for approval or whose checks are watched stay.",
    flags: [
      duration("older-than", "Only what ended, or was last used, so long ago", { required: true }),
      on("dry-run", "Only say which"),
    ],
    examples: [{ words: "prune --older-than 30d --dry-run", why: "What would go" }],
  },
  {
    name: "stats",
    summary: "Add up what tasks came to and what they cost",
    details: "Spend is what the broker has metered. An amount with + is a lower bound: some requests reported no " +
      "usage or have no price. A figure that only the agent reports is marked agent-reported and counts in no total. It " +
      "reads the records of tasks, so it works while the broker is stopped; the section about the global ceiling " +
      "needs a running one.",
    flags: [
      text("since WHEN", "Only tasks started since: 7d, 12h, 2026-01-31"),
      file("reconcile FILE", "Hold a vendor's bill, the CSV file of its console, against what was metered, day by day"),
      text("vendor VENDOR", "With --reconcile, whose bill it is; by default that of all", { choices: VENDOR_NAMES }),
      text("date-column NAME", "With --reconcile, the column with the day, where it has another name than usual"),
      text("cost-column NAME", "With --reconcile, the column with the cost in US dollars, likewise"),
      text("by WHAT", `Also one row for each: ${GROUPING_NAMES.join(", ")}`, { choices: GROUPING_NAMES }),
    ],
    examples: [
      { words: "stats", why: "Everything there is a record of" },
      { words: "stats --since 7d --by repo", why: "The last week, the dearest repository first" },
      { words: "stats --reconcile cost.csv --vendor vendor_a", why: "Whether the sum is what Anthropic billed" },
      { words: "stats --json", why: "For programs; with the global ceiling as global_ceiling" },
    ],
    ...atHome("required", statsNeeds),
  },
  {
    name: "egress grant",
    summary: "Let one running task reach another host for a while",
    details:
      "Beside the egress list, for this task alone. A use is a connection, or a request of plain HTTP, that the grant " +
      "lets through, whatever comes of it. When the time is over its connections are closed. Who granted what, and how " +
      "often it was used, is in the task's trace and at its gate.",
    positionals: [TASK, EGRESS_HOST],
    flags: [
      duration("for", "For how long, at most a day", { default: "1h" }),
      integer("uses N", "For so many uses at most", { minimum: 1 }),
    ],
    examples: [{ words: "egress grant 7b21 registry.example.com --for 10m --uses 3", why: "Port 443, three times" }],
    output: "note",
  },
  {
    name: "queue add",
    summary: "Queue a task, to begin when there is room for it",
    details: "The queue is durable: its items survive a restart of the broker.",
    positionals: SUBMISSION_ARGUMENTS,
    flags: SUBMISSION,
    examples: [{ words: 'queue add https://github.com/ada/shop "Translate the emails"', why: "Print the item's id" }],
    ...READS_FILE,
  },
  {
    name: "queue list",
    summary: "List the queue, the oldest first",
    examples: [{ words: "queue list", why: "Each item's state and its task" }],
  },
  {
    name: "queue cancel",
    summary: "Take an item off the queue, or end its task",
    positionals: [{ name: "id", kind: "word", help: "The item's id, or a beginning of it that no other item has" }],
    examples: [{ words: "queue cancel 7b21", why: "It ends as cancelled" }],
    output: "note",
  },
]);
