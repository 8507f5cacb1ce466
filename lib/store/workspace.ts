/**
 * The local files of a store: where checkouts and cache entries lie and what their
 * sidecars hold. None of them is a source of truth: each may be deleted and is
 * rebuilt, and a sidecar that cannot be read counts as missing.
 *
 * A sidecar's bytes are on disk before they have its name: after a power failure it is whole, as it is now or as it was
 * before. {@linkcode Workspace.settle} makes the names durable.
 */

import { basename, dirname, join } from "node:path/posix";
import * as v from "../packages/valibot.ts";
import { type RandomBytes, randomHex } from "../clock.ts";
import { hasCode, TaskdError } from "../errors.ts";
import { discard, exists, fileError, fileErrorCode, fsyncDirectory, writeAllSync } from "../fs.ts";
import type { FileStamp } from "../sqlite/checkout_file.ts";
import type { WalMark } from "../sqlite/wal_tail.ts";
import { MANIFEST_KEY } from "./keys.ts";
import { damagedRecord, encodeRecord, instant, parseRecord } from "./records.ts";
import { sha256Hex } from "../sha256.ts";

/** What {@linkcode Workspace.beside} names, and what lies beside such a file. */
const TEMPORARY = /^\.[0-9a-f]{16}\.tmp/;
/** A temporary file that was not written to for this long has no owner: a day. */
const SWEEP_AFTER_MS = 24 * 3600 * 1000;

/** Which content a file was made from. */
export interface Origin {
  /** SHA-256 of the keys of its chain. */
  chain_id: string;
  /**
   * The ref's digest of the chain's last object. Keys alone do not identify it: a store that was put back to an earlier
   * state reuses the keys of its lost future.
   */
  digest: string;
}

/** The content of `.sum`. One that names no digest, which the contract's list of fields lacks, goes by the keys. */
export interface Sidecar extends Pick<Origin, "chain_id">, Partial<Pick<Origin, "digest">> {
  /** Bytes. */
  size: number;
  /** Modification time in nanoseconds since 1970. */
  mtime_ns: string;
  /** Of SQLite's header. */
  change_counter: number;
  /** When this was written, in nanoseconds since 1970. */
  stamped_ns: string;
  /** Size and time of the shadow when it was made; null when there is none. */
  shadow: FileStamp | null;
  /** SHA-256 of the image, once computed. */
  sha256?: string;
  /** Digest of the content; proves a whole image of it, whatever becomes of the objects. */
  content?: string;
  /** Where the log ended, which was folded into the file, when an application had it open still. */
  log?: WalMark;
}

export const WalMarkSchema: v.GenericSchema<unknown, WalMark> = v.object({
  salt1: v.number(),
  salt2: v.number(),
  offset: v.number(),
  checksum1: v.number(),
  checksum2: v.number(),
});

const nanoseconds = v.pipe(v.string(), v.regex(/^\d{1,30}$/));

export const FileStampSchema: v.GenericSchema<unknown, FileStamp> = v.object({
  size: v.number(),
  mtime_ns: nanoseconds,
});

const SidecarSchema: v.GenericSchema<unknown, Sidecar> = v.object({
  chain_id: v.string(),
  digest: v.exactOptional(v.string()),
  size: v.number(),
  mtime_ns: nanoseconds,
  change_counter: v.number(),
  stamped_ns: nanoseconds,
  shadow: v.nullable(FileStampSchema),
  sha256: v.exactOptional(v.string()),
  content: v.exactOptional(v.string()),
  log: v.exactOptional(WalMarkSchema),
});

/**
 * The content of `.session`, for a checkout that a session is capturing or whose edits an operation at rest is storing.
 * Heads that the session stores later are not in it: their refs name the session, and their place in the log.
 */
export interface SessionRecord {
  /** The branch's lineage. */
  lineage: string;
  /** Holder of the lease of the session that is capturing. */
  session?: string;
  /** The start of the machine in which it captures: files that were not forced to disk are whole in that one alone. */
  boot?: string;
  heads: RecordedHead[];
}

