/**
 * What the connections of a proxy share when they carry much: large read buffers, of which there is a bounded number,
 * and the thread, which everything else in the process needs too.
 */

import { nextTurn } from "../../lib/clock.ts";

/** Calls and wake-ups are most of what passing costs; beyond this size a core's cache no longer holds what was read. */
export const LARGE_BUFFER_BYTES = 512 << 10;
/** 16 MiB in all; tunnels that get none pass in smaller pieces. */
const MAX_BUFFERS = 32;
/** Passed by all connections together before timers and other sockets have their turn: about a millisecond's worth. */
const TURN_BYTES = 2 << 20;

export class SharedBuffers {
  readonly #max_buffers: number;
  readonly #spare: Uint8Array[] = [];
  #made = 0;
  #moved = 0;
  #turn: Promise<void> | undefined;

  constructor(max_buffers: number = MAX_BUFFERS) {
    this.#max_buffers = max_buffers;
  }

  /** A buffer of {@linkcode LARGE_BUFFER_BYTES} with any content, to be given back; undefined when all are lent. */
  lend(): Uint8Array | undefined {
    const spare = this.#spare.pop();
    if (spare !== undefined || this.#made === this.#max_buffers) return spare;
    this.#made++;
    return new Uint8Array(LARGE_BUFFER_BYTES);
  }

  /** Takes a buffer back that nothing reads into any more. */
  giveBack(buffer: Uint8Array): void {
    this.#spare.push(buffer);
  }

  /**
   * Counts what has passed, and returns what to wait for before more may pass: sockets that always have more would
   * otherwise keep the thread for tens of megabytes.
   */
  moved(bytes: number): Promise<void> | undefined {
    this.#moved += bytes;
    if (this.#moved < TURN_BYTES) return undefined;
    return this.#turn ??= nextTurn().then(() => {
      this.#moved = 0;
      this.#turn = undefined;
    });
  }
}
