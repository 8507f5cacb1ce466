/**
 * Chain resolution: which objects make up a database at a txid.
 *
 * A chain is one snapshot and the contiguous segments after it. It is found backwards from its end: at each txid the
 * object of the highest epoch that ends there counts. That choice is safe because the holder of an epoch writes only
 * txids above the head that it found, and no two objects that end at the same one: an object of a lower epoch at that
 * txid was never committed. Where a lineage's own objects do not reach back far enough, the rest is resolved inside its
 * base lineage, whose part must end exactly at the base pointer's txid. A gap is an error, never a guess.
 */

import * as v from "../packages/valibot.ts";
import type { Backend } from "../backend/backend.ts";
import { TaskdError } from "../errors.ts";
import { ifThere, translated } from "./errors.ts";
import { baseKey, lineagePrefix, type ObjectKey, parseObjectKey } from "./keys.ts";
import { formatTxid, type Txid } from "./names.ts";
import { correctRecord, count, encodeRecord, hex, parseRecord, readRecord } from "./records.ts";
import { sha256Hex } from "../sha256.ts";

export interface ChainObject extends ObjectKey {
  size: number;
}

export interface Chain {
  /** The snapshot, then the segments in order. */
  objects: ChainObject[];
  /** SHA-256 of the objects' keys, in hex. */
  id: string;
  /** Where it ends. */
  txid: Txid;
  /** Segments past the snapshot. */
  depth: number;
  bytes: number;
}

/** A base pointer: where a lineage's history continues. */
export interface Base {
  lineage: string;
  txid: Txid;
}

/** Names a place in a lineage. */
export function placeOf({ lineage, txid }: Base): string {
  return `${lineage}/${txid}`;
}

const BaseSchema = v.object({ lineage: hex(32), txid: count });

/** A lineage is reached through at most this many base pointers; more is a cycle or a defect. */
const MAX_HOPS = 4096;
/** Base pointers and chains are immutable, so a process keeps some. */
const CACHE_ENTRIES = 256;

/** Whether another lineage may continue a chain by a base pointer and stay within {@linkcode MAX_HOPS}. */
export function isShareable({ objects }: Chain): boolean {
  return new Set(objects.map(({ lineage }) => lineage)).size < MAX_HOPS;
}

export function encodeBase({ lineage, txid }: Base): Uint8Array {
  return encodeRecord({ lineage, txid });
}

/** Reads the base pointer of a lineage; throws `corrupt` naming its key, and a backend's errors as they are. */
export async function readBase(backend: Backend, lineage: string): Promise<Base> {
  const key = baseKey(lineage);
  return (await readRecord(backend, key, (bytes) => parseRecord(bytes, key, BaseSchema))).value;
}

/** The base pointer that the damaged bytes of one were, where their checksum shows it. */
export async function correctBase(backend: Backend, lineage: string): Promise<Base | undefined> {
  const key = baseKey(lineage);
  const found = await ifThere(`Cannot read ${key}`, () => backend.get(key));
  return found && correctRecord(found.bytes, (bytes) => parseRecord(bytes, key, BaseSchema).value);
}

/** SHA-256, in hex, of object keys joined by newlines. */
export function chainId(keys: Iterable<string>): string {
  return sha256Hex([...keys].join("\n"));
}

/** A chain of these objects, the snapshot first. */
export function chainOf(objects: ChainObject[], txid: Txid): Chain {
  return {
    objects,
    id: chainId(objects.map((object) => object.key)),
    txid,
    depth: objects.length - 1,
    bytes: objects.reduce((sum, object) => sum + object.size, 0),
  };
}

export class Chains {
  readonly #backend: Backend;
  readonly #bases = new Map<string, Base>();
  readonly #chains = new Map<string, Chain>();

  constructor(backend: Backend) {
    this.#backend = backend;
  }

