/**
 * Before a database file is replaced or removed it is taken away from every application. One that has it open keeps it:
 * the operation is refused with `busy`, naming the process where the system lists it, or waits. Who has it
 * open is asked of the locks themselves, also of a file that is no database; the list is for the message alone.
 */

import type { Clock } from "../clock.ts";
import { hasCode, TaskdError, throwIfInterrupted } from "../errors.ts";
import { discard, exists, fileErrorCode, removeIfPresent } from "../fs.ts";
import { runProcess } from "../process.ts";
import { stampFile, writeWhole } from "../sqlite/checkout_file.ts";
import { LockedDatabase, LockedFile } from "../sqlite/locked_database.ts";
import type { WaitOptions } from "./results.ts";

/** Lists file locks with their processes. One spelling, because a grant of `--allow-run` matches only that. */
export const LOCK_LIST_PROGRAM = "/usr/bin/lslocks";
/** An operation waits at most this long: others wait for the branch meanwhile. */
const MAX_WAIT_MS = 600_000;
/** Between two tries of an operation that waits. */
const PAUSE_MS = 25;
/** The list is for a message. The program looks at every descriptor of every process: a second on a busy machine. */
const LIST = { deadline_ms: 5_000, max_bytes: 1 << 20 };
/** The system gives its list in parts: where locks come and go meanwhile, one in ten lists lacks one that is there. */
const LIST_TRIES = 6;
/** Processes that a message names. */
const MAX_NAMED = 5;

/**
 * A path that an operation has taken, with what it found there: a database, locked; bytes that are none; or nothing.
 * Files at a checkout's path are removed and replaced through this alone. Whatever time passes in between, for a process
 * that is stopped, too: what another process has put there meanwhile is left, and `conflict` thrown.
 */
export class TakenFile implements Disposable {
  readonly path: string;
  /** The database there, if it is one. */
  readonly database: LockedDatabase | undefined;
  readonly #other: LockedFile | undefined;
  readonly #stamp: string;
  readonly #by: string | undefined;

  /** @param found.by A name beside it that nothing has. */
  constructor(path: string, found: { database?: LockedDatabase; other?: LockedFile; by?: string | undefined } = {}) {
    this.path = path;
    this.database = found.database;
    this.#other = found.other;
    this.#by = found.by;
    this.#stamp = JSON.stringify(stampFile(path));
  }

  /**
   * Removes the file, if one was taken, and then what lies beside it.
   *
   * @throws {TaskdError} `conflict` when there is another file; nothing was removed.
   */
  remove(beside: string[]): void {
    if (!this.#isFile) return this.#clear(beside);
    this.#requireStill();
    for (const file of [this.path, ...beside]) removeIfPresent(file);
    this.database?.retire();
  }

  /**
   * Removes what lies beside the file, and gives its name to the file at `temporary`.
   *
   * @throws {TaskdError} `conflict` when there is another file; nothing was removed.
   */
  replace(temporary: string, beside: string[]): void {
    if (!this.#isFile) {
      this.#clear(beside);
      return this.#create(() => {
        Deno.linkSync(temporary, this.path);
        discard(temporary);
      });
    }
    this.#requireStill();
    // First: a log must never meet another main file.
    for (const file of beside) removeIfPresent(file);
    Deno.renameSync(temporary, this.path);
    this.database?.retire();
  }

  /** Gives it up. */
  [Symbol.dispose](): void {
    this.database?.[Symbol.dispose]();
    this.#other?.[Symbol.dispose]();
  }

  get #isFile(): boolean {
    return this.database !== undefined || this.#other !== undefined;
  }

  #requireStill(): void {
    const still = this.database?.isAt() ??
      (this.#other!.isAt() && JSON.stringify(stampFile(this.path)) === this.#stamp);
    if (!still) throw this.#conflict();
  }

  /** What was left beside no file: others are kept from the name meanwhile, with an empty file that is locked. */
  #clear(beside: string[]): void {
    if (exists(this.path)) throw this.#conflict();
    if (!beside.some(exists)) return;
    this.#create(() => {
      writeWhole(this.path, new Uint8Array(), { create: true });
      using held = new TakenFile(this.path, { other: LockedFile.open(this.path, this.#by) });
      held.remove(beside);
    });
  }

  #create(make: () => void): void {
    try {
      make();
    } catch (error) {
      throw fileErrorCode(error) === "already_exists" ? this.#conflict() : error;
    }
  }

  #conflict(): TaskdError {
    return new TaskdError("conflict", `Cannot replace ${this.path}: another process did so meanwhile`, {
      hint: "Try again",
    });
  }
}

