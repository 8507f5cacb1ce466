/**
 * The commands of the gate: review shows a task's change, the brief first, then the diff; approve approves a diff that
 * the person has named, or that it has just shown to them, and no other.
 */

import type { TaskView } from "../../broker/api/wire.ts";
import type { BrokerClient } from "../../broker/client/client.ts";
import { FLAG_CATEGORIES, type FlagCategory } from "../../broker/git/flags.ts";
import { countFiles } from "../../broker/git/human_diff.ts";
import { renderBrief } from "../../broker/task/brief.ts";
import { PAGE_ROWS } from "../../broker/task/page_proof.ts";
import type { DatabaseDiffQuery, DatabaseRows } from "../../broker/task/row_pages.ts";
import type { TrustBrief } from "../../broker/task/schema.ts";
import { type BriefTable, briefTables, seenOf } from "../../broker/task/seen.ts";
import { isPageShown, isShown } from "../../broker/task/shown.ts";
import type { Gate } from "../../broker/task/stages.ts";
import { openConflicts } from "../../broker/databases/evidence.ts";
import { readDigest } from "../../broker/task/decisions.ts";
import type { DatabaseConflicts, DecideRequest } from "../../broker/task/database_schema.ts";
import { isDecidable } from "../../lib/merge/decidable.ts";
import { hasCode, TaskdError } from "../../lib/errors.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { rowText } from "../../lib/sqlite/diff_text.ts";
import { contentText } from "../../lib/text/characters.ts";
import { plural } from "../../lib/text/plural.ts";
import { sanitizeLine, sanitizeText } from "../../lib/text/sanitize.ts";
import { shellWord } from "../../lib/text/shell_word.ts";
import { brokerCommand } from "../plan/command_module.ts";
import { processTerminal, Prompt } from "../setup/prompt.ts";
import { diffText } from "../text/diff_text.ts";
import { EXIT_FAILURE } from "../text/exit_codes.ts";
import type { Io } from "../text/io.ts";
import { Screens } from "../text/screens.ts";
import { conflictLines, decideRequest, keyText, sidesOf } from "./_conflicts.ts";
import { briefOf } from "./inspect.ts";
import { approveCommand, decideCommand, decisionText, isDigestOf, shortId, standing } from "./_task_text.ts";
import { type FollowedTask, landingExitCode, watchLanding } from "./_watch_task.ts";

/** Rows between two questions. */
const SCREEN_ROWS = 40;

