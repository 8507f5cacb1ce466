/**
 * The lines of the global ceiling's ledger, one JSON object with a checksum each:
 *
 * - `opened`, once, when a ledger is begun: the tasks that there were before, which it does not count;
 * - `start`, one for each task start, written at its end;
 * - `damaged`, in the place of lines that could not be read when the file was rewritten.
 *
 * What breaks a rule in any field, or its checksum, is damaged: a figure of unknown meaning is never added up.
 */

import * as v from "valibot";
import { TaskdError } from "../../lib/errors.ts";
import { LANES } from "../agents.ts";
import { parseSealedJson, sealJson } from "../../lib/sealed_json.ts";

const MAX_LINE_BYTES = 4_096;
/** The most USD that one start can have cost; more is no figure of this program's. */
export const MAX_START_USD = 1e9;

const time = v.pipe(v.string(), v.isoTimestamp(), v.check((text) => !Number.isNaN(Date.parse(text)), "no time"));
const task_id = v.pipe(v.string(), v.regex(/^[0-9a-f]{32}$/));
const word = v.pipe(v.string(), v.minLength(1), v.maxLength(64));

const START = v.strictObject({
  kind: v.literal("start"),
  task_id,
  started_at: time,
  ended_at: time,
  vendor: v.nullable(v.picklist(LANES)),
  agent: v.nullable(word),
  auth: v.nullable(v.picklist(["api_key", "subscription"])),
  usd: v.nullable(v.pipe(v.number(), v.finite(), v.minValue(0), v.maxValue(MAX_START_USD))),
  usd_trusted: v.boolean(),
  outcome: word,
  retry_of: v.nullable(task_id),
  held_since: v.exactOptional(time),
});

const DAMAGED = v.strictObject({
  kind: v.literal("damaged"),
  lines: v.pipe(v.number(), v.safeInteger(), v.minValue(1)),
  ended_at: time,
  held_since: v.exactOptional(time),
});

const OPENED = v.strictObject({
  kind: v.literal("opened"),
  at: time,
  before: v.array(task_id),
});

const SCHEMAS = { start: START, damaged: DAMAGED, opened: OPENED } as const;

/**
 * One task start. `usd` is null when the broker cannot know it; `usd_trusted`: `usd` covers every request and
 * was metered by the broker that wrote the row. `held_since`: when `ended_at` was first found to lie in the future.
 */
export type StartLine = v.InferOutput<typeof START>;
/** Lines that could not be read, the last of which was written at `ended_at` or before. */
export type DamagedLine = v.InferOutput<typeof DAMAGED>;
export type OpenedLine = v.InferOutput<typeof OPENED>;
export type LedgerLine = StartLine | DamagedLine | OpenedLine;

const encoder = new TextEncoder();

/** The line with its newline; throws `internal` when it would be read back as damaged. */
export function encodeLine(line: LedgerLine): Uint8Array {
  const text = sealJson(JSON.stringify(line));
  if (parseLedgerLine(text, line.kind === "opened") === undefined) {
    throw new TaskdError(
      "internal",
      `Cannot write a ${line.kind} line to the ledger: it breaks the ledger's own rules`,
    );
  }
  return encoder.encode(`${text}\n`);
}

/** Parses a line without its newline; undefined when it is damaged. Only the first may be an `opened` one. */
export function parseLedgerLine(text: string, first: boolean): LedgerLine | undefined {
  const value = parseSealedJson(text);
  const kind = typeof value === "object" && value !== null && "kind" in value ? value.kind : undefined;
  if (kind !== "start" && kind !== "damaged" && kind !== "opened") return undefined;
  if (kind === "opened" && !first) return undefined;
  if (kind !== "opened" && text.length > MAX_LINE_BYTES) return undefined;
  const result = v.safeParse(SCHEMAS[kind], value, { abortEarly: true });
  return result.success ? result.output : undefined;
}
