/**
 * What a garbage collection pass does about what it saw: a pure decision.
 */

import type { Inventory, Marker, StoredKey } from "./_gc_mark.ts";
import type { Ages } from "./timeline.ts";
import { DOOMED_RETAIN_MS, MAX_NAMES, MAX_TOMBSTONES, shortName } from "./tombstones.ts";
import type { Tombstone, TombstoneIndex } from "./tombstones.ts";

export interface GcPlan {
  tombstones: Tombstone[];
  victims: StoredKey[];
  tombstoned: number;
  /** Objects under a tombstone whose grace period has not passed, the new ones among them. */
  backlog: number;
  backlog_bytes: number;
  /** Objects that nothing reaches and that are left alone all the same. */
  kept: number;
}

/** What a plan is made of. */
interface Seen {
  inventory: Inventory;
  marker: Marker;
  index: TombstoneIndex;
  ages: Ages;
}

/** Makes the plan; `now_ms` is the wall clock's, for stamps. */
export function makePlan(seen: Seen, options: { now_ms: number; grace_ms: number }): GcPlan {
  const { inventory, index } = seen;
  const planner = new Planner(seen, options);
  for (const [lineage, stored] of inventory.lineages) planner.addLineage(lineage, stored);
  for (const lineage of index.lineages()) {
    if (!inventory.lineages.has(lineage)) planner.addLineage(lineage, []);
  }
  planner.plan.kept += inventory.unknown;
  return planner.plan;
}

/** An object that nothing reaches, with its name on the list. */
interface Garbage extends StoredKey {
  name: string;
}

class Planner {
  readonly plan: GcPlan = { tombstones: [], victims: [], tombstoned: 0, backlog: 0, backlog_bytes: 0, kept: 0 };
  readonly #marker: Marker;
  readonly #index: TombstoneIndex;
  readonly #ages: Ages;
  readonly #now_ms: number;
  readonly #now: string;
  readonly #grace_ms: number;
  /** Room on the list for new tombstones, and for new names. */
  #tombstones_left = MAX_TOMBSTONES;
  #names_left = MAX_NAMES;

  constructor({ marker, index, ages }: Seen, options: { now_ms: number; grace_ms: number }) {
    this.#marker = marker;
    this.#ages = ages;
    this.#index = index;
    this.#now_ms = options.now_ms;
    this.#now = new Date(options.now_ms).toISOString();
    this.#grace_ms = options.grace_ms;
    for (const lineage of index.lineages()) {
      for (const { names } of index.of(lineage)) this.#take(names?.length ?? 0);
    }
  }

  /** Plans one lineage, whose present objects are `stored`. */
  addLineage(lineage: string, stored: StoredKey[]): void {
    const garbage: Garbage[] = [];
    for (const entry of stored) {
      if (!this.#marker.keeps(lineage, entry)) garbage.push({ ...entry, name: shortName(entry.key) });
      else if (!this.#marker.marked.has(entry.key)) this.plan.kept++;
    }
    const whole = garbage.length === stored.length;
    const uncovered = new Map(garbage.map((entry) => [entry.name, entry]));
    const tombstones = this.#index.of(lineage);
    // The doomed first: what they cover is not kept by a younger tombstone.
    for (const tombstone of tombstones) {
      if (tombstone.doomed !== undefined) this.#carryOut({ ...tombstone, doomed: tombstone.doomed }, uncovered);
    }
    for (const tombstone of tombstones) {
      if (tombstone.doomed === undefined) this.#review(tombstone, uncovered, whole);
    }
    if (uncovered.size > 0) this.#bury(lineage, uncovered, whole);
  }

  /** Doom stays on the list until its objects have been gone for a while. */
  #carryOut(tombstone: Tombstone & { doomed: string }, uncovered: Map<string, Garbage>): void {
    const victims = takeCovered(tombstone, uncovered);
    this.plan.victims.push(...victims);
    const doomed = this.#notLater(tombstone.doomed);
    const fresh = this.#now_ms - Date.parse(doomed) < DOOMED_RETAIN_MS;
    if (fresh || victims.length > 0) this.plan.tombstones.push({ ...tombstone, doomed });
  }

  /** A tombstone loses what is reached again; past the grace period, what is left is doomed. */
  #review(tombstone: Tombstone, uncovered: Map<string, Garbage>, whole: boolean): void {
    if (!tombstone.names && !whole) return;
    const covered = takeCovered(tombstone, uncovered);
    if (covered.length === 0) return;
    const at = this.#notLater(tombstone.at);
    const names = tombstone.names && { names: covered.map(({ name }) => name) };
    const next: Tombstone = { lineage: tombstone.lineage, at, ...names };
    if (this.#ages.since(Date.parse(at), 0) >= this.#grace_ms) {
      this.plan.victims.push(...covered);
      this.plan.tombstones.push({ ...next, doomed: this.#now });
    } else {
      this.plan.backlog += covered.length;
      this.plan.backlog_bytes += bytesOf(covered);
      this.plan.tombstones.push(next);
    }
  }

  /** Tombstones for what has none, as far as the list has room. */
  #bury(lineage: string, uncovered: Map<string, Garbage>, whole: boolean): void {
    const names = whole ? undefined : [...uncovered.keys()].slice(0, Math.max(0, this.#names_left));
    if (this.#tombstones_left <= 0 || names?.length === 0) {
      this.plan.kept += uncovered.size;
      return;
    }
    const count = names?.length ?? uncovered.size;
    this.#take(names?.length ?? 0);
    this.plan.tombstones.push({ lineage, at: this.#now, ...(names === undefined ? {} : { names }) });
    this.plan.tombstoned += count;
    this.plan.backlog += count;
    // Of the first names, where the list has not room for all.
    this.plan.backlog_bytes += bytesOf([...uncovered.values()].slice(0, count));
    this.plan.kept += uncovered.size - count;
  }

  #take(names: number): void {
    this.#tombstones_left--;
    this.#names_left -= names;
  }

  /** A time in the future, left by a wrong clock, would postpone deletion until then. */
  #notLater(instant: string): string {
    return Date.parse(instant) > this.#now_ms ? this.#now : instant;
  }
}

function bytesOf(entries: readonly StoredKey[]): number {
  return entries.reduce((sum, { size }) => sum + size, 0);
}

function takeCovered({ names }: Tombstone, uncovered: Map<string, Garbage>): Garbage[] {
  const covered: Garbage[] = [];
  for (const name of names ?? [...uncovered.keys()]) {
    const entry = uncovered.get(name);
    if (entry) covered.push(entry);
    uncovered.delete(name);
  }
  return covered;
}
