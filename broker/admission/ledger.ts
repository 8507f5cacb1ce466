/**
 * The durable memory of the global ceiling: every task start that has ended, what it cost and how old it is. It is held
 * in memory as a whole; the file is only read when the broker starts.
 *
 * What cannot be known is reported, never guessed: a damaged line counts as a start, and so does a task whose trace is
 * there without a line. A start ages out one window after its end.
 */

import { hasCode, type TaskdError } from "../../lib/errors.ts";
import { fileError } from "../../lib/fs.ts";
import { LedgerFile, ledgerPath, type LedgerText } from "./ledger_file.ts";
import { type DamagedLine, encodeLine, type OpenedLine, parseLedgerLine, type StartLine } from "./ledger_line.ts";
import { type LedgerTime, TOLERATED_STEP_MS } from "./ledger_time.ts";
import type { TraceFile } from "./traces.ts";
import { plural } from "../../lib/text/plural.ts";

/** Lines are kept this long although the window is shorter: it may be made longer. */
const RETAINED_MS = 31 * 86_400_000;
/** The file is compacted once it has this many lines more than twice of what is kept. */
const SPARE_LINES = 1_024;
/** Time between attempts to write what could not be written. */
const RETRY_MS = 5_000;

interface Entry {
  line: StartLine | DamagedLine;
  /** When it ended, by the monotonic clock; before this process it is negative. */
  ended_monotonic_ms: number;
}

export interface LedgerTotals {
  usd: number;
  starts: number;
  damaged_lines: number;
  /** Ends of the oldest and newest start that counts, in milliseconds since 1970. */
  oldest_ms?: number;
  newest_ms?: number;
  /** Until the oldest one counts no more. */
  ages_out_in_ms?: number;
}

export type EndedStart = Omit<StartLine, "kind" | "held_since">;

export interface LedgerOptions {
  time: LedgerTime;
  /** Milliseconds; 0: nothing ages out. */
  window_ms: number;
  traces: () => Iterable<TraceFile>;
  log: (line: string) => void;
}

export class Ledger {
  readonly path: string;
  readonly #options: LedgerOptions;
  #file: LedgerFile | undefined;
  #opened: OpenedLine | undefined;
  #entries: Entry[] = [];
  readonly #of_task = new Map<string, Entry>();
  #file_lines = 0;
  #totals: Omit<LedgerTotals, "ages_out_in_ms"> | undefined;
  #valid_until_monotonic_ms = 0;
  #unreadable: TaskdError | undefined;
  #unwritten: TaskdError | undefined;
  #tried_monotonic_ms = -Infinity;
  #writing: Promise<void> = Promise.resolve();

  private constructor(audit_root: string, options: LedgerOptions) {
    this.path = ledgerPath(audit_root);
    this.#options = options;
  }

  /**
   * Opens the ledger of an audit directory, or begins one. What keeps it from being read or written is not thrown but
   * reported by {@linkcode unreadable} and {@linkcode unwritten}.
   *
   * @throws {TaskdError} `busy` when another broker uses it.
   */
  static async open(audit_root: string, options: LedgerOptions): Promise<Ledger> {
    const ledger = new Ledger(audit_root, options);
    try {
      ledger.#file = LedgerFile.lock(audit_root);
      const found = ledger.#file.read();
      if (found === undefined) {
        ledger.#begin();
      } else {
        ledger.#load(found);
        ledger.#reconcile();
      }
      // Also when nothing is new: a disk that takes no lines is better known before a task is started.
      await ledger.#replace();
    } catch (error) {
      if (hasCode(error, "busy")) throw error;
      ledger.#unreadable = fileError(error, `Cannot open the ledger ${ledger.path}`);
      options.log(`ledger: ${ledger.#unreadable.message}`);
    }
    return ledger;
  }

  /** Why what the file holds is not known; the file is then left alone until the broker is started again. */
  get unreadable(): TaskdError | undefined {
    return this.#unreadable;
  }

  get unwritten(): TaskdError | undefined {
    return this.#unwritten;
  }

  totals(): LedgerTotals {
    const { time } = this.#options;
    if (time.hasStepped()) this.#restamp();
    const monotonic_ms = time.monotonic();
    if (this.#totals === undefined || monotonic_ms >= this.#valid_until_monotonic_ms) {
      this.#totals = this.#add(monotonic_ms);
    }
    const ages_out_in_ms = this.#valid_until_monotonic_ms - monotonic_ms;
    return { ...this.#totals, ...(ages_out_in_ms < Infinity ? { ages_out_in_ms } : {}) };
  }

  #add(monotonic_ms: number): LedgerTotals {
    const { window_ms } = this.#options;
    const totals: LedgerTotals = { usd: 0, starts: 0, damaged_lines: 0 };
    this.#valid_until_monotonic_ms = Infinity;
    for (const { line, ended_monotonic_ms } of this.#entries) {
      const ends_monotonic_ms = window_ms === 0 ? Infinity : ended_monotonic_ms + window_ms;
      if (ends_monotonic_ms <= monotonic_ms) continue;
      this.#valid_until_monotonic_ms = Math.min(this.#valid_until_monotonic_ms, ends_monotonic_ms);
      if (line.kind === "damaged") {
        totals.damaged_lines += line.lines;
        totals.starts += line.lines;
        continue;
      }
      totals.usd += line.usd ?? 0;
      totals.starts++;
      const ended_ms = Date.parse(line.ended_at);
      totals.oldest_ms = Math.min(totals.oldest_ms ?? Infinity, ended_ms);
      totals.newest_ms = Math.max(totals.newest_ms ?? -Infinity, ended_ms);
    }
    return totals;
  }