/** Prints the change and how to approve it; with --json they are the result. */
export const review = brokerCommand({
  async run(args, io, broker) {
    const change = await readChange(broker, await broker.task(args.positional("id")));
    const { task } = change;
    const gate = openGate(task);
    const { notes } = await broker.bases(task.id);
    const approve_command = gate === undefined ? null : approveCommand(task.id, gate);
    const conflicts = openConflicts(task);
    const decides = gate === undefined && conflicts.some(({ conflicts }) => conflicts.some(isDecidable));
    const decide_command = decides ? decideCommand(task.id, readDigest(conflicts)) : null;
    const named = args.texts("table");
    const all = briefTables(change.brief?.databases).filter(({ of }) => of > 0);
    const stray = named.find((name) => !all.some(({ table }) => table === name));
    if (stray !== undefined) throw new TaskdError("not_found", `The change has no rows in a table ${stray}`);
    const most = args.on("all") ? undefined : args.number("rows");
    const is_of_all = args.on("all") || most !== undefined && named.length === 0;
    const tables = is_of_all ? all : all.filter(({ table }) => named.includes(table));
    if (io.json && tables.length > 0) {
      io.outJson({ ok: true, ...change, bases: notes, conflicts, decide_command, approve_command });
      for (const { database, table, ...of } of tables) {
        const rows = rowsOf(broker, task, { database, table, ...of }, most, (row) => row);
        let next = await rows.next();
        for (; !next.done; next = await rows.next()) io.outJson({ database, table, ...next.value });
        if (next.value !== undefined) io.outJson({ database, table, gone: next.value });
      }
      return undefined;
    }
    if (io.json) return { ...change, bases: notes, conflicts, decide_command, approve_command };
    const text = async function* () {
      yield knownText(change);
      yield* await conflictText(task, conflicts, io.columns);
      for (const note of notes) yield `since then: ${sanitizeLine(note)}`;
      yield `\n${shownDiff(change, io.colours || args.on("color"))}\n`;
      for (const table of tables) {
        const first = most !== undefined && most < table.of ? `, the first ${most}` : "";
        yield sanitizeLine(`${table.name}: ${plural(table.of, "row")}${first}`);
        const gone = yield* rowsOf(broker, task, table, most, (row) => sanitizeText(rowText(row)));
        yield gone === undefined ? "" : sanitizeLine(`not kept after the decision, beyond the brief: ${gone}`);
      }
      const isShown = (table: BriefTable) => tables.includes(table) && (most === undefined || most >= table.of);
      const folded = all.filter((table) => table.to < table.of && !isShown(table));
      if (folded.length > 0) {
        const [{ table }] = folded as [BriefTable];
        const one = folded.length === 1 && sanitizeLine(table) === table;
        yield `To see every row: taskd review ${shortId(task.id)} ${one ? `--table ${shellWord(table)}` : "--all"}\n`;
      }
      if (approve_command !== null) {
        yield `To approve exactly this, ${gate!.diff_sha256}:`;
        yield `  ${approve_command}${conflicts.some(({ conflicts }) => conflicts.some(isDecidable)) ? DECIDES : ""}`;
        yield `To refuse it:\n  taskd deny ${shortId(task.id)} "why"`;
        return;
      }
      yield sanitizeText(decisionText(task));
      if (decide_command !== null) {
        yield `To decide what is in conflict, as it stands here:\n  ${decide_command}${DECIDES}`;
      }
    };
    const screens = args.on("page") ? screensOf(io) : undefined;
    for await (const part of text()) {
      if (screens === undefined) io.styled(part);
      else if (!await screens.write(part)) break;
    }
    return undefined;
  },
});

/** Screens of the terminal. */
function screensOf(io: Io): Screens {
  const { size } = io;
  if (size === undefined || !Deno.stdin.isTerminal()) {
    throw new TaskdError("usage", "Cannot show the change page by page: there is no terminal", {
      hint: "Leave --page out",
    });
  }
  const prompt = new Prompt(processTerminal, io.signal);
  return new Screens({ ...size, write: (text) => io.styled(text), more: () => prompt.confirm("Go on?", true) });
}

/** The rows of a table, at most so many, as `show` has them; after the decision, why they are no longer kept. */
async function* rowsOf<T>(
  broker: BrokerClient,
  task: TaskView,
  table: BriefTable,
  most = Infinity,
  show: (row: DatabaseRows["rows"][number]) => T,
): AsyncGenerator<T, string | undefined> {
  let left = most;
  try {
    for await (const rows of pagesOf(broker, task, table)) {
      yield* rows.slice(0, left).map(show);
      left -= rows.length;
      if (left <= 0) break;
    }
  } catch (error) {
    if (task.stage === "awaiting_approval" || !hasCode(error, "not_found")) throw error;
    return error.message;
  }
}

/** Where there are conflicts, an approval says what becomes of them. */
const DECIDES = " --prefer ours|theirs, or --resolve FILE";

/** What keeps the change from landing, safe to print. */
async function conflictText(
  { reason }: TaskView,
  found: readonly DatabaseConflicts[],
  columns: number | undefined,
): Promise<string[]> {
  if (found.length === 0) return [];
  const lines = ["", sanitizeLine(reason ?? "")];
  for (const { db, base, conflicts, total } of found) {
    if (total === 0) continue;
    lines.push(sanitizeLine(`in conflict, ours is what ${db}@${base} has, theirs what the task has:`));
    lines.push(...await conflictLines(conflicts, total, columns));
  }
  return lines;
}

