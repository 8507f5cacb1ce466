/**
 * A store at random work, with garbage collection beside it and processes that die at any
 * call, against a model that knows what was acknowledged.
 */

import { assert, assertEquals } from "@std/assert";
import { type Backend, BackendError } from "../../lib/backend/backend.ts";
import { FaultyBackend } from "../support/faulty_backend.ts";
import { MemoryBackend } from "../support/memory_backend.ts";
import { type ErrorCode, hasCode } from "../../lib/errors.ts";
import { Chains } from "../../lib/store/chain.ts";
import { Lease } from "../../lib/store/lease.ts";
import { Store } from "../../lib/store/store.ts";
import { keysOf } from "../../lib/store/tombstones.ts";
import { VirtualClock } from "../support/clock.ts";
import { dataKeys, flush, makeTinyDatabase, neededKeys } from "../support/histories.ts";
import { at, OUTRIGHT } from "../support/stores.ts";
import { SeededRandom } from "../support/writers/random.ts";

const MAX_BRANCHES = 12;
/** Longer than any lease, and than a list of tombstones may be trusted. */
const WAIT_MS = 120_000;

/** What an operation may answer that lost against another, or whose process died. */
const REFUSALS: ErrorCode[] = [
  "conflict",
  "not_found",
  "chain_gap",
  "fenced",
  "gc_failed",
  "unavailable",
  "ambiguous",
  "already_exists",
  "branch_deleting",
];

/** An acknowledged point: the keys that it needs, which never change. */
type Point = string[];

/** What a run did. */
export interface ModelSummary {
  operations: Record<string, number>;
  refused: number;
  crashes: number;
  deleted: number;
}

/** One run. */
export class GcModel {
  /** What it did so far. */
  readonly summary: ModelSummary = { operations: {}, refused: 0, crashes: 0, deleted: 0 };
  readonly #backend: Backend;
  readonly #clock = new VirtualClock();
  readonly #random: SeededRandom;
  readonly #directory: string;
  /** Acknowledged points by branch: the head under "", checkpoints by name. */
  readonly #branches = new Map<string, Map<string, Point>>();
  #store!: Store;
  #serial = 0;

  /** A run of `seed` with files below `directory`, on an empty `backend`. */
  constructor(directory: string, seed: number, backend: Backend = new MemoryBackend()) {
    this.#directory = directory;
    this.#backend = backend;
    this.#random = new SeededRandom(seed);
  }

  /** Runs `operations` operations and checks after each. */
  async run(operations: number): Promise<ModelSummary> {
    makeTinyDatabase(`${this.#directory}/tiny.db`);
    this.#store = await this.#open(this.#backend);
    await this.#store.create("app", { from: `${this.#directory}/tiny.db` });
    await this.#learn("main");
    for (let count = 1; count <= operations; count++) {
      await this.#turn();
      await this.#assertWhole();
      if (count % 40 === 0) await this.#assertTidy();
    }
    await this.#assertTidy();
    return this.summary;
  }

