/**
 * What an agent printed, as a person wants to follow it: agents print rows of JSON, of which what the agent wrote and
 * did becomes one line. Anything else is shown as it is, and `taskd logs --raw` has everything as it was printed.
 */

import { parseProgress } from "../../broker/agent/progress_reader.ts";
import { parseJson } from "../../lib/text/json.ts";

/** A longer line is no row of an agent's for a person to read. */
const MAX_ROW_CHARS = 65_536;
/** Characters of a tool's input that are shown. */
const MAX_INPUT_CHARS = 120;

type Row = Readonly<Record<string, unknown>>;

/** The lines that `text` is to be followed by; none for rows that say nothing of the work. */
export function readableLines(text: string): string[] {
  // A name may have line ends in it, too.
  return text.replace(/\r?\n$/, "").split("\n").flatMap(readableLine).flatMap((line) => line.split("\n"));
}

function readableLine(line: string): string[] {
  if (!line.startsWith("{") || line.length > MAX_ROW_CHARS) return [line];
  return ownRow(line) ?? vendorRow(line) ?? [line];
}

/** A row of the agent that comes with this program. */
function ownRow(line: string): string[] | undefined {
  const row = parseProgress(line);
  switch (row?.type) {
    case undefined:
      return undefined;
    case "turn":
      return [];
    case "said":
      return [row.text];
    case "tool":
      return [`[${row.tool}] ${row.ok ? "" : "failed: "}${row.summary}`];
    case "waiting":
      return [`[waiting] ${row.summary}`];
    case "result":
      return [`[${row.outcome}] ${row.summary}`];
  }
}

/** Rows that are not shown: what tools answered is long, and was asked for in the row before. */
const SILENT: ReadonlySet<unknown> = new Set(
  "user system thread.started turn.started turn.completed item.started item.updated".split(" "),
);

/** A row of Claude Code's `stream-json`, or of `codex exec --json`. */
function vendorRow(line: string): string[] | undefined {
  const row = record(parseJson(line));
  switch (row?.type) {
    case "assistant":
      return list(record(row.message)?.content)?.flatMap(contentLines);
    case "result":
      return text(row.result) === undefined ? undefined : [`[${text(row.subtype) ?? "result"}] ${text(row.result)}`];
    case "item.completed":
      return itemLines(record(row.item));
    default:
      return SILENT.has(row?.type) ? [] : undefined;
  }
}

function contentLines(part: Row): string[] {
  if (part.type === "text") return text(part.text)?.split("\n") ?? [];
  if (part.type !== "tool_use") return [];
  return [`[${text(part.name) ?? "tool"}] ${(JSON.stringify(part.input) ?? "").slice(0, MAX_INPUT_CHARS)}`];
}

function itemLines(item: Row | undefined): string[] | undefined {
  switch (item?.type) {
    case "agent_message":
      return text(item.text)?.split("\n");
    case "command_execution":
      return [`[command] ${(text(item.command) ?? "").slice(0, MAX_INPUT_CHARS)}`];
    case "file_change":
      return list(item.changes)?.map((change) => `[${text(change.kind) ?? "change"}] ${text(change.path) ?? ""}`);
    case "reasoning":
      return [];
    default:
      return undefined;
  }
}

function record(value: unknown): Row | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value as Row : undefined;
}

function list(value: unknown): Row[] | undefined {
  return Array.isArray(value) ? value.map(record).filter((each) => each !== undefined) : undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
