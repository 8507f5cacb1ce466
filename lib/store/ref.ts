/**
 * Refs: one small mutable object per branch, the only mutable thing a branch has.
 * Every update is compare-and-swap. A random nonce in each write shows, after an
 * answer was lost, whether our own write succeeded.
 */

import { crc32 } from "node:zlib";
import * as v from "../packages/valibot.ts";
import { type Backend, isBackendError, type ReplaceOptions } from "../backend/backend.ts";
import { type RandomBytes, randomHex } from "../clock.ts";
import { hasCode, TaskdError, throwIfInterrupted } from "../errors.ts";
import { inParallel } from "../in_parallel.ts";
import { ifThere, storeError, translated, unreadable } from "./errors.ts";
import { parseRefKey, refKey, REFS_PREFIX } from "./keys.ts";
import { count, hex, instant } from "./records.ts";
import { damagedRecord, encodeRecord, type ParsedRecord, parseRecord, readRecord } from "./records.ts";
import type { BranchName } from "./names.ts";
import type { Lifetime } from "./results.ts";
import type { KeepLevel } from "./retention.ts";
import type { FileStamp } from "../sqlite/checkout_file.ts";
import type { WalMark } from "../sqlite/wal_tail.ts";
import { LoggedSchema, type LoggedSteps, withPoint } from "./point_log.ts";
import { FileStampSchema, WalMarkSchema } from "./workspace.ts";

export const REF_SCHEMA = 1;

export interface RefCheckpoint {
  name: string;
  txid: number;
  /** Kind of the object that ends there. */
  kind: "snapshot" | "segment";
  /** ISO 8601 UTC. */
  created_at: string;
  /** Digest of that object. */
  digest: string;
  /** Where it resolves, when that is not the ref's current lineage. */
  lineage?: string;
  note?: string;
}

/** Where undo finds what an operation took away from a branch. */
export interface UndoEntry {
  /** The branch that keeps it. */
  branch: string;
  /** {@linkcode Kept.id} of that branch: its name may be another's by then. */
  id: string;
}

/** On a branch that keeps what an operation took away: which operation, of which branch. */
export interface Kept {
  id: string;
  /** `destroy`, `rollback`, `promote`, `undo`, or a later program's. */
  op: string;
  branch: string;
  /** ISO 8601 UTC. */
  at: string;
  /** What was put there; undo refuses a keeper that holds something else since. */
  txid?: number;
  digest?: string;
  /** Of a destroy: higher than that of each earlier one of that name, whatever the clock says. */
  order?: number;
  /** A later branch of that name was given up for good: undo brings this one back no more. */
  ended?: boolean;
  /** What the branch had beside its content. */
  ttl_ms?: number;
  protected?: boolean;
  /** Its entry of the operation before. */
  before?: UndoEntry;
}

/** A point, and the digest of the object that ends there, which proves its content. */
export interface ContentPoint {
  lineage: string;
  txid: number;
  digest: string;
}

/** What a branch took from another, or took back. */
export interface MergeRecord {
  id: string;
  /** ISO 8601 UTC. */
  at: string;
  /** The address that was merged. */
  from: string;
  base: ContentPoint;
  source: ContentPoint;
  /** What the source had of other branches by merges: the newest point of each. */
  also?: ContentPoint[];
  /** Where the branch stood before it; absent from what version 0.1.0 wrote. */
  before?: ContentPoint;
  /** Where the branch stood with it. */
  onto: { lineage: string; txid: number };
  /** The merge that it took back. */
  reverts?: string;
  /** Places that were in conflict and were left as the branch had them: taking it back leaves them, too. */
  left?: string[];
}

