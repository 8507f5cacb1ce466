/**
 * The tasks of an audit directory, found fast: `index.jsonl` (0600) holds what lists show of each trace, with the size
 * and time that the trace's file had then and the head that it ended with. An entry counts only while its file has that
 * size and time; any other trace is read anew. So the index may be old, damaged or gone at any time, and only time is
 * lost.
 *
 * Its heads are a second witness beside the traces: without them, a trace that has lost its last rows, or a chain that
 * was forged as a whole, cannot be distinguished from the true one.
 */

import * as v from "valibot";
import { nextTurn } from "../../lib/clock.ts";
import { hasCode, messageOf } from "../../lib/errors.ts";
import { lstatIfPresent, namesIn, withFileError, writeFileAtomic } from "../../lib/fs.ts";
import { isTaskId } from "./ids.ts";
import { foldRow } from "./record.ts";
import type { TaskRecord, TaskSummary } from "./schema.ts";
import { STAGE } from "./stages.ts";
import { summarize } from "./summary.ts";
import {
  atOnce,
  DamagedTrace,
  EMPTY_HEAD,
  scanTrace,
  type TraceFault,
  type TraceHead,
  tracePath,
  type TraceStamp,
} from "./trace.ts";
import { concat } from "../../lib/concat.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { plural } from "../../lib/text/plural.ts";

/** The most bytes of an index that are read: a million tasks. */
const MAX_INDEX_BYTES = 1_073_741_824;
/** Traces between two turns of the event loop: a millisecond's worth of what is indexed, and twenty of what is not. */
const PER_TURN = 100;
const VERSION = 1;

export interface TraceEntry {
  head: TraceHead;
  /** Bytes of the file, a torn last line included. */
  size: number;
  mtime_ms: number;
  summary: TaskSummary;
}

export interface DamagedTask {
  id: string;
  fault: TraceFault;
  /** What the index has noted of it: kept, or a forged trace would be believed the next time. */
  noted?: TraceEntry;
}

export interface Survey {
  entries: Map<string, TraceEntry>;
  damaged: Map<string, DamagedTask>;
  /** Traces that had to be read, because the index did not have them as they are. */
  read: number;
  /** Whether the index differs from what was found. */
  stale: boolean;
}

const encoder = new TextEncoder();

export function indexPath(audit_root: string): string {
  return `${audit_root}/index.jsonl`;
}

/** Writes the index; throws `denied`, `no_space` or `unavailable`; the old one is then as it was. */
export async function saveIndex(audit_root: string, entries: ReadonlyMap<string, TraceEntry>): Promise<void> {
  const lines: string[] = [];
  for (const { head, size, mtime_ms, summary } of entries.values()) {
    lines.push(`${JSON.stringify([head.seq, head.sha256, head.bytes, size, mtime_ms, summary])}\n`);
  }
  const body = encoder.encode(lines.join(""));
  const first = encoder.encode(`${JSON.stringify({ v: VERSION, sha256: sha256Hex(body) })}\n`);
  await writeFileAtomic(indexPath(audit_root), concat([first, body]), 0o600);
}

/** The index, when it is there and whole; otherwise nothing, and everything is read anew. */
function loadIndex(audit_root: string): Map<string, TraceEntry> {
  const entries = new Map<string, TraceEntry>();
  try {
    const { isFile, size } = Deno.lstatSync(indexPath(audit_root));
    if (!isFile || size > MAX_INDEX_BYTES) return entries;
    const bytes = Deno.readFileSync(indexPath(audit_root));
    const split = bytes.indexOf(0x0a) + 1;
    const first = JSON.parse(new TextDecoder().decode(bytes.subarray(0, split)));
    const body = bytes.subarray(split);
    if (first?.v !== VERSION || first.sha256 !== sha256Hex(body)) return entries;
    for (const line of new TextDecoder().decode(body).split("\n")) {
      if (line === "") continue;
      const [seq, sha256, length, size, mtime_ms, summary]: [number, string, number, number, number, TaskSummary] = JSON
        .parse(line);
      // Its digest says that this program wrote it; another version of it may know stages that this one does not.
      if (!isTaskId(summary.id) || !v.is(STAGE, summary.stage)) continue;
      entries.set(summary.id, { head: { seq, sha256, bytes: length }, size, mtime_ms, summary });
    }
    return entries;
  } catch {
    // It is a cache: whatever is wrong with it, the traces have it all.
    return new Map();
  }
}

export interface KnownOfTrace {
  /** A head that it has had. */
  known?: TraceHead | undefined;
  seen?: TraceStamp | undefined;
}

/**
 * Follows a trace from its first row.
 *
 * @throws {DamagedTrace} when it cannot be followed, or never had that head.
 */
export function readRecord(
  audit_root: string,
  id: string,
  of: KnownOfTrace = {},
): { record: TaskRecord; head: TraceHead } {
  return atOnce(recordSteps(audit_root, id, of));
}

