/**
 * Writing a trace: only ever appended to, by one writer at a time (a lock of the operating system), 0600 from its first
 * moment. A new trace has its first row before it has its name.
 *
 * The promise of {@linkcode TraceWriter.append}: when it resolves, the row is on the disk (written, fsynced). When it
 * rejects, the row is not there, or, if even that cannot be said, the writer takes no more rows: a caller that waits
 * for a row before acting then does not act.
 */

import type { Clock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { AppendFile } from "../../lib/append_file.ts";
import { fileError, isThere, removeIfPresent, unlockAndClose, withFileError, writeFileAtomic } from "../../lib/fs.ts";
import { type EncodedRow, encodeRow, NO_PREVIOUS, type Row, type TaskEvent } from "./rows.ts";
import { DamagedTrace, EMPTY_HEAD, MAX_TRACE_BYTES, scanTrace, type TraceHead, tracePath } from "./trace.ts";

/** From here on output is no longer written, so that there is always room for what decides. */
const MAX_OUTPUT_TRACE_BYTES = 50_331_648;
/** Output is refused while this much waits for the disk. */
const MAX_QUEUED_OUTPUT_BYTES = 4_194_304;

interface Waiting {
  encoded: EncodedRow;
  resolve: (row: Row) => void;
  reject: (error: unknown) => void;
}

export interface TraceWriterOptions {
  clock: Clock;
  /** Called with each batch of rows once they are on the disk, before those who wait for them go on. */
  onDurable?: (rows: Row[], head: TraceHead) => void;
  /** Called when queued rows are given up, before their callers get the error. */
  onGivenUp?: () => void;
}

export class TraceWriter {
  readonly path: string;
  readonly #file: AppendFile;
  readonly #options: TraceWriterOptions;
  #durable: TraceHead;
  #next: TraceHead;
  #waiting: Waiting[] = [];
  #flushing: Promise<void> | undefined;
  #closed = false;

  private constructor(path: string, file: Deno.FsFile, head: TraceHead, options: TraceWriterOptions) {
    this.path = path;
    this.#file = new AppendFile(path, file, head.bytes);
    this.#durable = this.#next = head;
    this.#options = options;
  }

  /**
   * Makes the trace of a new task, with its first row.
   *
   * @throws {TaskdError} `already_exists`, `denied`, `no_space` or `unavailable`; there is then no trace.
   */
  static async create(
    audit_root: string,
    created: Extract<TaskEvent, { type: "created" }>,
    options: TraceWriterOptions,
  ): Promise<TraceWriter> {
    const path = tracePath(audit_root, created.task.id);
    const attempted = `Cannot create ${path}`;
    const encoded = encodeRow(created, { seq: 1, now_ms: options.clock.now(), prev: NO_PREVIOUS });
    if (isThere(path)) throw new TaskdError("already_exists", `${attempted}: there is one`);
    try {
      // Under its name once the row is in it: a trace without one would be the damaged record of a task that does not exist.
      await writeFileAtomic(path, encoded.line, 0o600);
      const head: TraceHead = { seq: 1, sha256: encoded.sha256, bytes: encoded.line.length };
      const writer = new TraceWriter(path, openLocked(path), head, options);
      options.onDurable?.([encoded.row], head);
      return writer;
    } catch (error) {
      try {
        removeIfPresent(path);
      } catch {
        // What made the creation fail is the error to report.
      }
      throw fileError(error, attempted);
    }
  }

  /**
   * Goes on with a trace. A last line that a crash has torn is cut off, and a row says so; nothing has acted on it,
   * since it was never reported as written.
   *
   * @param onRow Called with each row that is there.
   * @throws {DamagedTrace} when it is not what was written.
   * @throws {TaskdError} `busy` when another process writes it; `not_found`, `denied`, `no_space` or `unavailable`.
   */
  static async open(
    audit_root: string,
    id: string,
    options: TraceWriterOptions & { onRow?: (row: Row) => void },
  ): Promise<TraceWriter> {
    const path = tracePath(audit_root, id);
    const file = openLocked(path);
    try {
      let head = EMPTY_HEAD;
      const lines = scanTrace(path);
      let step = lines.next();
      for (; !step.done; step = lines.next()) {
        head = step.value.head;
        options.onRow?.(step.value.row);
      }
      const torn = step.value;
      if (head.seq === 0) {
        throw new DamagedTrace(path, { seq: 1, problem: "missing", detail: `${torn} bytes of a first row` });
      }
      const writer = new TraceWriter(path, file, head, options);
      if (torn > 0) {
        file.truncateSync(head.bytes);
        options.onRow?.(await writer.append({ type: "cut", bytes: torn }));
      }
      return writer;
    } catch (error) {
      unlockAndClose(file);
      throw fileError(error, `Cannot open ${path}`);
    }
  }

  get head(): TraceHead {
    return this.#durable;
  }

  /**
   * Writes a row down; see the module's promise. Rows of one turn share one fsync.
   *
   * @param check Called with the row before it is queued; what it throws keeps the row out.
   * @returns The row as it reads.
   * @throws {TaskdError} `no_space`, `denied`, `unavailable`: it is not written. `invalid_request` or `too_large`: it
   * breaks a limit. `overloaded`: too much output waits already. `fenced`: another process has changed the file.
   */
  append(event: TaskEvent, check: (row: Row) => void = () => {}): Promise<Row> {
    try {
      if (this.#closed) throw new TaskdError("stopping", `Cannot write to ${this.path}: it is closed`);
      const { seq, sha256: prev, bytes } = this.#next;
      if (event.type === "output" && bytes - this.#durable.bytes > MAX_QUEUED_OUTPUT_BYTES) {
        throw new TaskdError("overloaded", `Cannot write to ${this.path}: the disk does not keep up with the output`);
      }
      const limit = event.type === "output" ? MAX_OUTPUT_TRACE_BYTES : MAX_TRACE_BYTES;
      const encoded = encodeRow(event, { seq: seq + 1, now_ms: this.#options.clock.now(), prev });
      if (bytes + encoded.line.length > limit) {
        throw new TaskdError("too_large", `Cannot write to ${this.path}: it would have more than ${limit} bytes`);
      }
      check(encoded.row);
      this.#next = { seq: seq + 1, sha256: encoded.sha256, bytes: bytes + encoded.line.length };
      const { promise, resolve, reject } = Promise.withResolvers<Row>();
      this.#waiting.push({ encoded, resolve, reject });
      this.#flushing ??= this.#flush();
      return promise;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Waits for what is being written and gives the lock up. May be called twice. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#flushing;
    this.#file.close();
  }

  async #flush(): Promise<void> {
    // One turn later, so that what is said in one turn is written at once.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0);
      try {
        await this.#file.append(batch.map(({ encoded }) => encoded.line));
      } catch (error) {
        // What was queued meanwhile is chained to what was not written.
        const lost = [...batch, ...this.#waiting.splice(0)];
        this.#next = this.#durable;
        this.#options.onGivenUp?.();
        for (const { reject } of lost) reject(error);
        continue;
      }
      const last = batch.at(-1)!.encoded;
      const bytes = batch.reduce((sum, { encoded }) => sum + encoded.line.length, this.#durable.bytes);
      this.#durable = { seq: last.row.seq, sha256: last.sha256, bytes };
      this.#options.onDurable?.(batch.map(({ encoded }) => encoded.row), this.#durable);
      for (const { encoded, resolve } of batch) resolve(encoded.row);
    }
    this.#flushing = undefined;
  }
}

function openLocked(path: string): Deno.FsFile {
  const attempted = `Cannot open ${path}`;
  const locked = withFileError(attempted, () => {
    if (!Deno.lstatSync(path).isFile) throw new TaskdError("denied", `${attempted}: it is not a regular file`);
    const file = Deno.openSync(path, { append: true });
    if (file.tryLockSync(true)) return file;
    file.close();
  });
  if (locked !== undefined) return locked;
  throw new TaskdError("busy", `${attempted}: another process writes it`, {
    hint: "Another broker uses this audit_root: stop it first",
  });
}