/** A head that the branch may have. */
export interface RecordedHead {
  /** Its lineage, where that is not the record's. */
  lineage?: string;
  txid: number;
  digest: string;
  /** Its place in the log; null when it is not in the log. */
  mark: WalMark | null;
}

/** The content of `scrub.json`: how far scrubbing has come. */
export interface ScrubRecord {
  /** When the pass began. */
  began_at: string;
  /** When its last slice was read. */
  slice_at: string;
  /** What was read last. */
  cursor: string;
  /** Bytes of the objects when it began. */
  total_bytes: number;
  /** Objects and cached copies that were read, and their bytes. */
  objects: number;
  bytes: number;
  finished: boolean;
  /** When a pass was finished last. */
  finished_at?: string;
  /** Damaged objects, records and points, with the time when each was met last. */
  damaged: { where: string; why: string; at: string }[];
}

const ScrubSchema: v.GenericSchema<unknown, ScrubRecord> = v.object({
  began_at: instant,
  slice_at: instant,
  cursor: v.string(),
  total_bytes: v.number(),
  objects: v.number(),
  bytes: v.number(),
  finished: v.boolean(),
  finished_at: v.exactOptional(v.string()),
  damaged: v.array(v.object({ where: v.string(), why: v.string(), at: v.string() })),
});

/** A time in which a wall clock and what was seen to pass went alike; see timeline.ts. All in milliseconds. */
export interface TimelineSpan {
  /** What the wall clock showed at its beginning. */
  wall_ms: number;
  /** What had been seen to pass by then. */
  time_ms: number;
  for_ms: number;
}

/** The content of `clock.json`. */
export interface TimelineRecord {
  /** The start of the machine in which it was written. */
  boot: string;
  /** How long that had lasted. */
  uptime_ms: number;
  /** What has been seen to pass since the record began. */
  time_ms: number;
  /** Oldest first; the last one goes on. */
  spans: TimelineSpan[];
}

const TimelineSchema: v.GenericSchema<unknown, TimelineRecord> = v.object({
  boot: v.string(),
  uptime_ms: v.pipe(v.number(), v.minValue(0)),
  time_ms: v.pipe(v.number(), v.minValue(0)),
  spans: v.pipe(
    v.array(v.object({ wall_ms: v.number(), time_ms: v.number(), for_ms: v.pipe(v.number(), v.minValue(0)) })),
    v.minLength(1),
  ),
});

const WorkspaceSchema: v.GenericSchema<unknown, { store_id: string }> = v.object({ store_id: v.string() });

const SessionRecordSchema: v.GenericSchema<unknown, SessionRecord> = v.object({
  lineage: v.string(),
  session: v.exactOptional(v.string()),
  boot: v.exactOptional(v.string()),
  heads: v.array(v.object({
    lineage: v.exactOptional(v.string()),
    txid: v.number(),
    digest: v.string(),
    mark: v.nullable(WalMarkSchema),
  })),
});

/** Longer files were not written here: a session record, the longest, has a few heads. */
const MAX_JSON_BYTES = 1 << 20;
/** What file systems take for one name. */
const MAX_FILE_NAME_BYTES = 255;
/** The longest ending that a cache entry's companions have. */
const LONGEST_ENDING = ".db.last-used";

export class Workspace {
  readonly root: string;
  readonly #random: RandomBytes;

  constructor(root: string, random: RandomBytes) {
    this.root = root;
    this.#random = random;
  }

  /**
   * Makes the directory the workspace of one store, permanently: a checkout does not record its store, and another
   * with a branch of that name would take it for its own. Only for workspaces apart from their store.
   *
   * @throws {TaskdError} `usage` when it is another store's.
   */
  claim(store_id: string): void {
    const path = join(this.root, "workspace.json");
    const temporary = this.beside(path);
    try {
      if (exists(join(this.root, MANIFEST_KEY))) throw this.#taken("it is a store itself");
      if (!exists(path)) {
        using file = Deno.openSync(temporary, { write: true, createNew: true, mode: 0o600 });
        try {
          writeAllSync(file, encodeRecord({ store_id }));
          // A file that a power failure left empty could never be claimed.
          file.syncSync();
          // Of two at the same moment, one succeeds.
          Deno.linkSync(temporary, path);
        } catch (error) {
          if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
        } finally {
          discard(temporary);
        }
      }
    } catch (error) {
      throw fileError(error, `Cannot use the workspace ${this.root}`);
    }
    const found = this.claimant();
    if (found === undefined) {
      throw damagedRecord(path, "it is damaged", undefined, "If this workspace is this store's, remove the file");
    }
    if (found !== store_id) throw this.#taken("it is another store's");
  }