export interface Ref extends Lifetime {
  schema: typeof REF_SCHEMA;
  /** Identity of its chain: 128 random bits in hex. */
  lineage: string;
  epoch: number;
  /** Head of the chain. */
  txid: number;
  /** Digest of the object that ends at the head. */
  digest: string;
  /** A list, not an object: `constructor` is a good name for a checkpoint. */
  checkpoints: RefCheckpoint[];
  /** Who holds the branch, and until when. */
  lease?: { holder: string; expires_at: string; host?: string; since?: string };
  /** Whether destroying it needs force. */
  protected?: boolean;
  /** A process is about to remove it. */
  claim?: { kind: "destroy" | "reap"; since: string; nonce: string };
  /**
   * A lineage that the lease's holder is about to give the branch, and the point that it continues: garbage collection
   * keeps both. Void once the lease has ended.
   */
  pending?: { holder: string; lineage: string; base: { lineage: string; txid: number } };
  /**
   * Void of another head than `digest`: the holder whose session stored the head, where it ends in the log that was read,
   * and the main file as it was then, `whole` when it had all of the head.
   */
  captured?: { digest: string; holder: string; log?: WalMark; main?: FileStamp; whole?: boolean };
  /**
   * Mirror of the lineage's base pointer, for reports; base.json is what counts. With a digest it is where the branch was
   * forked, as `origin` is.
   */
  base?: { lineage: string; txid: number; digest?: string };
  /** The journal mode that the imported database had, when that was not WAL: exports have it. */
  journal?: "rollback";
  /** The last operation that can be taken back. */
  undo?: UndoEntry;
  kept?: Kept;
  /** Where it was forked, for merges, where `base` does not say it; garbage collection keeps that. */
  origin?: ContentPoint;
  /** Where it was in earlier lineages, newest first, as far as no base pointer says it. */
  past?: { lineage: string; txid: number }[];
  /** The last merges into it, oldest first; garbage collection keeps their points. */
  merges?: MergeRecord[];
  /** Where it stood, and since when; see point_log.ts. */
  points?: LoggedSteps[];
  /** How long these are kept, where that is not the store's. */
  keep?: KeepLevel[];
  /**
   * A lineage into which points are about to be folded, and the point that it continues: garbage collection keeps both.
   * Void once another takes its place.
   */
  folding?: { nonce: string; at: string; lineage: string; base: { lineage: string; txid: number } };
  /** {@linkcode markOf} its branch: a ref that lies under another's name is not taken for that. Version 0.1.0 wrote none. */
  of?: string;
  /** Random, new in every write. */
  nonce: string;
}

/** CRC-32 of a branch's name, in hex. */
export function markOf({ db, branch }: BranchName): string {
  return crc32(`${db}@${branch}`).toString(16).padStart(8, "0");
}

const lineage = hex(32);
const digest = hex(16);

const CheckpointSchema = v.object({
  name: v.string(),
  txid: count,
  kind: v.picklist(["snapshot", "segment"]),
  created_at: instant,
  digest,
  lineage: v.exactOptional(lineage),
  note: v.exactOptional(v.string()),
});

const ContentPointSchema = v.object({ lineage, txid: count, digest });

const MergeSchema = v.object({
  id: v.string(),
  at: instant,
  from: v.string(),
  base: ContentPointSchema,
  source: ContentPointSchema,
  also: v.exactOptional(v.array(ContentPointSchema)),
  before: v.exactOptional(ContentPointSchema),
  onto: v.object({ lineage, txid: count }),
  reverts: v.exactOptional(v.string()),
  left: v.exactOptional(v.array(v.string())),
});

const UndoSchema = v.object({ branch: v.string(), id: v.string() });

const KeptSchema = v.object({
  id: v.string(),
  op: v.string(),
  branch: v.string(),
  at: instant,
  txid: v.exactOptional(count),
  digest: v.exactOptional(digest),
  order: v.exactOptional(count),
  ended: v.exactOptional(v.boolean()),
  ttl_ms: v.exactOptional(count),
  protected: v.exactOptional(v.boolean()),
  before: v.exactOptional(UndoSchema),
});

const RefSchema: v.GenericSchema<unknown, Ref> = v.object({
  schema: v.literal(REF_SCHEMA),
  lineage,
  epoch: count,
  txid: count,
  digest,
  checkpoints: v.exactOptional(v.array(CheckpointSchema), []),
  lease: v.exactOptional(
    v.object({
      holder: v.string(),
      expires_at: instant,
      host: v.exactOptional(v.string()),
      since: v.exactOptional(instant),
    }),
  ),
  ttl_ms: v.exactOptional(count),
  touched_at: instant,
  protected: v.exactOptional(v.boolean()),
  claim: v.exactOptional(v.object({ kind: v.picklist(["destroy", "reap"]), since: instant, nonce: v.string() })),
  pending: v.exactOptional(v.object({ holder: v.string(), lineage, base: v.object({ lineage, txid: count }) })),
  captured: v.exactOptional(
    v.object({
      digest,
      holder: v.string(),
      log: v.exactOptional(WalMarkSchema),
      main: v.exactOptional(FileStampSchema),
      whole: v.exactOptional(v.boolean()),
    }),
  ),
  base: v.exactOptional(v.object({ lineage, txid: count, digest: v.exactOptional(digest) })),
  journal: v.exactOptional(v.literal("rollback")),
  undo: v.exactOptional(UndoSchema),
  kept: v.exactOptional(KeptSchema),
  origin: v.exactOptional(ContentPointSchema),
  past: v.exactOptional(v.array(v.object({ lineage, txid: count }))),
  merges: v.exactOptional(v.array(MergeSchema)),
  points: v.exactOptional(LoggedSchema),
  keep: v.exactOptional(v.array(v.object({ every_ms: count, for_ms: count }))),
  folding: v.exactOptional(
    v.object({ nonce: v.string(), at: instant, lineage, base: v.object({ lineage, txid: count }) }),
  ),
  of: v.exactOptional(hex(8)),
  nonce: v.string(),
});