interface Answer {
  id: string;
  /** False when the person who was asked did not say yes. */
  approved: boolean;
  diff_sha256: string;
  acknowledged: string[];
}

/** Of one that was approved also how it came out, where that was waited for. */
type ApproveResult = Answer & Partial<FollowedTask>;

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
    const answer = await answerOf(args.text("diff"), { task, gate, given, decide: decideRequest(args) }, io, broker);
    if (!answer.approved || !args.on("wait")) return answer;
    if (!io.json) io.note(`Approved ${task.id}: its change is being pushed`);
    return { ...answer, ...await watchLanding(io, broker, task, args.numberOf("timeout")) };
  },
  render({ id, approved, task }) {
    if (!approved) return `Nothing is approved; ${id} still waits (taskd deny ${shortId(id)} refuses it)`;
    if (task === undefined) return `Approved ${id}: its change is being pushed (taskd logs ${shortId(id)} -f)`;
    return `Approved ${id}: it is at ${standing(task)}`;
  },
  // Who asks for an approval and gets none has failed.
  exitCode: ({ approved, followed = false, ...task }) =>
    approved ? landingExitCode({ ...task, followed } as FollowedTask) : EXIT_FAILURE,
});

/** What is to be approved, and what was said with the call. */
interface Asked {
  task: TaskView;
  gate: Gate;
  given: string[];
  decide: DecideRequest | undefined;
}

async function answerOf(named: string | undefined, asked: Asked, io: Io, broker: BrokerClient): Promise<Answer> {
  if (named === undefined) return await ask(asked, io, broker);
  const { task, gate, given, decide } = asked;
  checkDiff(task, gate, named);
  checkAcknowledged(task, gate, given);
  return await sendApproval(broker, task, {
    diff_sha256: gate.diff_sha256,
    acknowledge: given,
    ...(decide && { decide }),
  });
}

