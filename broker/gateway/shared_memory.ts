/**
 * Memory that requests, or answers, may hold at once: of all tasks together, and of each task a part, so that none keeps
 * the others out.
 */

import { Refusal } from "./refusal.ts";

/** A task may hold one of so many parts. */
const PARTS = 4;

export class SharedMemory {
  readonly #max_bytes: number;
  readonly #what: string;
  #held_bytes = 0;

  /** `what` is held, such as `requests`. */
  constructor(max_bytes: number, what: string) {
    this.#max_bytes = max_bytes;
    this.#what = what;
  }

  /** The part of one task. */
  share(): MemoryShare {
    const max_share = Math.floor(this.#max_bytes / PARTS);
    let share_bytes = 0;
    const refused = (who: string) => new Refusal("overloaded", `${who} too many large ${this.#what} now; try again`);
    return {
      reserve: (bytes) => {
        if (share_bytes + bytes > max_share) throw refused("The task has");
        if (this.#held_bytes + bytes > this.#max_bytes) throw refused("All tasks together have");
        share_bytes += bytes;
        this.#held_bytes += bytes;
      },
      release: (bytes) => {
        share_bytes -= bytes;
        this.#held_bytes -= bytes;
      },
    };
  }
}

export interface MemoryShare {
  /** Reserves `bytes` more; throws `overloaded`. */
  reserve(bytes: number): void;
  release(bytes: number): void;
}
