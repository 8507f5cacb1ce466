/**
 * Refs: one small mutable object per branch, the only mutable thing a branch has.
 * Every update is compare-and-swap. A random nonce in each write shows, after an
 * answer was lost, whether our own write succeeded.
 */

import * as v from "../packages/valibot.ts";
import { type Backend, isBackendError, type ReplaceOptions } from "../backend/backend.ts";
import { type RandomBytes, randomHex } from "../clock.ts";
import { TaskdError } from "../errors.ts";
import { parseStoredJson } from "./_json.ts";
import { storeError, translated } from "./errors.ts";
import { parseRefKey, refKey, REFS_PREFIX } from "./keys.ts";
import type { Lifetime } from "./results.ts";

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
  lease?: { holder: string; expires_at: string };
  /** Whether destroying it needs force. */
  protected?: boolean;
  /** A process is about to remove it. */
  claim?: { kind: "destroy" | "reap"; since: string; nonce: string };
  /**
   * A lineage that the lease's holder is about to give the branch, and the point that it continues: garbage collection
   * keeps both. Void once the lease has ended.
   */
  pending?: { holder: string; lineage: string; base: { lineage: string; txid: number } };
  /** Mirror of the lineage's base pointer, for reports; base.json is what counts. */
  base?: { lineage: string; txid: number };
  /** Random, new in every write. */
  nonce: string;
}

const hex = (digits: number) => v.pipe(v.string(), v.regex(new RegExp(`^[0-9a-f]{${digits}}$`)));
const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const lineage = hex(32);
const digest = hex(16);
const instant = v.pipe(v.string(), v.isoTimestamp());

const CheckpointSchema = v.object({
  name: v.string(),
  txid: count,
  kind: v.picklist(["snapshot", "segment"]),
  created_at: instant,
  digest,
  lineage: v.exactOptional(lineage),
  note: v.exactOptional(v.string()),
});

const RefSchema: v.GenericSchema<unknown, Ref> = v.object({
  schema: v.literal(REF_SCHEMA),
  lineage,
  epoch: count,
  txid: count,
  digest,
  checkpoints: v.exactOptional(v.array(CheckpointSchema), []),
  lease: v.exactOptional(v.object({ holder: v.string(), expires_at: instant })),
  ttl_ms: v.exactOptional(count),
  touched_at: instant,
  protected: v.exactOptional(v.boolean()),
  claim: v.exactOptional(v.object({ kind: v.picklist(["destroy", "reap"]), since: instant, nonce: v.string() })),
  pending: v.exactOptional(v.object({ holder: v.string(), lineage, base: v.object({ lineage, txid: count }) })),
  base: v.exactOptional(v.object({ lineage, txid: count })),
  nonce: v.string(),
});

export interface VersionedRef {
  ref: Ref;
  etag: string;
}

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
  return new TextEncoder().encode(JSON.stringify(checkpoints.length === 0 ? rest : { ...rest, checkpoints }));
}

/** Reads a ref's bytes; throws `corrupt` or `unsupported_format`. */
export function decodeRef(bytes: Uint8Array, address: string): Ref {
  let json: unknown;
  try {
    json = parseStoredJson(bytes);
  } catch (cause) {
    throw new TaskdError("corrupt", `Cannot read the ref of ${address}: it is not JSON`, { cause });
  }
  const schema = typeof json === "object" && json !== null ? (json as { schema?: unknown }).schema : undefined;
  if (typeof schema === "number" && schema > REF_SCHEMA) {
    throw new TaskdError(
      "unsupported_format",
      `Cannot read the ref of ${address}: its schema is ${schema}`,
      { hint: "Use the newer program that wrote it" },
    );
  }
  const result = v.safeParse(RefSchema, json);
  if (!result.success) {
    const issue = result.issues[0];
    throw new TaskdError(
      "corrupt",
      `Cannot read the ref of ${address}: ${v.getDotPath(issue) ?? "it"}: ${issue.message}`,
    );
  }
  return result.output;
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

  async find(db: string, branch: string): Promise<VersionedRef | undefined> {
    try {
      const { bytes, etag } = await this.#backend.get(refKey(db, branch));
      return { ref: decodeRef(bytes, `${db}@${branch}`), etag };
    } catch (error) {
      if (isBackendError(error, "not_found")) return undefined;
      throw storeError(error, `Cannot read the ref of ${db}@${branch}`);
    }
  }

  /**
   * Writes the first ref of a branch. Only `already_exists` proves that the ref was never written; after any
   * other error it may exist, and what it refers to has to stay.
   */
  async create(db: string, branch: string, ref: Omit<Ref, "nonce" | "schema">): Promise<VersionedRef> {
    const whole: Ref = { schema: REF_SCHEMA, ...ref, nonce: this.nonce() };
    const attempted = `Cannot create the branch ${db}@${branch}`;
    let unsure = false;
    for (let attempt = 0; attempt < 4; attempt++) {
      try {
        return { ref: whole, etag: await this.#backend.create(refKey(db, branch), encodeRef(whole)) };
      } catch (error) {
        if (isBackendError(error, "ambiguous")) unsure = true;
        else if (!isBackendError(error, "precondition_failed")) {
          throw unsure ? doubt(error) : storeError(error, attempted);
        }
      }
      // Our write was never visible: this ref is certainly another's.
      if (!unsure) throw new TaskdError("already_exists", `${attempted}: it exists already`);
      const found = await this.find(db, branch).catch((error) => {
        throw doubt(error);
      });
      // By lineage: another process may have changed our ref, and with it its nonce, since.
      if (found?.ref.lineage === whole.lineage) return found;
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
   * recognize this, or be harmless twice.
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
      const next: Ref = { ...changed, nonce: this.nonce() };
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
      if (isBackendError(error, "ambiguous")) {
        return (await this.find(db, branch)) === undefined;
      }
      throw storeError(error, `Cannot delete the ref of ${db}@${branch}`);
    }
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
