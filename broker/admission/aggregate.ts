/**
 * The aggregate ceiling: what the gateway has metered for each vendor that is paid with a key, over a rolling window or
 * since the broker started. In memory alone; it admits when the figures are unknown.
 */

import { type Lane, LANES } from "../agents.ts";

/** Parts of a window that are counted separately: spend ages out at most this part of the window late. */
const PARTS = 1_024;

interface Part {
  /** Monotonic milliseconds from which it counts no more. */
  until_ms: number;
  usd: number;
}

export interface AggregateOptions {
  /** USD for each vendor; 0: off. */
  budget_usd: number;
  /** Milliseconds; 0: since the start. */
  window_ms: number;
  monotonic: () => number;
}

export class Aggregate {
  readonly #options: AggregateOptions;
  readonly #parts = new Map<Lane, Part[]>();

  constructor(options: AggregateOptions) {
    this.#options = options;
  }

  get enabled(): boolean {
    return this.#options.budget_usd > 0;
  }

  add(lane: Lane, usd: number): void {
    if (!this.enabled || !LANES.includes(lane) || !(usd > 0 && Number.isFinite(usd))) return;
    const until_ms = this.#endOfPart() + this.#options.window_ms;
    const parts = this.#live(lane);
    const last = parts.at(-1);
    if (last?.until_ms === until_ms) last.usd += usd;
    else parts.push({ until_ms, usd });
  }

  #endOfPart(): number {
    const { window_ms, monotonic } = this.#options;
    if (window_ms === 0) return Infinity;
    const part_ms = window_ms / PARTS;
    return (Math.floor(monotonic() / part_ms) + 1) * part_ms;
  }

  spent(lane: Lane): number {
    return this.#live(lane).reduce((sum, { usd }) => sum + usd, 0);
  }

  /** Milliseconds until something of it ages out; undefined when nothing does. */
  agesOutIn(lane: Lane): number | undefined {
    const oldest = this.#live(lane)[0];
    if (oldest === undefined || oldest.until_ms === Infinity) return undefined;
    return oldest.until_ms - this.#options.monotonic();
  }

  #live(lane: Lane): Part[] {
    const now_ms = this.#options.monotonic();
    const live = (this.#parts.get(lane) ?? []).filter(({ until_ms }) => until_ms > now_ms);
    this.#parts.set(lane, live);
    return live;
  }
}
