/**
 * What the proxy decided, for the log, for `inspect` and for listeners.
 */

import type { Reason } from "./reasons.ts";

export interface EgressDecision {
  /** Wall-clock milliseconds since 1970. */
  at_ms: number;
  /** The task; undefined when no valid credentials came. */
  task_id?: string;
  peer: string;
  /** As sent; `NONE` when no request could be read. */
  method: string;
  /** Canonical host; undefined when the target was no plain name. */
  host?: string;
  port?: number;
  /** For the log: `host:port`, or an http URL without its query, which may hold secrets. */
  url?: string;
  /** `failed` is an allowed destination that could not be reached, or did not answer in HTTP. */
  verdict: "allowed" | "denied" | "failed";
  reason: Reason;
  /** HTTP status: the proxy's own, or that of the response it passed on. */
  status: number;
  address?: string;
  /** More on the reason: the class of an address, the listed ports, the server name that differs. */
  detail?: string;
}

/** Equal decisions on one destination, counted. */
export interface DecisionEntry {
  method: string;
  host: string | undefined;
  port: number | undefined;
  verdict: EgressDecision["verdict"];
  reason: Reason;
  detail: string | undefined;
  count: number;
  first_at_ms: number;
  last_at_ms: number;
}

const MAX_ENTRIES = 256;

/**
 * The last decisions of one task. Equal ones count in one entry, so that a retry loop does not push out what else
 * happened; beyond the limit the entry that was quiet for longest goes, and `dropped` counts them.
 */
export class DecisionRing {
  readonly #entries = new Map<string, DecisionEntry>();
  #dropped = 0;

  add({ method, host, port, verdict, reason, detail, at_ms }: EgressDecision): void {
    const key = JSON.stringify([method, host, port, reason, detail]);
    const known = this.#entries.get(key);
    // Taken out and put back: the map's order is that of the last decision.
    this.#entries.delete(key);
    if (known === undefined && this.#entries.size >= MAX_ENTRIES) {
      const [oldest] = this.#entries.keys();
      this.#entries.delete(oldest!);
      this.#dropped++;
    }
    const entry = known ??
      { method, host, port, verdict, reason, detail, count: 0, first_at_ms: at_ms, last_at_ms: at_ms };
    this.#entries.set(key, { ...entry, count: entry.count + 1, last_at_ms: at_ms });
  }

  get dropped(): number {
    return this.#dropped;
  }

  /** What is kept, the latest last. */
  list(): DecisionEntry[] {
    return [...this.#entries.values()];
  }
}
