/**
 * The commands that give the task broker work, watch it and decide about it: clients of its socket.
 */

import type { CommandSpec, FlagSpec, PositionalSpec } from "../plan/command_spec.ts";
import { submitNeeds } from "./_broker_needs.ts";
import { ASKS_BROKER, STAGE_NAMES, SUBMISSION, SUBMISSION_ARGUMENTS, TASK } from "./broker_shared.ts";

/** How submit and retry go on after the task is accepted. */
const FOLLOWING: readonly FlagSpec[] = [
  { name: "wait", kind: "boolean", help: "Also past the gate, to the very end; exits 0 only for pushed and no_diff" },
  { name: "detach", kind: "boolean", help: "Print the id and leave the task to itself" },
  { name: "events", kind: "boolean", help: "With --json: print each event as one line of JSON before the result" },
];

const REASON: PositionalSpec = {
  name: "reason",
  kind: "word",
  optional: true,
  help: "Why, for the task's record",
};

export const TASK_COMMANDS: readonly CommandSpec[] = [
  {
    name: "submit",
    group: "Tasks",
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
    output: "data",
    uses: "broker",
    needs: submitNeeds,
  },
  {
    name: "tasks",
    group: "Tasks",
    summary: "List tasks, the newest first",
    details: "Spend is what the broker has metered; + marks a lower bound, where requests have no price or reported " +
      "no usage, and agent-reported what only the agent reports.",
    positionals: [],
    flags: [
      {
        name: "stage",
        kind: "string",
        value: "STAGE",
        choices: STAGE_NAMES,
        help: `Only those in this stage: ${STAGE_NAMES.join(", ")}`,
      },
      { name: "limit", kind: "integer", minimum: 1, value: "N", default: "20", help: "At most so many" },
      { name: "all", kind: "boolean", help: "Every task there is a record of" },
    ],
    examples: [
      { words: "tasks", why: "The last twenty" },
      { words: "tasks --stage awaiting_approval", why: "Those that wait for a person" },
    ],
    output: "data",
    ...ASKS_BROKER,
  },
  {
    name: "inspect",
    group: "Tasks",
    summary: "Show a task's record and what the broker established about it",
    details: "Exits with 1 when the record was altered.",
    positionals: [TASK],
    flags: [],
    examples: [{ words: "inspect 3f9a", why: "Base, image, policy, spend, flags, setup, and what is not established" }],
    output: "data",
    ...ASKS_BROKER,
  },
  {
    name: "logs",
    group: "Tasks",
    summary: "Print what a task's agent and its setup have printed",
    details: "With -f, each JSON row of an agent becomes one line: what the agent wrote and did.",
    positionals: [TASK],
    flags: [{
      name: "follow",
      letter: "f",
      kind: "boolean",
      help: "Go on as it comes, with stages and notes, until the task ends; with --json one line for each event",
    }],
    examples: [
      { words: "logs 3f9a", why: "The output so far" },
      { words: "logs 3f9a -f", why: "Come back to a task that runs" },
    ],
    output: "data",
    ...ASKS_BROKER,
  },
  {
    name: "review",
    group: "Tasks",
    summary: "Show a task's change: its brief, what needs a second look, the diff",
    details: "Ends with the command that approves exactly this change.",
    positionals: [TASK],
    flags: [{ name: "color", kind: "boolean", help: "In colour also where stdout is no terminal" }],
    examples: [
      { words: "review 3f9a", why: "Read before approving" },
      { words: "review 3f9a --color | less -R", why: "Page by page" },
    ],
    output: "data",
    ...ASKS_BROKER,
  },
  {
    name: "approve",
    group: "Tasks",
    summary: "Approve a task's change, which is then pushed",
    details: "An approval names the diff that was read, by its SHA-256, and every category that needs a second look. " +
      "Without --diff it shows the change and asks, which takes a terminal.",
    positionals: [TASK],
    flags: [
      { name: "diff", kind: "string", value: "SHA256", help: "The diff that was read: its first 16 digits or more" },
      {
        name: "acknowledge",
        kind: "string",
        value: "CATEGORY",
        repeatable: true,
        help: "A category that had its second look; may be repeated",
      },
    ],
    examples: [
      { words: "approve 3f9a", why: "Show the change, and ask" },
      {
        words: "approve 3f9a --diff 9c56cc51b374c3ba --acknowledge lockfile",
        why: "As review prints it, for a change that was read there",
      },
    ],
    output: "note",
    ...ASKS_BROKER,
  },
  {
    name: "deny",
    group: "Tasks",
    summary: "Refuse a task's change; nothing is pushed",
    positionals: [TASK, REASON],
    flags: [],
    examples: [{ words: 'deny 3f9a "It changes the public interface"', why: "The task ends as denied" }],
    output: "note",
    ...ASKS_BROKER,
  },
  {
    name: "kill",
    group: "Tasks",
    summary: "End a task wherever it stands before the push",
    positionals: [TASK, REASON],
    flags: [],
    examples: [{ words: "kill 3f9a", why: "The task ends as cancelled, its sandbox is gone" }],
    output: "note",
    ...ASKS_BROKER,
  },
  {
    name: "pending",
    group: "Tasks",
    summary: "List the tasks that wait for approval, the oldest first",
    positionals: [],
    flags: [],
    examples: [{ words: "pending", why: "Tasks that wait for a review, and until when" }],
    output: "data",
    ...ASKS_BROKER,
  },
  {
    name: "retry",
    group: "Tasks",
    summary: "Run a task again, as a new one",
    details: "The same order, with a fresh budget; the new task's record names the old one.",
    positionals: [TASK],
    flags: [...FOLLOWING],
    examples: [{ words: "retry 3f9a --detach", why: "Print the new task's id" }],
    output: "data",
    ...ASKS_BROKER,
  },
  {
    name: "prune",
    group: "Tasks",
    summary: "Remove the records of tasks that ended long ago",
    details: "Traces, diffs and logs go. Tasks that run, wait for approval or whose checks are watched stay.",
    positionals: [],
    flags: [
      {
        name: "older-than",
        kind: "duration",
        value: "DURATION",
        required: true,
        help: "Only tasks that ended so long ago",
      },
      { name: "dry-run", kind: "boolean", help: "Only say which" },
    ],
    examples: [{ words: "prune --older-than 30d --dry-run", why: "What would go" }],
    output: "data",
    ...ASKS_BROKER,
  },
];
