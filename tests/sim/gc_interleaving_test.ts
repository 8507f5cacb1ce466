import { assert, assertEquals } from "@std/assert";
import type { Backend } from "../../lib/backend/backend.ts";
import { MemoryBackend } from "../support/memory_backend.ts";
import { hasCode } from "../../lib/errors.ts";
import { Lease } from "../../lib/store/lease.ts";
import { type Address, formatAddress } from "../../lib/store/names.ts";
import { Store } from "../../lib/store/store.ts";
import { VirtualClock } from "../support/clock.ts";
import { dataKeys, flush, makeTinyDatabase, neededKeys } from "../support/histories.ts";
import { at, OUTRIGHT, withDirectory } from "../support/stores.ts";
import { SeededRandom } from "../support/writers/random.ts";
import { Actor, TurnBackend } from "./_scheduler.ts";
import { longTest, scaled, scaledTest } from "../support/long.ts";

/** Random schedules of each scenario; `SIM_SCHEDULES=5000` takes more. */
const SCHEDULES = Number(Deno.env.get("SIM_SCHEDULES") ?? scaled({ short: 8, long: 20 }));
/** Of the systematic schedules every so many-th is taken; `SIM_STRIDE=1` takes all. */
const STRIDE = Number(Deno.env.get("SIM_STRIDE") ?? scaled({ short: 23, long: 11 }));

/** What an operation may answer when it lost against the other actor. */
const REFUSALS = [
  "conflict",
  "not_found",
  "chain_gap",
  "branch_deleting",
  "fenced",
  "lease_held",
  "gc_failed",
] as const;

/** Operations that make a branch reach what another branch, about to be destroyed, reaches. */
const OPERATIONS: Record<string, (store: Store, directory: string) => Promise<unknown>> = {
  "fork": (store) => store.fork(at("app@side"), "child"),
  "fork of a checkpoint": (store) => store.fork(at("app@side@one"), "child"),
  "materializing fork": (store) => store.fork(at("app@whole"), "child", { materialize: true }),
  "promote": (store) => store.promote(at("app@side"), at("app@main")),
  "promote without a safety fork": (store) => store.promote(at("app@side"), at("app@main"), { safety: false }),
  "rollback": (store) => store.rollback(at("app@main@first")),
  "compact": (store) => store.compact(at("app@main")),
  "create": (store, directory) => store.create("child", { from: `${directory}/tiny.db` }),
};

/** What some of them make. */
const RESULTS: Record<string, Address> = {
  "fork": at("app@child"),
  "fork of a checkpoint": at("app@child"),
  "materializing fork": at("app@child"),
  "create": at("child"),
};

/** Chooses who is next; undefined leaves it to any that waits. */
type Choose = (waiting: Actor[], taken: ReadonlyMap<Actor, number>) => Actor | undefined;

/** One run. */
interface Schedule {
  operation: keyof typeof OPERATIONS & string;
  /** Time that passes with each pass. */
  step_ms: number;
  /** How far a second collecting host's clock is ahead; with one, the maker's stands still. */
  ahead_ms: number;
  choose: Choose;
  /** The maker dies before the call after this many. */
  dies_after?: number;
}

class Arena {
  readonly #directory: string;
  readonly #template: MemoryBackend;
  #runs = 0;

  private constructor(directory: string, template: MemoryBackend) {
    this.#directory = directory;
    this.#template = template;
  }

  static async make(directory: string): Promise<Arena> {
    const backend = new MemoryBackend();
    using store = await Store.open({ backend, workspace: `${directory}/template`, clock: new VirtualClock() });
    makeTinyDatabase(`${directory}/tiny.db`);
    await store.create("app", { from: `${directory}/tiny.db` });
    await flush(store, at("app"), 1, { checkpoint: "first" });
    await flush(store, at("app"), 2, { snapshot: true });
    await store.fork(at("app"), "side");
    await store.fork(at("app"), "whole", { materialize: true });
    await flush(store, at("app@side"), 3, { checkpoint: "one" });
    await flush(store, at("app@side"), 4);
    return new Arena(directory, backend);
  }

