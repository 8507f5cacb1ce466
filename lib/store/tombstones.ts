/**
 * The list of objects that nothing reaches any more, `gc/tombstones.json`, changed only by
 * compare-and-swap. An object is first tombstoned, after the grace period doomed,
 * then deleted. A tombstone may be revoked; doom may not, and stays on the list for a while
 * after the object is gone.
 *
 * A process that makes a branch of existing objects writes its ref first and then reads this list
 * ({@linkcode spare}): it revokes tombstones on what it builds upon, and gives up before doom. Why that is
 * enough, whatever clocks say, is written at the head of gc.ts.
 */

import * as v from "../packages/valibot.ts";
import { type Backend, isBackendError } from "../backend/backend.ts";
import { type RandomBytes, randomHex } from "../clock.ts";
import { hasCode, TaskdError } from "../errors.ts";
import { type Base, type Chain, Chains } from "./chain.ts";
import { ifThere, storeError, translated } from "./errors.ts";
import { baseKey, DATA_PREFIX, imageIndexKey } from "./keys.ts";
import { encodeRecord, hex, instant, parseRecord, readRecord } from "./records.ts";

export const TOMBSTONES_KEY = "gc/tombstones.json";
/**
 * How long doom stays listed after its objects are gone, by the clock of the host that looks: it explains what a maker that
 * died has left, so that it can be removed. Nothing that is kept depends on it.
 */
export const DOOMED_RETAIN_MS = 5 * 60_000;
/** How often revoking a tombstone is tried while others change the list. */
const MAX_REVOCATIONS = 8;
/** Tombstones on the list; more wait for the next pass. */
export const MAX_TOMBSTONES = 10_000;
/** Names on the list, some 25 bytes each; more wait for the next pass. */
export const MAX_NAMES = 50_000;

const TombstoneSchema = v.object({
  lineage: hex(32),
  /** The objects meant, by {@linkcode shortName}; absent, the whole lineage, with what may yet appear in it. */
  names: v.exactOptional(v.array(v.string())),
  /** When they were found unreachable, ISO 8601 UTC. */
  at: instant,
  /** When their deletion was decided. */
  doomed: v.exactOptional(instant),
});

export type Tombstone = v.InferOutput<typeof TombstoneSchema>;

const ListSchema = v.object({
  schema: v.literal(1),
  /** Random, new in every write. */
  nonce: v.string(),
  tombstones: v.array(TombstoneSchema),
});

export interface VersionedTombstones {
  tombstones: Tombstone[];
  etag: string;
}

/** An object's key within its lineage, without leading zeros: `3/segment-12a-11f.zst`. */
export function shortName(key: string): string {
  return key.slice(key.indexOf("/", DATA_PREFIX.length) + 1)
    .replace(/[0-9a-f]{16}/g, (digits) => digits.replace(/^0+(?=.)/, ""));
}

/** Reads the list; undefined when there is none. One that cannot be understood is `corrupt`. */
export async function readTombstones(backend: Backend): Promise<VersionedTombstones | undefined> {
  const found = await ifThere(`Cannot read ${TOMBSTONES_KEY}`, () => readList(backend));
  return found && { tombstones: found.value.tombstones, etag: found.etag };
}

/**
 * Replaces the list that was read under `etag` (undefined: there was none) and returns the new etag; undefined when
 * another process has written it since.
 */
export async function writeTombstones(
  { backend, random }: { backend: Backend; random: RandomBytes },
  tombstones: Tombstone[],
  etag: string | undefined,
): Promise<string | undefined> {
  const nonce = randomHex(random, 8);
  const list: v.InferOutput<typeof ListSchema> = { schema: 1, nonce, tombstones };
  const bytes = encodeRecord(list);
  try {
    return etag === undefined
      ? await backend.create(TOMBSTONES_KEY, bytes)
      : await backend.replace(TOMBSTONES_KEY, bytes, etag);
  } catch (error) {
    if (isBackendError(error, "precondition_failed")) return undefined;
    if (!isBackendError(error, "ambiguous")) throw storeError(error, `Cannot write ${TOMBSTONES_KEY}`);
  }
  const found = await translated(`Cannot read ${TOMBSTONES_KEY}`, () => readList(backend));
  return found.value.nonce === nonce ? found.etag : undefined;
}

const LIST_READER = { versions: { 1: ListSchema } };

function readList(backend: Backend): Promise<{ value: v.InferOutput<typeof ListSchema>; etag: string }> {
  return readRecord(backend, TOMBSTONES_KEY, (bytes) => parseRecord(bytes, TOMBSTONES_KEY, LIST_READER));
}

export class TombstoneIndex {
  readonly #entries = new Map<string, { tombstone: Tombstone; names: Set<string> | undefined }[]>();

  constructor(tombstones: Iterable<Tombstone>) {
    for (const tombstone of tombstones) {
      const names = tombstone.names && new Set(tombstone.names);
      this.#entries.getOrInsert(tombstone.lineage, []).push({ tombstone, names });
    }
  }

  hasLineage(lineage: string): boolean {
    return this.#entries.has(lineage);
  }