const REF_READER = { versions: { [REF_SCHEMA]: RefSchema } };

export interface VersionedRef {
  ref: Ref;
  etag: string;
}

export interface NamedRef {
  db: string;
  branch: string;
  ref: Ref;
}

export interface ReadRefsOptions {
  signal?: AbortSignal | undefined;
  /** Takes a key below `refs/` that has no ref, or none that can be read; without it such a key ends the pass. */
  onDamaged?: (key: string, error: TaskdError) => void;
}

const PARALLEL_READS = 16;

export interface RefUpdateOptions extends ReplaceOptions {
  /**
   * The ref as the caller last wrote or read it, which saves reading it. Only for a change that always returns a next
   * ref: then the swap shows whether the ref is still this one, and if not it is read.
   */
  known?: VersionedRef;
}

/** A ref's bytes; what is empty is left out, a fork's ref has to be small. */
export function encodeRef(ref: Ref): Uint8Array {
  const { checkpoints, ...rest } = ref;
  return encodeRecord(checkpoints.length === 0 ? rest : { ...rest, checkpoints });
}

/** Reads a ref's bytes; throws `corrupt` or `unsupported_format`. */
export function decodeRef(bytes: Uint8Array, address: string): Ref {
  return parseRef(bytes, address).value;
}

function parseRef(bytes: Uint8Array, address: string): ParsedRecord<Ref> {
  return parseRecord(bytes, `the ref of ${address}`, REF_READER);
}

/** Reads the ref of a branch; undefined when there is none. Throws as {@linkcode decodeRef}, and a backend's errors. */
export async function readRef(backend: Backend, db: string, branch: string): Promise<VersionedRef | undefined> {
  const name = `the ref of ${db}@${branch}`;
  const read = () =>
    readRecord(backend, refKey(db, branch), (bytes) => {
      const parsed = parseRef(bytes, `${db}@${branch}`);
      const { of } = parsed.value;
      if (of === undefined || of === markOf({ db, branch })) return parsed;
      throw damagedRecord(name, "it is another branch's");
    });
  const found = await ifThere(`Cannot read ${name}`, read);
  return found && { ref: found.value, etag: found.etag };
}

export class Refs {
  readonly #backend: Backend;
  readonly #random: RandomBytes;

  constructor(backend: Backend, random: RandomBytes) {
    this.#backend = backend;
    this.#random = random;
  }

  nonce(): string {
    return randomHex(this.#random, 8);
  }

  /** Reads a ref; `not_found` names the branch. */
  async read(db: string, branch: string): Promise<VersionedRef> {
    const found = await this.find(db, branch);
    if (found) return found;
    const guess = await this.#guess(db, branch);
    throw new TaskdError("not_found", `There is no branch ${db}@${branch}`, {
      hint: `${guess}\`taskd branches\` lists what there is`,
    });
  }

  /** A question naming the branch that was probably meant; where the database is missing, the command that makes it. */
  async #guess(db: string, branch: string): Promise<string> {
    try {
      const here = (await this.list(db)).map((each) => each.branch);
      if (here.length === 0) return await this.guessDatabase(db) || `\`taskd create ${db}\` makes the database; `;
      const near = (await import("../text/nearest.ts")).nearest(branch, here);
      return near === undefined ? "" : `Did you mean ${db}@${near}? `;
    } catch {
      // The original error is the one to report.
      return "";
    }
  }

  /** A question naming the database that was probably meant; empty when none is near. */
  async guessDatabase(db: string): Promise<string> {
    const names = new Set((await this.list()).map((each) => each.db));
    const near = (await import("../text/nearest.ts")).nearest(db, [...names]);
    return near === undefined ? "" : `Did you mean the database ${near}? `;
  }

