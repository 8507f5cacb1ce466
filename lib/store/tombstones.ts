/**
 * The list of objects that nothing reaches any more, `gc/tombstones.json`, changed only by
 * compare-and-swap. An object is first tombstoned, after the grace period doomed,
 * then deleted. A tombstone may be revoked; doom may not, and stays on the list for a while
 * after the object is gone.
 *
 * A process that makes a branch of existing objects writes its ref first and then reads this list
 * ({@linkcode assertSpared}): nothing may build upon what is listed here. Why that is enough
 * is written at the head of gc.ts.
 */

import * as v from "../packages/valibot.ts";
import { type Backend, isBackendError } from "../backend/backend.ts";
import { type Clock, type RandomBytes, randomHex } from "../clock.ts";
import { hasCode, TaskdError } from "../errors.ts";
import { parseStoredJson } from "./_json.ts";
import { type Base, type Chain, Chains } from "./chain.ts";
import { storeError, translated } from "./errors.ts";
import { baseKey, DATA_PREFIX, imageIndexKey } from "./keys.ts";

export const TOMBSTONES_KEY = "gc/tombstones.json";
/** How long doom stays listed at least; it also stays until the objects are gone. */
export const DOOMED_RETAIN_MS = 5 * 60_000;
/**
 * A process that took longer than this to make a branch may read a list that has already forgotten an object, so it
 * checks that its objects are there. Far below {@linkcode DOOMED_RETAIN_MS}: clocks run at different rates.
 */
const TRUST_LIST_MS = 60_000;
/** Tombstones on the list; more wait for the next pass. */
export const MAX_TOMBSTONES = 10_000;
/** Names on the list, some 25 bytes each; more wait for the next pass. */
export const MAX_NAMES = 50_000;

const instant = v.pipe(v.string(), v.isoTimestamp());

const TombstoneSchema = v.object({
  lineage: v.pipe(v.string(), v.regex(/^[0-9a-f]{32}$/)),
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
  try {
    const { bytes, etag } = await backend.get(TOMBSTONES_KEY);
    return { tombstones: decode(bytes).tombstones, etag };
  } catch (error) {
    if (isBackendError(error, "not_found")) return undefined;
    throw storeError(error, `Cannot read ${TOMBSTONES_KEY}`);
  }
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
  const bytes = new TextEncoder().encode(JSON.stringify(list));
  try {
    return etag === undefined
      ? await backend.create(TOMBSTONES_KEY, bytes)
      : await backend.replace(TOMBSTONES_KEY, bytes, etag);
  } catch (error) {
    if (isBackendError(error, "precondition_failed")) return undefined;
    if (!isBackendError(error, "ambiguous")) throw storeError(error, `Cannot write ${TOMBSTONES_KEY}`);
  }
  const found = await translated(`Cannot read ${TOMBSTONES_KEY}`, () => backend.get(TOMBSTONES_KEY));
  return decode(found.bytes).nonce === nonce ? found.etag : undefined;
}

function decode(bytes: Uint8Array): v.InferOutput<typeof ListSchema> {
  let json: unknown;
  let problem = "it is not JSON";
  try {
    json = parseStoredJson(bytes);
    const parsed = v.safeParse(ListSchema, json);
    if (parsed.success) return parsed.output;
    problem = `${v.getDotPath(parsed.issues[0]) ?? "it"}: ${parsed.issues[0].message}`;
  } catch {
    // Thrown below.
  }
  throw new TaskdError("corrupt", `Cannot read ${TOMBSTONES_KEY}: ${problem}`, {
    hint: "With no other program at work on the store, remove the file: garbage is then found anew",
  });
}

export class TombstoneIndex {
  readonly #entries = new Map<string, { tombstone: Tombstone; names: Set<string> | undefined }[]>();

  constructor(tombstones: Iterable<Tombstone>) {
    for (const tombstone of tombstones) {
      const names = tombstone.names && new Set(tombstone.names);
      const known = this.#entries.get(tombstone.lineage);
      if (known) known.push({ tombstone, names });
      else this.#entries.set(tombstone.lineage, [{ tombstone, names }]);
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

/** A moment, on both clocks of a process. */
export interface Moment {
  now_ms: number;
  monotonic_ms: number;
}

export function momentOf(clock: Clock): Moment {
  return { now_ms: clock.now(), monotonic_ms: clock.monotonic() };
}

/** What a ref that was just written relies on. */
export interface Reliance {
  /** Where the ref's chain resolves. */
  at: Base;
  /** A lineage that was begun for it. */
  lineage?: string;
  /** Objects of others that it builds upon. */
  chain?: Chain;
  /** When its maker began to read the store. */
  since: Moment;
}

/**
 * Throws `conflict` if garbage collection may be removing something that a ref, just written, relies on. One small read,
 * unless making the ref took longer than {@linkcode TRUST_LIST_MS}.
 */
export async function assertSpared(
  { backend, clock }: { backend: Backend; clock: Clock },
  attempted: string,
  reliance: Reliance,
): Promise<void> {
  const list = await readTombstones(backend);
  if (!list) return;
  const { lineage, chain, since } = reliance;
  const index = new TombstoneIndex(list.tombstones);
  if (lineage !== undefined && index.hasLineage(lineage)) throw conflict(attempted);
  if (chain && keysOf(chain).some(({ lineage, key }) => index.find(lineage, shortName(key)))) throw conflict(attempted);
  const elapsed_ms = Math.max(clock.now() - since.now_ms, clock.monotonic() - since.monotonic_ms);
  if (elapsed_ms > TRUST_LIST_MS) await assertThere(backend, attempted, reliance.at);
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
