/**
 * Several actors on one backend, of which at any moment only the one runs that a seed
 * chose: every backend call of an actor waits until it is its turn. An actor can be
 * starved while time passes, and dropped in the middle of a call for good.
 */

import type { Backend, Body, ObjectBody, ObjectInfo, ObjectStream, ReplaceOptions } from "../../lib/backend/backend.ts";
import type { SeededRandom } from "../support/writers/random.ts";
import type { VirtualClock } from "../support/clock.ts";

/** An actor that does nothing for this long in real time is stuck: a defect of the engine or of this file. */
const STUCK_MS = 10_000;

/** One actor: a process on a host of its own. */
export class Actor {
  readonly name: string;
  /** Calls that wait for their turn. */
  readonly parked: (() => void)[] = [];
  /** Set once it was dropped: its calls never come back. */
  dropped = false;
  /** Set while an operation is under way. */
  busy = false;
  #quiet: (() => void)[] = [];

  /** Names it, for messages. */
  constructor(name: string) {
    this.name = name;
  }

  /** Waits until the scheduler lets this actor go on. */
  turn(): Promise<void> {
    return new Promise((resolve) => {
      if (this.dropped) return;
      this.parked.push(resolve);
      this.settle();
    });
  }

  /** Reports to the scheduler that the actor waits, or has finished. */
  settle(): void {
    for (const resolve of this.#quiet.splice(0)) resolve();
  }

  /** After a call: with one of its lease's renewals the actor may be waiting for another turn already. */
  afterCall(): void {
    setTimeout(() => this.parked.length > 0 && this.settle(), 0);
  }

  /** Resolves when the actor waits for its turn again or has finished. */
  quiet(): Promise<void> {
    return new Promise((resolve, reject) => {
      const stuck = setTimeout(
        () => reject(new Error(`${this.name} is stuck (busy ${this.busy}, parked ${this.parked.length})`)),
        STUCK_MS,
      );
      this.#quiet.push(() => {
        clearTimeout(stuck);
        resolve();
      });
    });
  }
}

/** `backend` as `actor` reaches it: one call at a time, when it is its turn. */
export class TurnBackend implements Backend {
  readonly url: string;
  readonly #backend: Backend;
  readonly #actor: Actor;

  /** Wraps `backend` for `actor`. */
  constructor(backend: Backend, actor: Actor) {
    this.url = backend.url;
    this.#backend = backend;
    this.#actor = actor;
  }

  async #call<T>(work: () => Promise<T>): Promise<T> {
    await this.#actor.turn();
    try {
      return await work();
    } finally {
      // A drop between a call's effect and its answer: the effect stands, the actor never hears.
      if (this.#actor.dropped) await new Promise(() => {});
      this.#actor.afterCall();
    }
  }

  get(key: string, options?: { max_bytes?: number }): Promise<ObjectBody> {
    return this.#call(() => this.#backend.get(key, options));
  }
  getRange(key: string, offset: number, length: number): Promise<Uint8Array> {
    return this.#call(() => this.#backend.getRange(key, offset, length));
  }
  getStream(key: string): Promise<ObjectStream> {
    return this.#call(() => this.#backend.getStream(key));
  }
  head(key: string): Promise<ObjectInfo> {
    return this.#call(() => this.#backend.head(key));
  }
  create(key: string, bytes: Uint8Array): Promise<string> {
    return this.#call(() => this.#backend.create(key, bytes));
  }
  replace(key: string, bytes: Uint8Array, etag: string, options?: ReplaceOptions): Promise<string> {
    return this.#call(() => this.#backend.replace(key, bytes, etag, options));
  }
  put(key: string, body: Body): Promise<void> {
    return this.#call(() => this.#backend.put(key, body));
  }
  delete(key: string, options?: { if_match?: string }): Promise<void> {
    return this.#call(() => this.#backend.delete(key, options));
  }
  copy(from: string, to: string): Promise<void> {
    return this.#call(() => this.#backend.copy(from, to));
  }
  async *list(prefix: string): AsyncIterable<ObjectInfo> {
    await this.#actor.turn();
    try {
      yield* this.#backend.list(prefix);
    } finally {
      this.#actor.afterCall();
    }
  }
}

/** Chooses whose turn it is. */
export class Scheduler {
  /** All actors that were ever added. */
  readonly actors: Actor[] = [];
  #failure: unknown;
  readonly #random: SeededRandom;
  readonly #clock: VirtualClock;

  /** Chooses by `random` and moves `clock` on. */
  constructor(random: SeededRandom, clock: VirtualClock) {
    this.#random = random;
    this.#clock = clock;
  }

  /** Adds an actor. */
  add(name: string): Actor {
    const actor = new Actor(name);
    this.actors.push(actor);
    return actor;
  }

  /** Drops an actor permanently, in the middle of its work. */
  drop(actor: Actor): void {
    actor.dropped = true;
    actor.parked.length = 0;
  }

  /** Starts `work` for an idle actor and lets it run to its first call. */
  async start(actor: Actor, work: () => Promise<void>): Promise<void> {
    actor.busy = true;
    const quiet = actor.quiet();
    work().catch((error) => this.#failure ??= error).finally(() => {
      actor.busy = false;
      actor.settle();
    });
    await quiet;
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Gives one waiting actor one turn; false when none waits. */
  async step(): Promise<boolean> {
    const waiting = this.actors.filter((actor) => !actor.dropped && actor.parked.length > 0);
    if (waiting.length === 0) {
      if (!this.actors.some((actor) => !actor.dropped && actor.busy)) return false;
      // All sleep: advance to the next time that one waits for.
      this.#clock.advance(1000);
      await new Promise((resolve) => setTimeout(resolve, 0));
      return true;
    }
    const actor = this.#random.pick(waiting);
    const quiet = actor.busy ? actor.quiet() : Promise.resolve();
    actor.parked.shift()!();
    await quiet;
    if (this.#failure !== undefined) throw this.#failure;
    return true;
  }
}
