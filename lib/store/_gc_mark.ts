/**
 * What a garbage collection pass sees: the refs, then all objects, then which of these some
 * branch reaches. Anything that cannot be read or resolved fails the pass.
 */

import type { Backend } from "../backend/backend.ts";
import { nextTurn } from "../clock.ts";
import { inParallel } from "../in_parallel.ts";
import { hasCode, messageOf, TaskdError } from "../errors.ts";
import { type Base, type ChainObject, type LineageView, placeOf, readBase, stepBack, viewOf } from "./chain.ts";
import { translated } from "./errors.ts";
import { baseKey, DATA_PREFIX, imageIndexKey, parseObjectKey } from "./keys.ts";
import { formatAddress } from "./names.ts";
import { pointsOf } from "./history.ts";
import { mergePointsOf } from "./merge_base.ts";
import type { NamedRef, Ref, VersionedRef } from "./ref.ts";
import type { HistoryCost } from "./results.ts";
import { shortName, type TombstoneIndex } from "./tombstones.ts";

export const PARALLEL_READS = 16;
/** Listed objects between two turns of the event loop. */
const OBJECTS_PER_TURN = 1000;

export type FoundRef = NamedRef & VersionedRef;

/** An object that the engine may have written. */
export interface StoredKey {
  key: string;
  size: number;
  /** Parsed from its key; for an image index, from its image's key. Absent for a base pointer. */
  object?: ChainObject;
}

export interface Inventory {
  lineages: ReadonlyMap<string, StoredKey[]>;
  /** Keys of the image indexes among them. */
  indexes: ReadonlySet<string>;
  unknown: number;
}

export async function takeInventory(
  backend: Backend,
  options: { signal?: AbortSignal | undefined; onProgress?: (objects: number) => void } = {},
): Promise<Inventory> {
  const lineages = new Map<string, StoredKey[]>();
  const indexes = new Set<string>();
  let unknown = 0;
  let count = 0;
  await translated("Cannot list the objects", async () => {
    for await (const { key, size } of backend.list(DATA_PREFIX)) {
      if (++count % OBJECTS_PER_TURN === 0) {
        options.signal?.throwIfAborted();
        options.onProgress?.(count);
        await nextTurn();
      }
      const stored = identify(key, size);
      if (stored && key.endsWith(".idx")) indexes.add(key);
      if (!stored) unknown++;
      else lineages.getOrInsert(stored.lineage, []).push(stored.entry);
    }
  });
  options.onProgress?.(count);
  return { lineages, indexes, unknown };
}

function identify(key: string, size: number): { lineage: string; entry: StoredKey } | undefined {
  const base = /^data\/([0-9a-f]{32})\/base\.json$/.exec(key);
  if (base) return { lineage: base[1]!, entry: { key, size } };
  const object = parseObjectKey(key.replace(/\.idx$/, ".raw"));
  return object && { lineage: object.lineage, entry: { key, size, object: { ...object, size } } };
}

/** Lineages that are being made for a ref: by a repoint that its lease's holder may still carry out, and by folding. */
export function pinsOf({ lease, pending, folding }: Ref): { lineage: string; base: Base }[] {
  return [
    ...pending && lease?.holder === pending.holder ? [pending] : [],
    ...folding === undefined ? [] : [folding],
  ];
}

/** A walk reached an object whose deletion is decided. */
class Doomed extends Error {}

export class Marker {
  readonly marked = new Set<string>();
  /** Lineages whose every object is kept, because they are being made. */
  readonly pinned = new Set<string>();
  readonly #backend: Backend;
  readonly #inventory: Inventory;
  readonly #index: TombstoneIndex;
  readonly #views = new Map<string, Promise<LineageView>>();
  /** `lineage/txid` of every point walked through. */
  readonly #visited = new Set<string>();
  #sizes: Map<string, number> | undefined;
  /** Where each branch may be writing. */
  readonly #heads = new Map<string, { epoch: number; txid: number }>();

  constructor(backend: Backend, inventory: Inventory, index: TombstoneIndex) {
    this.#backend = backend;
    this.#inventory = inventory;
    this.#index = index;
  }