async function sendApproval(
  broker: BrokerClient,
  { id }: TaskView,
  request: Parameters<BrokerClient["approve"]>[1],
): Promise<Answer> {
  await broker.approve(id, request);
  return { id, approved: true, diff_sha256: request.diff_sha256, acknowledged: [...request.acknowledge] };
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
  if (isDigestOf(diff_sha256, named, { flag: "--diff", id })) return;
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
async function ask({ task, gate, given, decide }: Asked, io: Io, broker: BrokerClient): Promise<Answer> {
  if (io.json || !Deno.stdin.isTerminal() || !io.errorIsTerminal) {
    throw new TaskdError("usage", "Cannot approve without --diff: there is no terminal to show the change on", {
      hint: `taskd review ${shortId(task.id)} shows it and ends with the command to approve it`,
    });
  }
  const prompt = new Prompt(processTerminal, io.signal);
  const change = await readChange(broker, task);
  const refused = { id: task.id, approved: false, diff_sha256: gate.diff_sha256, acknowledged: [] };
  prompt.say(knownText(change));
  const conflicts = openConflicts(task);
  for (const line of await conflictText(task, conflicts, io.columns)) prompt.say(line);
  const decided = decide ?? await askEach(prompt, conflicts);
  for (const note of (await broker.bases(task.id)).notes) prompt.say(`since then: ${sanitizeLine(note)}`);
  if (!await prompt.confirm("\nShow the diff?", true)) return refused;
  prompt.say(`\n${shownDiff(change, io.colours)}\n`);
  const tables = briefTables(change.brief?.databases);
  for (const category of gate.second_look) {
    if (given.includes(category)) continue;
    const table = tables.find((one) => one.category === category);
    if (table !== undefined && !table.unread && await readRows(broker, prompt, task, table)) continue;
    if (table === undefined && !await prompt.confirm(`Have you looked at ${categoryWords(category)}?`, false)) {
      return refused;
    }
    const unread = table &&
      (table.unread
        ? `${sanitizeLine(table.name)} cannot be read to the end`
        : `${plural(table.of - table.to, "row")} of ${sanitizeLine(table.name)} not read`);
    if (unread !== undefined && !await prompt.confirm(`${unread}: acknowledge that?`, false)) return refused;
  }
  if (!await prompt.confirm(`Approve this change of ${sanitizeLine(task.repo)}, and push it?`, false)) return refused;
  const files = Array.from({ length: countFiles(change.diff) }, () => true);
  const seen = seenOf(change.brief, files, tables);
  return await sendApproval(broker, task, {
    diff_sha256: gate.diff_sha256,
    acknowledge: gate.second_look,
    seen,
    ...(decided && { decide: decided }),
  });
}

/** Asks of each conflict that has two values which of them stays. */
async function askEach(prompt: Prompt, found: readonly DatabaseConflicts[]): Promise<DecideRequest | undefined> {
  const resolve: NonNullable<DecideRequest["resolve"]> = [];
  for (const { db, base, conflicts } of found) {
    for (const conflict of conflicts.filter(isDecidable)) {
      const { table, key, column } = conflict;
      const [, ours, theirs] = sidesOf(conflict);
      const where = [sanitizeLine(`${db}@${base} ${table}`), keyText(conflict), sanitizeLine(column ?? "")];
      const sides = [{ value: "ours", help: ours }, { value: "theirs", help: theirs }] as const;
      const take = await prompt.choose(`${where.filter(Boolean).join(" ")}: which stays?`, sides, "ours");
      const place = { db, table, ...(key && { key }), ...(column === undefined ? {} : { column }) };
      resolve.push({ ...place, take, ours: conflict.ours ?? null });
    }
  }
  return resolve.length === 0 ? undefined : { resolve };
}

/** Shows a table's rows page by page, and counts them in `to`; whether it came to the end. */
async function readRows(broker: BrokerClient, prompt: Prompt, task: TaskView, table: BriefTable): Promise<boolean> {
  let read = 0;
  for await (const rows of pagesOf(broker, task, table, SCREEN_ROWS)) {
    const more = `${read === 0 ? "Show the" : "Go on:"} ${plural(table.of - read, "row")} of ${
      sanitizeLine(table.name)
    }`;
    if (!await prompt.confirm(`${more}?`, true)) break;
    prompt.say(rows.map(rowText).join("\n"));
    read += rows.length;
    table.to = Math.max(table.to, read);
  }
  return read >= table.of;
}

async function* pagesOf(
  broker: BrokerClient,
  task: TaskView,
  { database, table }: BriefTable,
  most = Infinity,
): AsyncGenerator<DatabaseRows["rows"]> {
  for (let next: string | undefined = ""; next !== undefined;) {
    const query: DatabaseDiffQuery = { database, table, limit: PAGE_ROWS, ...(next && { cursor: next }) };
    const page: DatabaseRows = await broker.databaseDiff(task.id, query);
    if (!await isPageShown(task, query, page, sha256Hex)) {
      throw new TaskdError("altered", `Cannot show the rows of ${table}: they are not those at the gate`, {
        hint: `Look at who could write to the store, and deny the task: taskd deny ${shortId(task.id)} "why"`,
      });
    }
    for (let at = 0; at < page.rows.length; at += most) yield page.rows.slice(at, at + most);
    next = page.next;
  }
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
 * @throws {TaskdError} `not_found` before there is a change; `altered` when diff or brief are not those that the
 * task's record names: no decision should rest on it.
 */
async function readChange(broker: BrokerClient, task: TaskView): Promise<GateChange> {
  const [{ bytes }, brief] = [await broker.diff(task.id), await briefOf(broker, task.id)];
  if (!await isShown(task, { diff: bytes, brief }, sha256Hex)) {
    throw new TaskdError(
      "altered",
      `Cannot show the change of the task ${task.id}: its diff or its brief was altered`,
      { hint: "The change itself is in git and is not touched; deny the task and run it again" },
    );
  }
  return { task, brief, diff: contentText(bytes) };
}

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