  /**
   * Adds a start that has ended. It counts at once; the promise resolves when it is on the disk, or when that has failed,
   * which {@linkcode unwritten} then reports.
   */
  record(start: EndedStart): Promise<void> {
    const { time } = this.#options;
    const ended_ms = Math.max(time.stamp(), Date.parse(start.ended_at));
    const line: StartLine = { kind: "start", ...start, ended_at: stampText(ended_ms) };
    this.#put({ line, ended_monotonic_ms: time.monotonic() });
    return this.#write(async (file) => {
      this.#drop();
      const kept = this.#entries.length;
      if (this.#unwritten === undefined && this.#file_lines < 2 * kept + SPARE_LINES) {
        if (await file.append(encodeLine(line))) {
          this.#file_lines++;
          return;
        }
      }
      await this.#replace();
    });
  }

  /** Forgets a start that turns out not to have ended; it is recorded again at its end. */
  take(task_id: string): void {
    const entry = this.#of_task.get(task_id);
    if (entry === undefined) return;
    this.#of_task.delete(task_id);
    this.#entries = this.#entries.filter((other) => other !== entry);
    this.#totals = undefined;
  }

  /** Tries again to write what could not be written, at most every few seconds. */
  retry(): void {
    const monotonic_ms = this.#options.time.monotonic();
    if (this.#unwritten === undefined || monotonic_ms - this.#tried_monotonic_ms < RETRY_MS) return;
    this.#tried_monotonic_ms = monotonic_ms;
    void this.#write(() => this.#replace());
  }

  async close(): Promise<void> {
    this.totals();
    if (this.#unwritten !== undefined) void this.#write(() => this.#replace());
    await this.#writing;
    this.#file?.close();
    this.#file = undefined;
  }

  #put(entry: Entry): void {
    this.#totals = undefined;
    if (entry.line.kind === "start") {
      const { task_id } = entry.line;
      const earlier = this.#of_task.get(task_id);
      if (earlier?.line.kind === "start") {
        // Twice the same start: what is known of its cost stays known, and it counts from its later end.
        const usd = Math.max(earlier.line.usd ?? -1, entry.line.usd ?? -1);
        earlier.line = { ...entry.line, usd: usd < 0 ? null : usd };
        earlier.ended_monotonic_ms = Math.max(earlier.ended_monotonic_ms, entry.ended_monotonic_ms);
        return;
      }
      this.#of_task.set(task_id, entry);
    }
    this.#entries.push(entry);
  }

  /** A new ledger: it counts what comes, and lists the tasks before it. */
  #begin(): void {
    const before = [...this.#options.traces()].map(({ task_id }) => task_id);
    this.#opened = { kind: "opened", at: stampText(this.#options.time.stamp()), before };
  }

  #load({ text, changed_ms }: LedgerText): void {
    const { time, log } = this.#options;
    const lines = text.split("\n");
    const torn = lines.pop() ?? "";
    if (torn !== "" || text === "") lines.push(torn);
    let damaged_lines = 0;
    let latest_ms = -Infinity;
    for (const [index, source] of lines.entries()) {
      const line = parseLedgerLine(source, index === 0);
      if (line === undefined) {
        damaged_lines++;
        continue;
      }
      if (line.kind === "opened") {
        this.#opened = line;
        latest_ms = Math.max(latest_ms, Date.parse(line.at));
        continue;
      }
      latest_ms = Math.max(latest_ms, Date.parse(line.ended_at));
      this.#putLoaded(line);
    }
    if (damaged_lines > 0) {
      this.#putLoaded({ kind: "damaged", lines: damaged_lines, ended_at: stampText(changed_ms) });
      log(
        `ledger: ${this.path}: damaged are ${damaged_lines} of ${
          plural(lines.length, "line")
        }; a copy is kept beside it`,
      );
      this.#file?.keepCopy();
    }
    // A clock that was years ahead is no reason to go on with its time.
    if (latest_ms - time.wall() <= RETAINED_MS) time.noEarlierThan(latest_ms);
  }

  #putLoaded(line: StartLine | DamagedLine): void {
    const { time } = this.#options;
    const wall_ms = time.wall();
    const age_ms = wall_ms - Date.parse(line.ended_at);
    if (age_ms >= -TOLERATED_STEP_MS) {
      this.#put({ line: withoutHold(line), ended_monotonic_ms: time.monotonic() - Math.max(0, age_ms) });
      return;
    }
    // Stamped by a clock that ran ahead, or read by one that is behind: its age is unknown, so it counts as the youngest.
    const since_ms = line.held_since === undefined ? wall_ms : Math.min(wall_ms, Date.parse(line.held_since));
    const held: StartLine | DamagedLine = { ...line, held_since: stampText(since_ms) };
    this.#put({ line: held, ended_monotonic_ms: time.monotonic() - (wall_ms - since_ms) });
  }

  /** Counts the tasks of which there is a trace and no line: the broker ended before they did. */
  #reconcile(): void {
    const { time, traces, log } = this.#options;
    const before = new Set(this.#opened?.before);
    const there = new Set<string>();
    let found = 0;
    for (const { task_id, changed_ms, spent_usd } of traces()) {
      if (before.has(task_id)) there.add(task_id);
      if (before.has(task_id) || this.#isKnown(task_id, changed_ms)) continue;
      if (this.#isForgotten(time.wall() - changed_ms)) continue;
      found++;
      const at = stampText(changed_ms);
      this.#putLoaded({
        kind: "start",
        task_id,
        started_at: at,
        ended_at: at,
        vendor: null,
        agent: null,
        auth: null,
        usd: spent_usd(),
        usd_trusted: false,
        outcome: "unknown",
        retry_of: null,
      });
    }
    if (this.#opened !== undefined) this.#opened = { ...this.#opened, before: [...there] };
    if (found > 0) log(`ledger: ${found} starts were not recorded at their end; they count with what their traces say`);
  }

  /** Whether there is a line of that start; one that was made while the task waited at the gate does not record its end. */
  #isKnown(task_id: string, changed_ms: number): boolean {
    const line = this.#of_task.get(task_id)?.line;
    if (line?.kind !== "start") return false;
    return line.outcome !== "unknown" || Date.parse(line.ended_at) >= Math.floor(changed_ms);
  }

  #isForgotten(age_ms: number): boolean {
    const { window_ms } = this.#options;
    return window_ms !== 0 && age_ms > Math.max(window_ms, RETAINED_MS);
  }

  #drop(): void {
    const monotonic_ms = this.#options.time.monotonic();
    const kept = this.#entries.filter((entry) => !this.#isForgotten(monotonic_ms - entry.ended_monotonic_ms));
    if (kept.length === this.#entries.length) return;
    const gone = new Set(this.#entries).difference(new Set(kept));
    for (const { line } of gone) if (line.kind === "start") this.#of_task.delete(line.task_id);
    this.#entries = kept;
  }

  /** After the wall clock was set forward: stamps are brought to it by the ages, which are true; never to an earlier time. */
  #restamp(): void {
    const { time } = this.#options;
    const monotonic_ms = time.monotonic();
    const stamp_ms = time.stamp();
    for (const entry of this.#entries) {
      const age_ms = monotonic_ms - entry.ended_monotonic_ms;
      const { ended_at, held_since } = entry.line;
      if (held_since !== undefined) {
        entry.line = { ...entry.line, held_since: later(held_since, time.wall() - age_ms) };
      } else entry.line = { ...entry.line, ended_at: later(ended_at, stamp_ms - age_ms) };
    }
    this.#totals = undefined;
    void this.#write(() => this.#replace());
  }

  async #replace(): Promise<void> {
    this.#drop();
    const lines = this.#entries.map(({ line }) => encodeLine(line));
    if (this.#opened !== undefined) lines.unshift(encodeLine(this.#opened));
    try {
      await this.#file?.replace(lines);
      this.#file_lines = lines.length;
      if (this.#unwritten !== undefined) this.#options.log("ledger: written again");
      this.#unwritten = undefined;
    } catch (error) {
      this.#failed(error);
    }
  }

  #failed(error: unknown): void {
    this.#unwritten = fileError(error, `Cannot write to the ledger ${this.path}`);
    this.#tried_monotonic_ms = this.#options.time.monotonic();
    this.#options.log(`ledger: ${this.#unwritten.message}; no task is started until it can be written`);
  }

  /** One write after the other. */
  #write(work: (file: LedgerFile) => Promise<void>): Promise<void> {
    return this.#writing = this.#writing.then(async () => {
      // What could not be read is not written over: it is the only account there is.
      if (this.#unreadable !== undefined || this.#file === undefined) return;
      try {
        await work(this.#file);
      } catch (error) {
        this.#failed(error);
      }
    });
  }
}

function later(iso: string, ms: number): string {
  return ms > Date.parse(iso) ? stampText(ms) : iso;
}

/** The time as lines have it; the last that ISO 8601 can write where it is beyond. */
function stampText(ms: number): string {
  return new Date(Math.max(0, Math.min(ms, 253_402_300_799_999))).toISOString();
}

function withoutHold<L extends StartLine | DamagedLine>({ held_since: _, ...line }: L): L {
  return line as L;
}