  /**
   * Marks what one ref keeps. False when the ref was never finished: it builds upon something doomed, so its maker
   * had to withdraw it.
   */
  async add(found: FoundRef): Promise<boolean> {
    const { db, branch, ref } = found;
    try {
      for (const root of pointsOf(found)) await this.#walk(root);
    } catch (error) {
      if (error instanceof Doomed && isUnused(ref)) return false;
      const problem = error instanceof Doomed ? `it needs ${error.message}, which is being deleted` : messageOf(error);
      throw new TaskdError(
        hasCode(error, "corrupt", "chain_gap") ? error.code : "chain_gap",
        `Cannot resolve ${formatAddress({ db, branch })}: ${problem}`,
        { cause: error, hint: "Run: taskd verify; a branch that is beyond repair can be destroyed" },
      );
    }
    for (const point of mergePointsOf(ref)) await this.#keep(point);
    const known = this.#heads.get(ref.lineage);
    this.#heads.set(ref.lineage, {
      epoch: Math.min(ref.epoch, known?.epoch ?? Infinity),
      txid: Math.min(ref.txid, known?.txid ?? Infinity),
    });
    for (const pin of pinsOf(ref)) await this.#pin(pin);
    return true;
  }

  /**
   * Reads the base pointers of lineages that are about to be walked through, some at a time: a branch's past has a hundred
   * and more, each a request to the store. One that cannot be read fails the walk.
   */
  async look(lineages: Iterable<string>, signal: AbortSignal | undefined): Promise<void> {
    await inParallel(new Set(lineages), PARALLEL_READS, async (lineage) => {
      signal?.throwIfAborted();
      await this.#view(lineage).catch(() => {});
    });
  }

  /**
   * Marks what the kept points of one ref's past need, after {@linkcode add} of all refs. The branch does without them: one
   * whose objects are gone, which an older program has not kept, counts no more.
   */
  async addPast({ db, branch }: FoundRef, points: readonly Base[]): Promise<HistoryCost> {
    const before = this.marked.size;
    let kept = 0;
    for (const point of points) if (await this.#keep(point)) kept++;
    // A set goes by the order in which it was added to.
    const added = this.marked.size === before ? [] : [...this.marked].slice(before);
    return { db, branch, points: kept, bytes: added.reduce((sum, key) => sum + this.#sizeOf(key), 0) };
  }

  #sizeOf(key: string): number {
    this.#sizes ??= new Map([...this.#inventory.lineages.values()].flat().map(({ key, size }) => [key, size]));
    return this.#sizes.get(key) ?? 0;
  }

  /** Whether an object must stay: it is reached, or a holder of a lease may be writing it now. */
  keeps(lineage: string, { key, object }: StoredKey): boolean {
    if (this.marked.has(key) || this.pinned.has(lineage)) return true;
    const head = this.#heads.get(lineage);
    return head !== undefined && object !== undefined && object.epoch >= head.epoch && object.last >= head.txid;
  }

  /**
   * Marks what a later merge may begin at, or a point of the past. The branch does without it: a copy or a backup may lack
   * it. False where it is not there.
   */
  async #keep(point: Base): Promise<boolean> {
    try {
      await this.#walk(point);
      return true;
    } catch (error) {
      if (!(error instanceof Doomed) && !hasCode(error, "corrupt", "chain_gap")) throw error;
      return false;
    }
  }

  /** Marks the chain that ends at `root`, all of it or nothing. */
  async #walk(root: Base): Promise<void> {
    const keys: string[] = [];
    const points = new Set<string>();
    for (let at = root;;) {
      const view = await this.#view(at.lineage);
      const hop = this.#walkLineage(view, at, keys, points);
      if (!hop) break;
      keys.push(baseKey(at.lineage));
      if (this.#isDoomed(at.lineage, baseKey(at.lineage))) throw new Doomed(baseKey(at.lineage));
      at = hop;
    }
    for (const key of keys) this.marked.add(key);
    for (const point of points) this.#visited.add(point);
  }

  #walkLineage(view: LineageView, at: Base, keys: string[], points: Set<string>): Base | undefined {
    for (let txid = at.txid;;) {
      const point = placeOf({ lineage: at.lineage, txid });
      if (this.#visited.has(point)) return undefined;
      if (points.has(point)) throw new TaskdError("corrupt", `The base pointers of lineage ${at.lineage} form a cycle`);
      points.add(point);
      const object = this.#step(view, at, txid);
      if (!object) return { lineage: view.base!.lineage, txid };
      keys.push(...this.#keysOf(object));
      if (object.kind === "snapshot") return undefined;
      txid = object.first;
    }
  }

  #step(view: LineageView, at: Base, txid: number): ChainObject | undefined {
    try {
      return stepBack(view, at, txid);
    } catch (error) {
      const is_doomed = this.#isDoomed(at.lineage, baseKey(at.lineage));
      if (is_doomed || this.#index.explainsGap(at.lineage, txid.toString(16))) {
        throw new Doomed(`lineage ${at.lineage}`);
      }
      throw error;
    }
  }

  #keysOf({ lineage, key, codec }: ChainObject): string[] {
    const keys = codec === "raw" ? [key, imageIndexKey(key)] : [key];
    const doomed = keys.find((key) => this.#isDoomed(lineage, key));
    if (doomed !== undefined) throw new Doomed(doomed);
    const index = keys[1];
    if (index !== undefined && !this.#inventory.indexes.has(index)) {
      throw new TaskdError("chain_gap", `${index} is missing`);
    }
    return keys;
  }

  #isDoomed(lineage: string, key: string): boolean {
    return this.#index.hasLineage(lineage) && this.#index.find(lineage, shortName(key))?.doomed !== undefined;
  }

  /** Keeps a lineage that is being made and all history below it; its maker checks later whether that resolves. */
  async #pin({ lineage, base }: { lineage: string; base: Base }): Promise<void> {
    this.pinned.add(lineage);
    const seen = new Set<string>();
    for (let at: Base | undefined = base; at && !seen.has(at.lineage);) {
      seen.add(at.lineage);
      for (const { key, object } of this.#inventory.lineages.get(at.lineage) ?? []) {
        if (!object || object.last <= at.txid) this.marked.add(key);
      }
      const next: Base | undefined = (await this.#view(at.lineage)).base;
      at = next && { lineage: next.lineage, txid: Math.min(next.txid, at.txid) };
    }
  }

  #view(lineage: string): Promise<LineageView> {
    return this.#views.getOrInsertComputed(lineage, () => this.#makeView(lineage));
  }

  async #makeView(lineage: string): Promise<LineageView> {
    const stored = this.#inventory.lineages.get(lineage) ?? [];
    const key = baseKey(lineage);
    const base = stored.some((entry) => entry.key === key)
      ? await translated(`Cannot read ${key}`, () => readBase(this.#backend, lineage)).catch((error): undefined => {
        // A chain that begins with a snapshot of its own needs none: another pass may have deleted it just now.
        if (!this.#isDoomed(lineage, key)) throw error;
      })
      : undefined;
    return viewOf(stored.flatMap(({ key, object }) => object?.key === key ? [object] : []), base);
  }
}

function isUnused({ epoch, checkpoints, lease, pending }: Ref): boolean {
  return epoch === 1 && checkpoints.length === 0 && !lease && !pending;
}