export function* recordSteps(
  audit_root: string,
  id: string,
  { known, seen }: KnownOfTrace = {},
): Generator<TraceHead, { record: TaskRecord; head: TraceHead }> {
  const path = tracePath(audit_root, id);
  let record: TaskRecord | undefined;
  let head = EMPTY_HEAD;
  for (const { row, head: next } of scanTrace(path, EMPTY_HEAD, { seen })) {
    try {
      record = foldRow(record, row);
    } catch (error) {
      if (!hasCode(error, "corrupt")) throw error;
      throw new DamagedTrace(path, { seq: row.seq, problem: "altered", detail: error.message });
    }
    head = next;
    if (head.seq === known?.seq && head.sha256 !== known.sha256) {
      const detail = "this row, or one before, is not the one that was noted";
      throw new DamagedTrace(path, { seq: head.seq, problem: "altered", detail });
    }
    yield head;
  }
  if (record === undefined || head.seq < (known?.seq ?? 0)) {
    const detail = known === undefined ? "there is no whole row" : `there had been ${plural(known.seq, "row")}`;
    throw new DamagedTrace(path, { seq: head.seq + 1, problem: "missing", detail });
  }
  if (record.id !== id) {
    throw new DamagedTrace(path, { seq: 1, problem: "altered", detail: `it is the trace of ${record.id}` });
  }
  return { record, head };
}

export function stamp(path: string): TraceStamp | undefined {
  const info = withFileError(`Cannot look at ${path}`, () => lstatIfPresent(path));
  return info && { size: info.size, mtime_ms: info.mtime?.getTime() ?? 0, is_file: info.isFile };
}

/**
 * Finds every task. Needs no daemon, writes nothing.
 *
 * @throws {TaskdError} `denied` or `unavailable`; a directory that is not there has no tasks.
 */
export async function surveyTraces(audit_root: string): Promise<Survey> {
  const known = loadIndex(audit_root);
  const survey: Survey = { entries: new Map(), damaged: new Map(), read: 0, stale: false };
  await visitIndexed(audit_root, known, (found) => {
    if ("fault" in found) {
      survey.read++;
      survey.damaged.set(found.id, found);
      return;
    }
    const { id } = found.summary;
    if (found !== known.get(id)) survey.read++;
    survey.entries.set(id, found);
  });
  const noted = [...survey.damaged.values()].filter((task) => task.noted !== undefined).length;
  survey.stale = survey.read > survey.damaged.size || survey.entries.size + noted !== known.size;
  return survey;
}

/**
 * Calls back with everything that {@linkcode surveyTraces} finds, one by one: adding up needs no memory for all.
 *
 * @throws {TaskdError} `denied` or `unavailable`; a directory that is not there has no tasks.
 */
export async function visitTraces(
  audit_root: string,
  visit: (found: TaskSummary | DamagedTask) => void,
): Promise<void> {
  await visitIndexed(audit_root, loadIndex(audit_root), (found) => visit("fault" in found ? found : found.summary));
}

async function visitIndexed(
  audit_root: string,
  known: ReadonlyMap<string, TraceEntry>,
  visit: (found: TraceEntry | DamagedTask) => void,
): Promise<void> {
  let count = 0;
  for (const id of traceIds(audit_root)) {
    if (++count % PER_TURN === 0) await nextTurn();
    const entry = known.get(id);
    // Before the reading: a row that comes meanwhile makes the entry old, not wrong.
    const now = stamp(tracePath(audit_root, id));
    if (now === undefined) continue;
    if (entry !== undefined && entry.size === now.size && entry.mtime_ms === now.mtime_ms) {
      visit(entry);
      continue;
    }
    const found = readEntry(audit_root, id, entry, now);
    if (found !== undefined) visit(found);
  }
}

/** A trace that the index does not have as it is; undefined when there is none. */
function readEntry(
  audit_root: string,
  id: string,
  noted: TraceEntry | undefined,
  now: TraceStamp,
): TraceEntry | DamagedTask | undefined {
  try {
    const { record, head } = readRecord(audit_root, id, { known: noted?.head, seen: now });
    return { head, size: now.size, mtime_ms: now.mtime_ms, summary: summarize(record) };
  } catch (error) {
    if (hasCode(error, "not_found")) return undefined;
    const fault: TraceFault = error instanceof DamagedTrace
      ? error.fault
      : { seq: 1, problem: "unreadable", detail: messageOf(error) };
    return { id, fault, ...(noted === undefined ? {} : { noted }) };
  }
}

export function traceIds(audit_root: string): string[] {
  const traces = namesIn(audit_root).filter((name) => name.endsWith(".jsonl"));
  return traces.map((name) => name.slice(0, -".jsonl".length)).filter(isTaskId);
}