  /** The id of the store that it was claimed for; undefined when it was not, or its mark is damaged. */
  claimant(): string | undefined {
    return readJson(join(this.root, "workspace.json"), WorkspaceSchema)?.store_id;
  }

  #taken(why: string): TaskdError {
    return new TaskdError("usage", `Cannot use ${this.root} as a workspace: ${why}`, {
      hint: "Name another directory, or none",
    });
  }

  /** A branch's writable checkout. */
  checkout(db: string, branch: string): string {
    return join(this.root, "checkouts", db, `${branch}.db`);
  }

  /** The read-only cache entry of a checkpoint. */
  readOnly(db: string, branch: string, checkpoint: string): string {
    const fits = branch.length + 1 + checkpoint.length + LONGEST_ENDING.length <= MAX_FILE_NAME_BYTES;
    // Both names may have 128 characters; the `~` keeps the digest apart from any checkpoint's name.
    const named = fits ? checkpoint : `~${sha256Hex(checkpoint).slice(0, 32)}`;
    return join(this.root, "checkouts-ro", db, `${branch}@${named}.db`);
  }

  /** Directory of a database's copies of whole chains. */
  byChainDirectory(db: string): string {
    return join(this.root, "checkouts-ro", db, "~by-chain");
  }

  byChain(db: string, chain_id: string): string {
    return join(this.byChainDirectory(db), `${chain_id}.db`);
  }

  /**
   * Refuses a path below the workspace with a parent that is not a directory: a symbolic link may lead to
   * files outside.
   *
   * @throws {TaskdError} `denied`
   */
  requireInside(path: string): void {
    let directory = this.root;
    for (const part of dirname(path).slice(this.root.length + 1).split("/")) {
      directory = join(directory, part);
      try {
        if (directory !== this.root && !Deno.lstatSync(directory).isDirectory) throw notADirectory(directory);
      } catch (error) {
        if (fileErrorCode(error) === "not_found") return;
        throw fileError(error, `Cannot use ${directory}`);
      }
    }
  }

  /** A fresh name beside `path`, for a file that will be renamed to it. */
  beside(path: string): string {
    makeDirectory(dirname(path), this.root);
    return join(dirname(path), `.${randomHex(this.#random, 8)}.tmp`);
  }

  sidecar(path: string): Sidecar | undefined {
    return readJson(`${path}.sum`, SidecarSchema);
  }

  writeSidecar(path: string, sidecar: Sidecar): void {
    this.#writeJson(`${path}.sum`, sidecar);
  }

  sessionRecord(path: string): SessionRecord | undefined {
    return readJson(`${path}.session`, SessionRecordSchema);
  }

  writeSessionRecord(path: string, record: SessionRecord): void {
    this.#writeJson(`${path}.session`, record);
  }

  scrubRecord(): ScrubRecord | undefined {
    return readJson(join(this.root, "scrub.json"), ScrubSchema);
  }

  writeScrubRecord(record: ScrubRecord): void {
    this.#writeJson(join(this.root, "scrub.json"), record);
  }

  timelineRecord(): TimelineRecord | undefined {
    return readJson(join(this.root, "clock.json"), TimelineSchema);
  }

  writeTimelineRecord(record: TimelineRecord): void {
    this.#writeJson(join(this.root, "clock.json"), record);
  }

  /** Sets the clock by which cache entries are ranked. */
  touchUsed(path: string, now_ms: number): void {
    const clock = `${path}.last-used`;
    try {
      // What is there is not opened: a link leads elsewhere, and opening a FIFO would never return.
      if (!exists(clock)) Deno.openSync(clock, { write: true, createNew: true, mode: 0o600 }).close();
      if (Deno.lstatSync(clock).isFile) Deno.utimeSync(clock, now_ms / 1000, now_ms / 1000);
    } catch {
      // Only the order of eviction suffers.
    }
  }

  /**
   * Removes temporary files that were not written to for {@linkcode SWEEP_AFTER_MS}: their operations are dead. Returns
   * how many there were. `age` is the one of what was written at a time.
   */
  sweep(age: (written_ms: number) => number): number {
    let swept = 0;
    // The root, which holds the probes for cloning, may be a link: the `.` at its end follows it.
    for (const [top, depth] of [[".", 0], ["tmp", 0], ["checkouts", 1], ["checkouts-ro", 2]] as const) {
      for (const path of filesBelow(`${this.root}/${top}`, depth)) {
        if (!TEMPORARY.test(basename(path))) continue;
        try {
          const { mtime } = Deno.lstatSync(path);
          if (!mtime || age(mtime.getTime()) < SWEEP_AFTER_MS) continue;
          Deno.removeSync(path);
          swept++;
        } catch {
          // Its operation lives after all, or another sweep was faster.
        }
      }
    }
    return swept;
  }

  /** Makes the names in the directory of `path`, and those of its parents below the root, durable. */
  async settle(path: string): Promise<void> {
    const directory = dirname(path);
    try {
      await fsyncDirectory(directory);
    } catch (error) {
      throw fileError(error, `Cannot write ${directory}`);
    }
    if (directory !== this.root) await this.settle(directory);
  }

  #writeJson(path: string, value: object): void {
    const temporary = this.beside(path);
    try {
      {
        using file = Deno.openSync(temporary, { write: true, createNew: true, mode: 0o600 });
        writeAllSync(file, encodeRecord(value));
        file.syncDataSync();
      }
      Deno.renameSync(temporary, path);
    } catch (error) {
      discard(temporary);
      throw fileError(error, `Cannot write ${path}`);
    }
  }
}

