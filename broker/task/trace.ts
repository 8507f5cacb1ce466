/**
 * Reading a trace, `<audit_root>/<id>.jsonl`: line by line, with bounds, each row checked by its checksum and against
 * the one before. No row after the first that is not what was written is passed on; it is read again before that is said,
 * since a bit may flip in a read. A row without its newline at the end was still being written when the machine or the
 * broker stopped; nothing has acted on it.
 */

import { nextTurn } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { withFileError } from "../../lib/fs.ts";
import { MAX_LINE_BYTES, NO_PREVIOUS, parseLine, type Row } from "./rows.ts";
import { concat } from "../../lib/concat.ts";
import { sha256Hex } from "../../lib/sha256.ts";

/** The most bytes of a trace: 1,000 requests and a long output take a tenth of it. */
export const MAX_TRACE_BYTES = 67_108_864;

const CHUNK_BYTES = 65_536;
/** Bytes between two turns of the event loop: a few milliseconds' worth of rows. */
const BYTES_PER_TURN = 131_072;
const NEWLINE = 0x0a;
const NOTHING = new Uint8Array();

export interface TraceStamp {
  /** Bytes, a torn last line included. */
  size: number;
  mtime_ms: number;
  is_file: boolean;
}

export interface TraceHead {
  /** Number of its last row; 0 when it has none. */
  seq: number;
  sha256: string;
  bytes: number;
}

export const EMPTY_HEAD: TraceHead = { seq: 0, sha256: NO_PREVIOUS, bytes: 0 };

export interface TraceFault {
  /** The row concerned: the first one of which it can be said. */
  seq: number;
  problem: "altered" | "missing" | "unreadable" | "too_large";
  detail: string;
}

export interface TraceLine {
  row: Row;
  head: TraceHead;
}

export function tracePath(audit_root: string, id: string): string {
  return `${audit_root}/${id}.jsonl`;
}

/** Thrown by {@linkcode scanTrace} at the first fault. */
export class DamagedTrace extends TaskdError {
  readonly fault: TraceFault;

  constructor(path: string, fault: TraceFault) {
    super("corrupt", `Cannot read ${path}: row ${fault.seq} is ${fault.problem} (${fault.detail})`, {
      hint: "The record cannot be trusted from there on; keep the file and look at who could write to it",
    });
    this.fault = fault;
  }
}

/**
 * Reads the rows after `after`, in order, each checked against its predecessor. Memory is one line.
 *
 * @param limits `end`: read up to this byte only; what lies behind may not be durable yet. `seen`: what a look at the
 * file was just read, which spares another look; what it has grown by since is not read.
 * @returns The bytes of a torn last line; 0 when there is none.
 * @throws {DamagedTrace} at the first row that is not what was written.
 * @throws {TaskdError} `not_found`, `denied` or `unavailable`.
 */
export function* scanTrace(
  path: string,
  after: TraceHead = EMPTY_HEAD,
  limits: ScanLimits = {},
): Generator<TraceLine, number> {
  let head = after;
  const lines = scanOnce(path, after, limits);
  try {
    for (let step = lines.next();; step = lines.next()) {
      if (step.done) return step.value;
      head = step.value.head;
      yield step.value;
    }
  } catch (error) {
    if (!(error instanceof DamagedTrace)) throw error;
  } finally {
    lines.return(0);
  }
  return yield* scanOnce(path, head, limits);
}

interface ScanLimits {
  end?: number;
  seen?: TraceStamp | undefined;
}

