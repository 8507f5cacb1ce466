/**
 * The commands of the task broker's queue, and the one that prints the address of its web pages.
 */

import type { CommandSpec } from "../plan/command_spec.ts";
import { submitNeeds } from "./_broker_needs.ts";
import { ASKS_BROKER, SUBMISSION, SUBMISSION_ARGUMENTS } from "./broker_shared.ts";

export const QUEUE_COMMANDS: readonly CommandSpec[] = [
  {
    name: "queue add",
    group: "Tasks",
    summary: "Queue a task, to begin when there is room for it",
    details: "The queue is durable: its items survive a restart of the broker.",
    positionals: SUBMISSION_ARGUMENTS,
    flags: SUBMISSION,
    examples: [{ words: 'queue add https://github.com/ada/shop "Translate the emails"', why: "Print the item's id" }],
    output: "data",
    uses: "broker",
    needs: submitNeeds,
  },
  {
    name: "queue list",
    group: "Tasks",
    summary: "List the queue, the oldest first",
    positionals: [],
    flags: [],
    examples: [{ words: "queue list", why: "Each item's state and its task" }],
    output: "data",
    ...ASKS_BROKER,
  },
  {
    name: "queue cancel",
    group: "Tasks",
    summary: "Take an item off the queue, or end its task",
    positionals: [{ name: "id", kind: "word", help: "The item's id, or a beginning of it that no other item has" }],
    flags: [],
    examples: [{ words: "queue cancel 7b21", why: "It ends as cancelled" }],
    output: "note",
    ...ASKS_BROKER,
  },
  {
    name: "ui",
    group: "Broker",
    summary: "Print the address of the broker's web pages",
    details: "The address holds a token that is valid until the broker stops. Anyone who has it can approve.",
    positionals: [],
    flags: [],
    examples: [{ words: "ui", why: "Open it in a browser on this host" }],
    output: "data",
    ...ASKS_BROKER,
  },
];