/** Whether a sidecar, if there is one, names this origin. */
export function sameOrigin(sidecar: Sidecar | undefined, { chain_id, digest }: Origin): boolean {
  return sidecar?.chain_id === chain_id && (sidecar.digest ?? digest) === digest;
}

/** Plain files in a directory and, `depth` deep, in those below it; symbolic links are not followed. */
export function* filesBelow(directory: string, depth: number): Generator<string> {
  let entries: Deno.DirEntry[];
  try {
    if (!Deno.lstatSync(directory).isDirectory) return;
    entries = [...Deno.readDirSync(directory)];
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return;
    throw fileError(error, `Cannot list ${directory}`);
  }
  for (const { name, isFile, isDirectory } of entries) {
    if (isFile) yield join(directory, name);
    else if (isDirectory && depth > 0) yield* filesBelow(join(directory, name), depth - 1);
  }
}

/** Everything that lies beside a database file and goes with it. */
export function companions(path: string): string[] {
  return ["-wal", "-shm", "-journal", ".sum", ".session", ".shadow", ".last-used"].map((suffix) => path + suffix);
}

/** Makes a directory (0700) and its parents below `root`, refusing symlinks and other things in their place. */
export function makeDirectory(path: string, root: string): void {
  if (path.length > root.length) makeDirectory(dirname(path), root);
  try {
    Deno.mkdirSync(path, { mode: 0o700, recursive: path === root });
    return;
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw fileError(error, `Cannot make the directory ${path}`);
  }
  if (path !== root && !Deno.lstatSync(path).isDirectory) throw notADirectory(path);
}

function notADirectory(path: string): TaskdError {
  return new TaskdError("denied", `Cannot use ${path}: it is not a directory`, { hint: "Move it away" });
}

/** A file's content; undefined when it is missing or, twice read, damaged. */
function readJson<T>(path: string, schema: v.GenericSchema<unknown, T>): T | undefined {
  for (let read = 1; read <= 2; read++) {
    try {
      const { isFile, size } = Deno.lstatSync(path);
      if (!isFile || size > MAX_JSON_BYTES) return undefined;
      return parseRecord(Deno.readFileSync(path), path, schema).value;
    } catch (error) {
      if (!hasCode(error, "corrupt")) return undefined;
    }
  }
  return undefined;
}
