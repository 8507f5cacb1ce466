/**
 * Images that are read page after page: where blocks cannot be cloned, each would be built anew for every thousand
 * rows. A few are kept for a while after their last use, and removed then, or when the store is closed.
 */

import type { Clock } from "../clock.ts";
import { type MovingDeadline, MovingDeadlines } from "../moving_deadlines.ts";
import { stampFile } from "../sqlite/checkout_file.ts";
import type { Chain } from "./chain.ts";
import type { ChainCache, ChainImage } from "./chain_cache.ts";
import type { LongOptions } from "./results.ts";

/** Idle images that are kept: both sides of two comparisons. */
const MAX_IDLE = 4;
/** How long after its last use one is kept, in milliseconds: a person reads a page of rows. */
const IDLE_MS = 60_000;

interface Held {
  image: ChainImage;
  users: number;
  idle: MovingDeadline;
}

/** Keeps images of a {@linkcode ChainCache}. */
export class HeldImages {
  readonly #cache: ChainCache;
  readonly #deadlines: MovingDeadlines;
  /** By chain and digest, least recently used first. */
  readonly #held = new Map<string, Held>();
  #closed = false;

  constructor(cache: ChainCache, clock: Clock) {
    this.#cache = cache;
    this.#deadlines = new MovingDeadlines(clock);
  }

  /** As {@linkcode ChainCache.image}; disposing of it lets it go, and the next taker may find it there still. */
  async take(db: string, chain: Chain, digest: string, options: LongOptions = {}): Promise<ChainImage> {
    const key = `${chain.id} ${digest}`;
    const held = this.#found(key) ?? this.#keep(key, await this.#cache.image(db, chain, digest, options));
    held.users++;
    held.idle.clear();
    this.#held.delete(key);
    this.#held.set(key, held);
    let taken = true;
    return {
      path: held.image.path,
      [Symbol.dispose]: () => {
        if (taken) this.#release(key, held);
        taken = false;
      },
    };
  }

  /** Removes what is idle, and the rest as it is let go. */
  close(): void {
    this.#closed = true;
    this.#deadlines.close();
    for (const [key, held] of this.#held) if (held.users === 0) this.#drop(key, held);
  }

  /** One that is held; a sweep of temporary files may have taken one that was made long ago. */
  #found(key: string): Held | undefined {
    const held = this.#held.get(key);
    if (held === undefined || stampFile(held.image.path)) return held;
    this.#drop(key, held);
    return undefined;
  }

  #keep(key: string, image: ChainImage): Held {
    // Another may have made the same meanwhile.
    const there = this.#found(key);
    if (there) {
      image[Symbol.dispose]();
      return there;
    }
    const held = { image, users: 0, idle: this.#deadlines.create() };
    this.#held.set(key, held);
    return held;
  }

  #release(key: string, held: Held): void {
    held.users--;
    if (held.users > 0) return;
    if (this.#closed || this.#held.get(key) !== held) return this.#drop(key, held);
    held.idle.set(IDLE_MS, () => this.#drop(key, held));
    const idle = [...this.#held].filter(([, { users }]) => users === 0);
    for (const [key, held] of idle.slice(0, Math.max(0, idle.length - MAX_IDLE))) this.#drop(key, held);
  }

  #drop(key: string, held: Held): void {
    if (this.#held.get(key) === held) this.#held.delete(key);
    held.idle.clear();
    if (held.users === 0) held.image[Symbol.dispose]();
  }
}
