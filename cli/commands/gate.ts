/**
 * The commands of the gate: review shows a task's change, the brief first, then the diff; approve approves a diff that
 * the person has named, or that it has just shown to them, and no other.
 */

import { crypto } from "@std/crypto/crypto";
import type { TaskView } from "../../broker/api/wire.ts";
import type { BrokerClient } from "../../broker/client/client.ts";
import { FLAG_CATEGORIES, type FlagCategory } from "../../broker/git/flags.ts";
import { renderBrief } from "../../broker/task/brief.ts";
import type { TrustBrief } from "../../broker/task/schema.ts";
import type { Gate } from "../../broker/task/stages.ts";
import { TaskdError } from "../../lib/errors.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { brokerCommand } from "../plan/command_module.ts";
import { processTerminal, Prompt } from "../setup/prompt.ts";
import { decodeDiff, diffText } from "../text/diff_text.ts";
import { EXIT_FAILURE, EXIT_OK } from "../text/exit_codes.ts";
import type { Io } from "../text/io.ts";
import { briefOf } from "./inspect.ts";
import { approveCommand, DIFF_DIGITS, shortId, standing } from "./_task_text.ts";

/** Prints the change and how to approve it; with --json they are the result. */
export const review = brokerCommand({
  async run(args, io, broker) {
    const change = await readChange(broker, await broker.task(args.positional("id")));
    const { task } = change;
    const gate = openGate(task);
    const approve_command = gate === undefined ? null : approveCommand(task.id, gate);
    if (io.json) return { ...change, approve_command };
    io.styled(knownText(change));
    io.styled(`\n${shownDiff(change, io.colours || args.on("color"))}\n`);
    io.out(
      approve_command === null ? `The task is at ${standing(task)}: there is nothing to approve` : [
        "To approve exactly this change:",
        `  ${approve_command}`,
        "To refuse it:",
        `  taskd deny ${shortId(task.id)} "why"`,
      ].join("\n"),
    );
    return undefined;
  },
});

interface ApproveResult {
  id: string;
  /** False when the person who was asked did not say yes. */
  approved: boolean;
  diff_sha256: string;
  acknowledged: string[];
}

/** Approves the named digest, or shows the change and asks. */
export const approve = brokerCommand<ApproveResult>({
  async run(args, io, broker) {
    const task = await broker.task(args.positional("id"));
    const gate = openGate(task);
    if (gate === undefined) {
      throw new TaskdError("wrong_state", `Cannot approve the task ${task.id}: it is at ${standing(task)}`, {
        hint: `See taskd inspect ${shortId(task.id)}`,
      });
    }
    const given = [...new Set(args.texts("acknowledge"))];
    checkCategories(given, gate);
    const named = args.text("diff");
    if (named === undefined) return await ask({ task, gate, given }, io, broker);
    checkDiff(task, gate, named);
    checkAcknowledged(task, gate, given);
    return await sendApproval(broker, task, { diff_sha256: gate.diff_sha256, acknowledged: given });
  },
  render({ id, approved }) {
    if (!approved) return `Nothing is approved; ${id} still waits (taskd deny ${shortId(id)} refuses it)`;
    return `Approved ${id}: its change is being pushed (taskd logs ${shortId(id)} -f)`;
  },
  // Who asks for an approval and gets none has failed.
  exitCode: ({ approved }) => approved ? EXIT_OK : EXIT_FAILURE,
});

async function sendApproval(
  broker: BrokerClient,
  { id }: TaskView,
  { diff_sha256, acknowledged }: Pick<ApproveResult, "diff_sha256" | "acknowledged">,
): Promise<ApproveResult> {
  await broker.approve(id, { diff_sha256, acknowledge: acknowledged });
  return { id, approved: true, diff_sha256, acknowledged };
}

/** A category that the gate does not have is a slip, or comes from another task's review. */
function checkCategories(given: readonly string[], { second_look }: Gate): void {
  const stray = given.find((category) => !second_look.includes(category));
  if (stray === undefined) return;
  throw new TaskdError("usage", `Cannot acknowledge ${JSON.stringify(stray.slice(0, 100))}: the change has no such`, {
    hint: second_look.length === 0 ? "It needs no second look" : `It has: ${second_look.join(", ")}`,
  });
}

function checkDiff({ id }: TaskView, { diff_sha256 }: Gate, named: string): void {
  if (!/^[0-9a-f]+$/i.test(named) || named.length < DIFF_DIGITS || named.length > 64) {
    throw new TaskdError("usage", `Cannot read --diff: it is not ${DIFF_DIGITS} to 64 digits of a SHA-256`, {
      hint: `taskd review ${shortId(id)} ends with the whole command`,
    });
  }
  if (diff_sha256.startsWith(named.toLowerCase())) return;
  throw new TaskdError("stale_diff", `Cannot approve the task ${id}: the diff at its gate is another one`, {
    hint: `Read it first: taskd review ${shortId(id)}`,
  });
}