function* scanOnce(path: string, after: TraceHead, limits: ScanLimits): Generator<TraceLine, number> {
  using file = openForReading(path, limits.seen);
  // Up to where it ended when it was opened: a reader that waits for more opens it again.
  const { size } = limits.seen ?? file.statSync();
  const end = Math.min(limits.end ?? size, MAX_TRACE_BYTES);
  let head = after;
  let pending: Uint8Array = NOTHING;
  let at = after.bytes;
  // Most traces are smaller than a chunk, and a survey reads very many.
  const chunk = new Uint8Array(Math.min(CHUNK_BYTES, Math.max(1, size - at)));
  if (at > 0) file.seekSync(at, Deno.SeekMode.Start);
  while (at < end) {
    const count = readSome(file, chunk.subarray(0, Math.min(chunk.length, end - at)), path);
    if (count === 0) return pending.length;
    at += count;
    let from = 0;
    for (let to = chunk.indexOf(NEWLINE); to >= 0 && to < count; to = chunk.indexOf(NEWLINE, from)) {
      const line = pending.length === 0
        ? chunk.subarray(from, to + 1)
        : concat([pending, chunk.subarray(from, to + 1)]);
      pending = NOTHING;
      from = to + 1;
      const next = follow(path, head, line);
      head = next.head;
      yield next;
    }
    // The chunk is read into again: what is left of it is kept as a copy.
    if (from < count) pending = concat([pending, chunk.subarray(from, count)]);
    if (pending.length > MAX_LINE_BYTES) {
      throw new DamagedTrace(path, { seq: head.seq + 1, problem: "too_large", detail: "the line does not end" });
    }
  }
  if (limits.end === undefined && size > MAX_TRACE_BYTES) {
    throw new DamagedTrace(path, { seq: head.seq + 1, problem: "too_large", detail: `over ${MAX_TRACE_BYTES} bytes` });
  }
  // A row is written up to some byte, behind which a power cut may leave zeros: one that is whole, with something else for
  // its newline, is damaged.
  if (pending.length > 0 && pending.at(-1) !== 0 && typeof parseLine(pending.subarray(0, -1)) !== "string") {
    throw new DamagedTrace(path, { seq: head.seq + 1, problem: "altered", detail: "its line does not end" });
  }
  return pending.length;
}

function follow(path: string, head: TraceHead, line: Uint8Array): TraceLine {
  const seq = head.seq + 1;
  const row = parseLine(line);
  if (typeof row === "string") throw new DamagedTrace(path, { seq, problem: "altered", detail: row });
  if (row.seq > seq) throw new DamagedTrace(path, { seq, problem: "missing", detail: `row ${row.seq} comes next` });
  if (row.seq < seq) {
    throw new DamagedTrace(path, { seq, problem: "altered", detail: `in its place is a row ${row.seq}` });
  }
  if (row.prev !== head.sha256) {
    // Changing a row changes its digest, which the next row reveals.
    const detail = `row ${seq} was written after another row ${head.seq}`;
    throw new DamagedTrace(path, { seq: Math.max(1, head.seq), problem: "altered", detail });
  }
  return { row, head: { seq, sha256: sha256Hex(line), bytes: head.bytes + line.length } };
}

function openForReading(path: string, seen: TraceStamp | undefined): Deno.FsFile {
  return withFileError(`Cannot read ${path}`, () => {
    // Before the opening, which would wait at a pipe or follow a link.
    const is_file = seen === undefined ? Deno.lstatSync(path).isFile : seen.is_file;
    if (!is_file) throw new TaskdError("denied", `Cannot read ${path}: it is not a regular file`);
    return Deno.openSync(path);
  });
}

function readSome(file: Deno.FsFile, into: Uint8Array, path: string): number {
  return withFileError(`Cannot read ${path}`, () => file.readSync(into) ?? 0);
}

export function atOnce<R>(steps: Generator<TraceHead, R>): R {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** Takes the steps of a reading a few at a time: others have their turns in between, however long the trace is. */
export async function inTurns<R>(steps: Generator<TraceHead, R>): Promise<R> {
  let turn_bytes = 0;
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    if (step.value.bytes - turn_bytes < BYTES_PER_TURN) continue;
    turn_bytes = step.value.bytes;
    await nextTurn();
  }
}

/** Whether a trace is what was written. */
export type Verdict =
  | { intact: true; head: TraceHead }
  | { intact: false; fault: TraceFault };