  async #open(backend: Backend): Promise<Store> {
    const workspace = `${this.#directory}/${this.#serial++}`;
    const random = this.#random.fork().bytes;
    return await Store.open({ backend, workspace, clock: this.#clock, random, depth_floor: 5 });
  }

  /** One operation, perhaps with a pass beside it, perhaps in a process that dies. */
  async #turn(): Promise<void> {
    const random = this.#random;
    const branch = random.pick([...this.#branches.keys()]);
    const op = random.pick(OPS);
    this.summary.operations[op] = (this.summary.operations[op] ?? 0) + 1;
    const dies = random.chance(0.15);
    const store = dies ? await this.#open(this.#dying()) : this.#store;
    const work = this[op](store, branch).catch((error) => {
      if (!hasCode(error, ...REFUSALS)) throw new Error(`${op} of ${branch}: ${error}`, { cause: error });
      this.summary.refused++;
    });
    if (random.chance(0.4)) await Promise.all([work, this.gc(await this.#open(this.#jittery())).catch(ignoreRefusal)]);
    else await work;
    if (random.chance(0.3)) this.#clock.advance(random.between(1, WAIT_MS));
    if (!dies) return;
    this.summary.crashes++;
    // Its lease runs out.
    this.#clock.advance(WAIT_MS);
  }

  async fork(store: Store, branch: string): Promise<void> {
    if (this.#branches.size >= MAX_BRANCHES) return;
    const [checkpoint, point] = this.#pickPoint(branch);
    const name = `b${this.#serial++}`;
    const address = at(`app@${branch}${checkpoint === "" ? "" : `@${checkpoint}`}`);
    const { mode } = await store.fork(address, name, { materialize: this.#random.chance(0.2) });
    await this.#learn(name);
    if (mode === "shared") assertEquals(this.#branches.get(name)!.get(""), [...point], "a fork is its fork point");
  }

  async flush(store: Store, branch: string): Promise<void> {
    const random = this.#random;
    const checkpoint = `c${this.#serial}`;
    const named = random.chance(0.3);
    const lose = random.chance(0.1);
    await this.#changing(branch, () =>
      flush(store, at(`app@${branch}`), this.#serial++, {
        lose,
        snapshot: random.chance(0.3),
        ...(named && !lose ? { checkpoint } : {}),
      }));
    if (named && !lose) this.#branches.get(branch)!.set(checkpoint, this.#branches.get(branch)!.get("")!);
  }

  async rollback(store: Store, branch: string): Promise<void> {
    const [checkpoint] = this.#pickPoint(branch);
    if (checkpoint === "") return;
    await this.#changing(branch, () => store.rollback(at(`app@${branch}@${checkpoint}`), { safety: false }));
  }

  async promote(store: Store, branch: string): Promise<void> {
    const onto = this.#random.pick([...this.#branches.keys()]);
    if (onto === branch) return;
    await this.#changing(onto, () => store.promote(at(`app@${branch}`), at(`app@${onto}`), { safety: false }));
  }

  async compact(store: Store, branch: string): Promise<void> {
    await this.#changing(branch, () => store.compact(at(`app@${branch}`)));
  }

  async destroy(store: Store, branch: string): Promise<void> {
    if (this.#branches.size < 3) return;
    this.#branches.delete(branch);
    await store.destroy(at(`app@${branch}`), OUTRIGHT);
  }

  async gc(store: Store): Promise<void> {
    const { deleted } = await store.collectGarbage({ grace_ms: this.#random.pick([0, 0, 60_000]) });
    this.summary.deleted += deleted;
  }

  /** A change of a branch's head: the old head is no longer promised once it has begun, the new one once it was acknowledged. */
  async #changing(branch: string, change: () => Promise<unknown>): Promise<void> {
    const points = this.#branches.get(branch)!;
    const before = points.get("")!;
    points.set("", []);
    try {
      await change();
    } catch (error) {
      // A refusal may have come after the change: then what the branch reads as now is what it is.
      await this.#learn(branch);
      throw error;
    }
    await this.#learn(branch);
    assert(before !== undefined);
  }

  /** Takes what a branch's head needs as promised from now on. */
  async #learn(branch: string): Promise<void> {
    const { refs, backend } = this.#verify;
    const { ref } = await refs.read("app", branch);
    const chain = await new Chains(backend).resolve(ref.lineage, ref.txid);
    const points = this.#branches.get(branch) ?? new Map<string, Point>();
    this.#branches.set(branch, points.set("", keysOf(chain).map(({ key }) => key)));
  }

  /** The store as it is, without injected faults. */
  get #verify() {
    return { refs: this.#store.context.refs, backend: this.#backend };
  }

  #pickPoint(branch: string): [string, Point] {
    return this.#random.pick([...this.#branches.get(branch)!]);
  }

  /** Nothing acknowledged is lost, ever. */
  async #assertWhole(): Promise<void> {
    const there = new Set(await dataKeys(this.#backend));
    for (const [branch, points] of this.#branches) {
      const { ref } = await this.#verify.refs.read("app", branch);
      for (const [name, point] of points) {
        for (const key of point) assert(there.has(key), `app@${branch}@${name} has lost ${key}`);
        if (name !== "") assert(ref.checkpoints.some((known) => known.name === name), `app@${branch}@${name} is gone`);
      }
    }
  }

  /** What nothing reached for two passes and the grace between them is gone, and all that is left is reached. */
  async #assertTidy(): Promise<void> {
    const grace_ms = this.#random.pick([0, 5000, 900_000]);
    this.#clock.advance(WAIT_MS);
    const store = await this.#open(this.#backend);
    for (const { db, branch } of await store.context.refs.list()) {
      // A fork whose maker died may build upon what is gone: the pass below removes it.
      await (await Lease.acquire(store.context, { db, branch }).catch(() => undefined))?.release();
    }
    await store.collectGarbage({ grace_ms });
    this.#clock.advance(grace_ms);
    const { deleted } = await store.collectGarbage({ grace_ms });
    this.summary.deleted += deleted;
    assertEquals(new Set(await dataKeys(this.#backend)), await neededKeys(store));
    store.close();
  }

  /** Calls of this backend take a random number of turns, so that two users' calls mix. */
  #jittery(): Backend {
    const random = this.#random.fork();
    return new FaultyBackend(this.#backend, () => ({ kind: "delay", delay_ms: random.between(0, 8) }), {
      clock: {
        ...this.#clock,
        now: () => this.#clock.now(),
        monotonic: () => this.#clock.monotonic(),
        sleep: async (turns) => {
          for (let turn = 0; turn < turns; turn++) await Promise.resolve();
        },
      },
    });
  }

  /** From some call on nothing comes through any more; that call may have had its effect. */
  #dying(): Backend {
    const last = this.#random.between(2, 16);
    const kind = this.#random.pick(["before", "after"] as const);
    return new FaultyBackend(this.#jittery(), ({ count }) => {
      if (count < last) return undefined;
      return { kind: count === last ? kind : "before", code: "unavailable" };
    });
  }
}

const OPS = [
  "fork",
  "fork",
  "flush",
  "flush",
  "flush",
  "rollback",
  "promote",
  "compact",
  "destroy",
  "gc",
  "gc",
] as const;

function ignoreRefusal(error: unknown): void {
  if (!hasCode(error, ...REFUSALS) && !(error instanceof BackendError)) throw error;
}