function checkAcknowledged({ id }: TaskView, gate: Gate, given: readonly string[]): void {
  const missing = gate.second_look.filter((category) => !given.includes(category));
  if (missing.length === 0) return;
  const message = `Cannot approve the task ${id}: not acknowledged yet: ${missing.join(", ")}`;
  throw new TaskdError("not_acknowledged", message, { hint: `When you have looked: ${approveCommand(id, gate)}` });
}

/** Shows everything, then asks; whatever is not a clear yes approves nothing. */
async function ask(
  { task, gate, given }: { task: TaskView; gate: Gate; given: readonly string[] },
  io: Io,
  broker: BrokerClient,
): Promise<ApproveResult> {
  if (io.json || !Deno.stdin.isTerminal() || !Deno.stderr.isTerminal()) {
    throw new TaskdError("usage", "Cannot approve without --diff: there is no terminal to show the change on", {
      hint: `taskd review ${shortId(task.id)} shows it and ends with the command to approve it`,
    });
  }
  const prompt = new Prompt(processTerminal, io.signal);
  const change = await readChange(broker, task);
  const refused = { id: task.id, approved: false, diff_sha256: gate.diff_sha256, acknowledged: [] };
  prompt.say(knownText(change));
  if (!await prompt.confirm("\nShow the diff?", true)) return refused;
  prompt.say(`\n${shownDiff(change, io.colours)}\n`);
  for (const category of gate.second_look) {
    if (given.includes(category)) continue;
    if (!await prompt.confirm(`Have you looked at ${categoryWords(category)}?`, false)) return refused;
  }
  if (!await prompt.confirm(`Approve this change of ${sanitizeLine(task.repo)}, and push it?`, false)) return refused;
  return await sendApproval(broker, task, { diff_sha256: gate.diff_sha256, acknowledged: [...gate.second_look] });
}

function categoryWords(category: string): string {
  const known = Object.hasOwn(FLAG_CATEGORIES, category) ? FLAG_CATEGORIES[category as FlagCategory] : undefined;
  return sanitizeLine(known === undefined ? category : `${category} (${known})`);
}

interface GateChange {
  task: TaskView;
  brief: TrustBrief | null;
  /** As git writes it: anything can be in it. */
  diff: string;
}

/**
 * @throws {TaskdError} `not_found` before there is a change; `corrupt` when the diff is not the one that the task's
 * record names: nobody should decide by it.
 */
async function readChange(broker: BrokerClient, task: TaskView): Promise<GateChange> {
  const { bytes } = await broker.diff(task.id);
  const recorded = recordedDigest(task);
  if (recorded !== undefined && recorded !== new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex()) {
    throw new TaskdError("corrupt", `Cannot show the change of the task ${task.id}: its diff was altered on the disk`, {
      hint: "The change itself is in git and is not touched; deny the task and run it again",
    });
  }
  return { task, brief: await briefOf(broker, task.id), diff: decodeDiff(bytes) };
}

/** SHA-256 of the diff's text, as it was written down when the change was collected. */
function recordedDigest({ evidence }: TaskView): string | undefined {
  const { change } = evidence;
  if (typeof change !== "object" || change === null || Array.isArray(change)) return undefined;
  return typeof change.shown_sha256 === "string" ? change.shown_sha256 : undefined;
}

/** What the gate asks about; undefined when the task does not wait for approval. */
function openGate({ stage, gate }: TaskView): Gate | undefined {
  return stage === "awaiting_approval" ? gate : undefined;
}

/** The brief, safe to print. */
function knownText({ task, brief }: Pick<GateChange, "task" | "brief">): string {
  const { trace } = task;
  return [
    ...(trace.intact ? [] : [`THE RECORD OF THIS TASK IS ALTERED OR DAMAGED: ${sanitizeLine(trace.fault)}`, ""]),
    ...(task.sensitive ? ["This task is marked as sensitive.", ""] : []),
    "instruction:",
    ...task.instruction.split("\n").map((line) => `  ${sanitizeLine(line)}`),
    "",
    brief === null ? "There is no brief: nothing was established about this change" : renderBrief(brief).trimEnd(),
  ].join("\n");
}

/** The diff, safe to print. */
function shownDiff({ diff }: Pick<GateChange, "diff">, colours: boolean): string {
  return diff === "" ? "The diff is empty" : diffText(diff, colours);
}