  /** Runs an operation beside destroys and passes as `choose` says, and verifies the store. Returns the calls of each. */
  async run({ operation, step_ms, ahead_ms, choose, dies_after = Infinity }: Schedule): Promise<[number, number]> {
    const backend = new MemoryBackend();
    for await (const { key } of this.#template.list("")) {
      await backend.put(key, (await this.#template.get(key)).bytes);
    }
    const clock = new VirtualClock();
    const open = (through: Backend, name: string, own = clock) =>
      Store.open({ backend: through, workspace: `${this.#directory}/${this.#runs}-${name}`, clock: own });
    this.#runs++;
    const [still, ahead] = [ahead_ms === 0 ? clock : new VirtualClock(), new VirtualClock()];
    ahead.jump(ahead_ms);
    const [maker, collector] = [new Actor("maker"), new Actor("collector")];
    using one = await this.#opened((through, name) => open(through, name, still), backend, maker);
    using two = await this.#opened(open, backend, collector);
    using three = await this.#opened((through) => open(through, "ahead", ahead), backend, collector);
    const outcome = { acknowledged: false };
    const taken = new Map([[maker, 0], [collector, 0]]);
    await start(maker, async () => {
      await OPERATIONS[operation]!(one, this.#directory);
      outcome.acknowledged = true;
    });
    await start(collector, async () => {
      for (const name of ["side", "whole"]) await two.destroy(at(`app@${name}`), OUTRIGHT).catch(expected);
      for (let pass = 0; pass < (ahead_ms === 0 ? 4 : 6); pass++) {
        await (ahead_ms !== 0 && pass % 2 === 1 ? three : two).collectGarbage({ grace_ms: 0 }).catch(expected);
        clock.advance(step_ms);
      }
    });
    for (;;) {
      if (taken.get(maker)! >= dies_after && maker.busy) drop(maker);
      const waiting = [maker, collector].filter((actor) => actor.parked.length > 0);
      if (waiting.length === 0 && !maker.busy && !collector.busy) break;
      // An actor that is busy and does not wait reads or writes a file.
      if (waiting.length === 0) await new Promise((resolve) => setTimeout(resolve, 0));
      const actor = choose(waiting, taken) ?? waiting[0];
      if (!actor) continue;
      taken.set(actor, taken.get(actor)! + 1);
      const quiet = actor.busy ? actor.quiet() : Promise.resolve();
      actor.parked.shift()!();
      await quiet;
    }
    using observer = await open(backend, "observer");
    if (maker.dropped) await sweepAfterDeath(observer, operation, clock);
    await this.#verify(observer, { operation, dead: maker.dropped, ...outcome });
    await sweep(observer, clock);
    assertEquals(new Set(await dataKeys(backend)), await neededKeys(observer));
    return [taken.get(maker)!, taken.get(collector)!];
  }

  /** Opens a store whose calls wait for their turn from then on. */
  async #opened(
    open: (through: Backend, name: string) => Promise<Store>,
    backend: Backend,
    actor: Actor,
  ): Promise<Store> {
    const opening = open(new TurnBackend(backend, actor), actor.name);
    let done = false;
    opening.finally(() => done = true);
    while (!done) {
      actor.parked.shift()?.();
      await new Promise((resolve) => setTimeout(resolve, 0));
    }
    return await opening;
  }

  async #verify(
    store: Store,
    { operation, acknowledged, dead }: { operation: string; acknowledged: boolean; dead: boolean },
  ): Promise<void> {
    const { backend, refs } = store.context;
    const needed = await neededKeys(store);
    const there = new Set(await dataKeys(backend));
    for (const key of needed) assert(there.has(key), `${key} is lost`);
    const made = RESULTS[operation] ?? at("app");
    const exists = await refs.find(made.db, made.branch) !== undefined;
    if (!dead && operation in RESULTS) assertEquals(exists, acknowledged, "an answer is the truth");
    if (exists) await store.export(made, `${this.#directory}/out.db`, { force: true });
  }
}

/** Lets leases run out and the next holder void what was announced, then collects all that is garbage. */
async function sweep(store: Store, clock: VirtualClock): Promise<void> {
  clock.advance(600_000);
  const release = async () => {
    for (const address of await store.context.refs.list()) {
      const lease = await Lease.acquire(store.context, address);
      await lease.release();
    }
  };
  await store.collectGarbage({ grace_ms: 0 });
  await release();
  for (let pass = 0; pass < 3; pass++) await store.collectGarbage({ grace_ms: 0 });
}

/**
 * The same after a death. A maker that was paused for so long that the list has forgotten what it builds upon, and then
 * died just after its ref was written, leaves a branch that only a person can remove: passes fail and name it.
 */
async function sweepAfterDeath(store: Store, operation: string, clock: VirtualClock): Promise<void> {
  try {
    await sweep(store, clock);
  } catch (error) {
    const made = RESULTS[operation];
    if (!made || !hasCode(error, "gc_failed") || !error.message.includes(formatAddress(made))) throw error;
    await store.destroy(made, OUTRIGHT);
    await sweep(store, clock);
  }
}

/** An actor's process is gone. */
function drop(actor: Actor): void {
  actor.dropped = true;
  actor.busy = false;
  actor.parked.length = 0;
}

function expected(error: unknown): void {
  if (!hasCode(error, ...REFUSALS)) throw error;
}

/** Starts an actor's work and lets it run to its first call. */
async function start(actor: Actor, work: () => Promise<void>): Promise<void> {
  actor.busy = true;
  const quiet = actor.quiet();
  work().catch(expected).finally(() => {
    actor.busy = false;
    actor.settle();
  });
  await quiet;
}

/** One goes on for some calls, the other for some, then the first to its end, then the other. */
function preempted(first: number, second: number): Choose {
  return (waiting, taken) => {
    const [maker, collector] = [...taken.keys()] as [Actor, Actor];
    const turn = taken.get(maker)! < first || taken.get(collector)! >= second ? maker : collector;
    return waiting.includes(turn) ? turn : undefined;
  };
}

for (const operation of Object.keys(OPERATIONS)) {
  // With time standing still the list remembers everything; with these steps, and for a host whose clock is ahead, it has
  // forgotten what is gone.
  for (const [step_ms, ahead_ms] of [[0, 0], [0, 400_000], [400_000, 0]] as const) {
    // Passes of no duration interleave the most; slow ones repeat the same orders.
    const define = step_ms === 0 ? scaledTest : longTest;
    define(
      `${operation} beside gc loses and leaves nothing; ${step_ms} ms a pass, ${ahead_ms} apart`,
      async () => {
        await withDirectory(async (directory) => {
          const arena = await Arena.make(directory);
          const attempt = async (name: string, choose: Choose, dies_after = Infinity) => {
            try {
              return await arena.run({ operation, step_ms, ahead_ms, choose, dies_after });
            } catch (error) {
              throw new Error(`${name}: ${(error as Error).message}`, { cause: error });
            }
          };
          const [stride, schedules] = ahead_ms === 0 ? [STRIDE, SCHEDULES] : [STRIDE * 2 - 1, Math.ceil(SCHEDULES / 2)];
          const [makes, collects] = await attempt("one after the other", preempted(Infinity, Infinity));
          for (let index = 0; index < makes * (collects + 8); index += stride) {
            const [first, second] = [index % makes, Math.floor(index / makes)];
            await attempt(`${first} calls, then ${second}`, preempted(first, second));
          }
          for (let seed = 1; seed <= schedules; seed++) {
            const random = new SeededRandom(seed);
            const dies_after = random.chance(0.4) ? random.between(1, makes) : Infinity;
            let bias = 0.5;
            await attempt(`seed ${seed}`, (waiting) => {
              if (waiting.length < 2) return undefined;
              if (random.chance(0.1)) bias = random.pick([0.02, 0.5, 0.98]);
              return waiting[random.chance(bias) ? 0 : 1];
            }, dies_after);
          }
        });
      },
    );
  }
}