/**
 * Takes a path for this process alone, until it is given up.
 *
 * @param attempted What fails when it cannot be had.
 * @param options `by`: a name beside it that nothing has; with it file and log stay as they are.
 * @throws {TaskdError} `busy` when an application has the file open, or what keeps it from being opened: only what SQLite
 * finds to be no database counts as none.
 */
export async function takeFile(
  path: string,
  attempted: string,
  { clock, by, wait_ms = 0, signal }: WaitOptions & { clock: Clock; by?: string; signal?: AbortSignal | undefined },
): Promise<TakenFile> {
  const deadline_ms = clock.monotonic() + Math.min(wait_ms, MAX_WAIT_MS);
  for (;;) {
    try {
      return take(path, by);
    } catch (error) {
      if (!hasCode(error, "busy")) {
        // Nothing says who has it open but the list of locks.
        const holders = await lockHolders(path, clock);
        throw holders === "" ? error : inUse(path, attempted, holders);
      }
      if (clock.monotonic() >= deadline_ms) throw inUse(path, attempted, await lockHolders(path, clock));
      await clock.sleep(PAUSE_MS, signal).catch(() => throwIfInterrupted(signal));
    }
  }
}

function take(path: string, by: string | undefined): TakenFile {
  try {
    return new TakenFile(path, { database: LockedDatabase.open(path, by) });
  } catch (error) {
    if (hasCode(error, "not_a_database", "corrupt")) return new TakenFile(path, { other: LockedFile.open(path, by) });
    if (!hasCode(error, "not_found") || exists(path)) throw error;
    return new TakenFile(path, { by });
  }
}

function inUse(path: string, attempted: string, holders: string): TaskdError {
  return new TaskdError("busy", `${attempted}: ${holders || "another process"} has ${path} open`, {
    hint: "Close the file there and try again, or wait for it: --wait 10s",
  });
}

interface Lock {
  command: string | null;
  pid: number;
  inode: number;
  "maj:min": string;
  path: string | null;
}

/** The processes that hold a lock on a file, in words; empty when the system names none. Never throws. */
async function lockHolders(path: string, clock: Clock): Promise<string> {
  return (await programsWith(path, clock)).join(", ");
}

/** The programs that hold a lock on a file, as a database in WAL mode has it while it is open. Never throws. */
export async function programsWith(path: string, clock: Clock, most_tries = LIST_TRIES): Promise<string[]> {
  const deadline_ms = clock.monotonic() + LIST.deadline_ms;
  for (let tries = 1;; tries++) {
    const holders = await listHolders(path, clock);
    if (holders.length > 0 || tries === most_tries || clock.monotonic() >= deadline_ms) return holders;
  }
}

async function listHolders(path: string, clock: Clock): Promise<string[]> {
  try {
    const { ino, dev } = Deno.statSync(path);
    const { stdout } = await runProcess(LOCK_LIST_PROGRAM, {
      args: ["--json", "--output", "COMMAND,PID,INODE,MAJ:MIN,PATH"],
      clock,
      attempted: "Cannot list file locks",
      // It is short: see its deadline.
      signal: undefined,
      ...LIST,
    });
    const { locks } = JSON.parse(new TextDecoder().decode(stdout)) as { locks: Lock[] };
    // The numbers of a device as the C library splits them, https://man7.org/linux/man-pages/man3/makedev.3.html.
    const device = `${dev >>> 8 & 0xfff}:${dev & 0xff | dev >>> 12 & 0xfff00}`;
    const found = locks.filter((lock) => lock.inode === ino && (lock["maj:min"] === device || lock.path === path));
    const names = new Map(
      found.map(({ command, pid }) => [pid, pid > 0 ? `${command ?? "a program"} (process ${pid})` : "a program"]),
    );
    return [...names.values()].slice(0, MAX_NAMED);
  } catch {
    return [];
  }
}