  /** The chain of `lineage` at `txid`; throws `chain_gap` naming what is missing. */
  async resolve(lineage: string, txid: Txid): Promise<Chain> {
    const cached = this.#chains.get(`${lineage}@${txid}`);
    if (cached) return cached;
    const reversed = await Array.fromAsync(walkBack({ lineage, txid }, (each) => this.view(each)));
    const chain = chainOf(reversed.reverse(), txid);
    remember(this.#chains, `${lineage}@${txid}`, chain);
    return chain;
  }

  /** The base pointer of a lineage; undefined when it has none. */
  async base(lineage: string): Promise<Base | undefined> {
    const cached = this.#bases.get(lineage);
    if (cached) return cached;
    const attempted = `Cannot read the base pointer of lineage ${lineage}`;
    const base = await ifThere(attempted, () => readBase(this.#backend, lineage));
    if (base) remember(this.#bases, lineage, base);
    return base;
  }

  /** All objects of one lineage, of any epoch, dead ones included. */
  async objects(lineage: string): Promise<ChainObject[]> {
    const found: ChainObject[] = [];
    await translated(`Cannot list lineage ${lineage}`, async () => {
      for await (const { key, size } of this.#backend.list(lineagePrefix(lineage))) {
        const parsed = parseObjectKey(key);
        if (parsed) found.push({ ...parsed, size });
      }
    });
    return found;
  }

  /**
   * The highest txid at which an object of `epoch` or a later one ends in a lineage; 0 when none does. There is such an
   * object only where the ref was put back to an earlier state than the objects, as by a backup that copied it first:
   * a new object that ends no higher would collide with it.
   */
  async taken(lineage: string, epoch: number): Promise<Txid> {
    const rivals = (await this.objects(lineage)).filter((object) => object.epoch >= epoch);
    return rivals.reduce((highest, { last }) => Math.max(highest, last), 0);
  }

  /** Empties the cache, for a caller that needs the store's present state. */
  forget(): void {
    this.#bases.clear();
    this.#chains.clear();
  }

  async view(lineage: string): Promise<LineageView> {
    return viewOf(await this.objects(lineage), await this.base(lineage));
  }
}

/** Shows lineages of a store as they are now, and lists each once. */
export function viewsOf(backend: Backend): (lineage: string) => Promise<LineageView> {
  const [chains, views] = [new Chains(backend), new Map<string, Promise<LineageView>>()];
  return (lineage) => views.getOrInsertComputed(lineage, () => chains.view(lineage));
}

/**
 * The objects of a chain that ends at `end`, the last one first, in lineages as `view` shows them. Throws `chain_gap`, or
 * `corrupt` where base pointers form a cycle.
 */
export async function* walkBack(
  end: Base,
  view: (lineage: string) => Promise<LineageView>,
): AsyncGenerator<ChainObject, void> {
  const seen = new Set<string>();
  for (let at = end;;) {
    if (seen.has(at.lineage) || seen.size >= MAX_HOPS) {
      throw new TaskdError("corrupt", `Cannot resolve lineage ${end.lineage}: its base pointers form a cycle`);
    }
    seen.add(at.lineage);
    const here = await view(at.lineage);
    let object: ChainObject | undefined;
    let txid = at.txid;
    while ((object = stepBack(here, at, txid))) {
      yield object;
      if (object.kind === "snapshot") return;
      txid = object.first;
    }
    at = { lineage: here.base!.lineage, txid };
  }
}

/** What a lineage offers to a chain. */
export interface LineageView {
  /** Where it continues; absent when it does not. */
  base: Base | undefined;
  /** By txid, the object that counts among those that end there. */
  newest: ReadonlyMap<Txid, ChainObject>;
}

export function viewOf(objects: Iterable<ChainObject>, base: Base | undefined): LineageView {
  const newest = new Map<Txid, ChainObject>();
  for (const object of objects) {
    const known = newest.get(object.last);
    if (!known || outranks(object, known)) newest.set(object.last, object);
  }
  return { base, newest };
}

/**
 * One step of a walk back: the object that ends at `txid`; undefined where the base lineage continues. Throws
 * `chain_gap` when nothing ends there; `at` is where the walk entered the lineage.
 */
export function stepBack({ base, newest }: LineageView, at: Base, txid: Txid): ChainObject | undefined {
  // Nothing of this lineage was committed at or below its base.
  if (base && txid <= base.txid) return undefined;
  const object = newest.get(txid);
  if (!object) throw gap(at, txid, base, newest);
  if (object.kind === "segment" && base && object.first < base.txid) throw gap(at, object.first, base, newest);
  return object;
}

function outranks(a: ChainObject, b: ChainObject): boolean {
  if (a.epoch !== b.epoch) return a.epoch > b.epoch;
  return a.kind === "snapshot" && b.kind === "segment";
}

function gap(at: Base, txid: Txid, base: Base | undefined, newest: ReadonlyMap<Txid, ChainObject>): TaskdError {
  let below = base?.txid ?? 0;
  for (const known of newest.keys()) if (known < txid && known > below) below = known;
  return new TaskdError(
    "chain_gap",
    `Cannot resolve lineage ${at.lineage} at ${formatTxid(at.txid)}: nothing covers (${formatTxid(below)}..${
      formatTxid(txid)
    }]`,
    { hint: "An object was deleted or lost: restore it from a backup, or use an earlier checkpoint" },
  );
}

function remember<T>(cache: Map<string, T>, key: string, value: T): void {
  const oldest = cache.keys().next();
  if (cache.size >= CACHE_ENTRIES && !oldest.done) cache.delete(oldest.value);
  cache.set(key, value);
}