  find(db: string, branch: string): Promise<VersionedRef | undefined> {
    return readRef(this.#backend, db, branch);
  }

  /**
   * Writes the first ref of a branch. Only `already_exists` proves that the ref was never written; after any
   * other error it may exist, and what it refers to has to stay.
   */
  async create(db: string, branch: string, ref: Omit<Ref, "nonce" | "schema">): Promise<VersionedRef> {
    const attempted = `Cannot create the branch ${db}@${branch}`;
    let unsure = false;
    for (let attempt = 0; attempt < 4; attempt++) {
      // A server may carry out an attempt that was given up long after: that must not pass for this one.
      const whole: Ref = { schema: REF_SCHEMA, ...ref, of: markOf({ db, branch }), nonce: this.nonce() };
      try {
        return { ref: whole, etag: await this.#backend.create(refKey(db, branch), encodeRef(whole)) };
      } catch (error) {
        if (isBackendError(error, "ambiguous")) unsure = true;
        else if (!isBackendError(error, "precondition_failed")) {
          throw unsure ? doubt(error) : storeError(error, attempted);
        }
      }
      // Our write was never visible: this ref is certainly another's.
      if (!unsure) {
        throw new TaskdError("already_exists", `${attempted}: it exists already`, { hint: "Choose another name" });
      }
      const found = await this.find(db, branch).catch((error) => {
        throw doubt(error);
      });
      // By lineage: another process may have changed our ref, and with it its nonce, since.
      if (found?.ref.lineage === ref.lineage) return found;
      if (found) throw doubt(undefined);
    }
    throw doubt(undefined);

    function doubt(cause: unknown): TaskdError {
      return new TaskdError("ambiguous", `${attempted}: the result is not known`, {
        cause,
        hint: "Inspect the branch before trying again",
      });
    }
  }

  /**
   * Changes a ref by compare-and-swap: `change` gets the current ref and returns the next one, or undefined to leave
   * it. It is called again when another process was faster, so it must decide on its argument alone. When an answer
   * was lost and another process has changed the ref since, that ref may include the change already: `change` must
   * recognize this, or be harmless twice. A head that it moves is noted among the branch's points.
   */
  async update(
    db: string,
    branch: string,
    change: (ref: Ref) => Ref | undefined,
    { known, ...how }: RefUpdateOptions = {},
  ): Promise<VersionedRef> {
    let current = known ?? await this.read(db, branch);
    const attempted = `Cannot update the ref of ${db}@${branch}`;
    for (let attempt = 0; attempt < 32; attempt++) {
      const changed = change(current.ref);
      if (changed === undefined) return current;
      const noted = changed.points === current.ref.points ? withPoint(current.ref, changed) : changed;
      const next: Ref = { ...noted, of: markOf({ db, branch }), nonce: this.nonce() };
      try {
        return { ref: next, etag: await this.#backend.replace(refKey(db, branch), encodeRef(next), current.etag, how) };
      } catch (error) {
        if (!isBackendError(error, "precondition_failed") && !isBackendError(error, "ambiguous")) {
          throw storeError(error, attempted);
        }
      }
      current = await this.read(db, branch);
      if (current.ref.nonce === next.nonce) return current;
    }
    throw new TaskdError("conflict", `${attempted}: it keeps changing`, { hint: "Try again" });
  }

  /** Deletes a ref that is still as it was read; false when it was changed in between. */
  async remove(db: string, branch: string, etag: string): Promise<boolean> {
    try {
      await this.#backend.delete(refKey(db, branch), { if_match: etag });
      return true;
    } catch (error) {
      if (isBackendError(error, "not_found")) return true;
      if (isBackendError(error, "precondition_failed")) return false;
      if (isBackendError(error, "ambiguous")) return (await this.find(db, branch)) === undefined;
      throw storeError(error, `Cannot delete the ref of ${db}@${branch}`);
    }
  }

  /** Reads all refs, in the order of their keys. A key that no ref has may be a newer program's. */
  async all({ signal, onDamaged }: ReadRefsOptions = {}): Promise<(NamedRef & VersionedRef)[]> {
    const listed = Array.fromAsync(this.#backend.list(REFS_PREFIX));
    const keys = (await translated("Cannot list the branches", () => listed)).map(({ key }) => key).sort();
    const found = new Map<string, NamedRef & VersionedRef | TaskdError>();
    await inParallel(keys, PARALLEL_READS, async (key) => {
      throwIfInterrupted(signal);
      try {
        const name = parseRefKey(key);
        if (!name) throw new TaskdError("corrupt", `Cannot identify ${key}`, { hint: "Move it out of the store" });
        const read = await this.find(name.db, name.branch);
        if (read) found.set(key, { ...name, ...read });
      } catch (raw) {
        const error = unreadable(raw);
        if (!onDamaged || !hasCode(error, "corrupt", "unsupported_format")) throw error;
        found.set(key, error);
      }
    });
    return keys.flatMap((key) => {
      const each = found.get(key);
      if (each instanceof TaskdError) onDamaged!(key, each);
      return each === undefined || each instanceof TaskdError ? [] : each;
    });
  }

  /** Names of all branches, of one database or of all, sorted. */
  async list(db?: string): Promise<{ db: string; branch: string }[]> {
    const found: { db: string; branch: string }[] = [];
    await translated("Cannot list the branches", async () => {
      for await (const { key } of this.#backend.list(db === undefined ? REFS_PREFIX : `${REFS_PREFIX}${db}/`)) {
        const name = parseRefKey(key);
        if (name) found.push(name);
      }
    });
    // Keys sort otherwise: their ends are no part of the names.
    const order = (a: string, b: string) => a < b ? -1 : a > b ? 1 : 0;
    return found.sort((a, b) => order(a.db, b.db) || order(a.branch, b.branch));
  }
}