  lineages(): Iterable<string> {
    return this.#entries.keys();
  }

  of(lineage: string): Tombstone[] {
    return (this.#entries.get(lineage) ?? []).map(({ tombstone }) => tombstone);
  }

  /** The entry that covers an object, a doomed one first. */
  find(lineage: string, name: string): Tombstone | undefined {
    const covering = this.#entries.get(lineage)?.filter(({ names }) => !names || names.has(name));
    return (covering?.find(({ tombstone }) => tombstone.doomed) ?? covering?.[0])?.tombstone;
  }

  /** Whether doom explains that nothing ends at a txid (16 hex digits or fewer) of a lineage. */
  explainsGap(lineage: string, txid_hex: string): boolean {
    const ends = new RegExp(`/(snapshot|segment)-${txid_hex}[-.]`);
    return this.#entries.get(lineage)?.some(({ tombstone, names }) =>
      tombstone.doomed !== undefined &&
      (!names || names.has("base.json") || [...names].some((name) => ends.test(name)))
    ) ?? false;
  }
}

/** Which list there is; undefined when there is none. */
export type ListVersion = string | undefined;

/** The present list's version. Taken before a process reads the store, it shows {@linkcode spare} what it may rely on. */
export async function listVersion(backend: Backend): Promise<ListVersion> {
  return (await ifThere(`Cannot read ${TOMBSTONES_KEY}`, () => backend.get(TOMBSTONES_KEY)))?.etag;
}

/** What a tombstone leaves once the objects `names` of its lineage are reached again. */
export function without(tombstone: Tombstone, names: ReadonlySet<string>): Tombstone[] {
  const left = tombstone.names?.filter((name) => !names.has(name)) ?? [];
  return left.length === 0 ? [] : [{ ...tombstone, names: left }];
}

/** What a ref that has been written relies on. */
export interface Reliance {
  /** Where the ref's chain resolves. */
  at: Base;
  /** A lineage that was begun for it. */
  lineage?: string;
  /** Objects of others that it builds upon. */
  chain?: Chain;
  /** From before its maker began to read the store. */
  since: ListVersion;
}

/**
 * Makes sure that garbage collection does not remove what a ref, written before, relies on: revokes tombstones on it,
 * and throws `conflict` when it is doomed or gone. One small read; more only when the list has changed.
 */
export async function spare(
  { backend, random }: { backend: Backend; random: RandomBytes },
  attempted: string,
  reliance: Reliance,
): Promise<void> {
  const { lineage, chain, since, at } = reliance;
  const relied = new Map<string, Set<string>>();
  for (const each of chain ? keysOf(chain) : []) {
    relied.getOrInsert(each.lineage, new Set()).add(shortName(each.key));
  }
  const covers = (tombstone: Tombstone) =>
    tombstone.lineage === lineage ||
    relied.has(tombstone.lineage) &&
      (tombstone.names?.some((name) => relied.get(tombstone.lineage)!.has(name)) ?? true);
  for (let attempt = 0; attempt < MAX_REVOCATIONS; attempt++) {
    const list = await readTombstones(backend);
    const covering = new Set(list?.tombstones.filter(covers));
    if ([...covering].some(({ doomed }) => doomed !== undefined)) throw conflict(attempted);
    // Another process changed the list, and may have forgotten what is gone.
    if (covering.size === 0) return list?.etag === since ? undefined : await assertThere(backend, attempted, at);
    const left = list!.tombstones.flatMap((tombstone) => {
      if (!covering.has(tombstone)) return [tombstone];
      return tombstone.lineage === lineage ? [] : without(tombstone, relied.get(tombstone.lineage)!);
    });
    await writeTombstones({ backend, random }, left, list!.etag);
  }
  throw conflict(attempted);
}

/** Throws `conflict` unless all objects of a chain are there. */
async function assertThere(backend: Backend, attempted: string, at: Base): Promise<void> {
  try {
    for (const { key, codec } of (await new Chains(backend).resolve(at.lineage, at.txid)).objects) {
      if (codec === "raw") await translated(`Cannot inspect ${key}`, () => backend.head(imageIndexKey(key)));
    }
  } catch (error) {
    throw hasCode(error, "chain_gap", "not_found") ? conflict(attempted, error) : error;
  }
}

/** Keys that a chain needs: its objects, their companions, and the base pointers between its lineages. */
export function keysOf({ objects }: Chain): { lineage: string; key: string }[] {
  const keys: { lineage: string; key: string }[] = [];
  objects.forEach(({ lineage, key, codec }, index) => {
    keys.push({ lineage, key });
    if (codec === "raw") keys.push({ lineage, key: imageIndexKey(key) });
    const before = objects[index - 1];
    if (before && before.lineage !== lineage) keys.push({ lineage, key: baseKey(lineage) });
  });
  return keys;
}

function conflict(attempted: string, cause?: unknown): TaskdError {
  return new TaskdError("conflict", `${attempted}: what it builds upon is being removed as garbage`, {
    cause,
    hint: "Try again",
  });
}
