/**
 * What the proxy decided, for the log, for `inspect` and for listeners.
 */

import type { Reason } from "./reasons.ts";

export interface EgressDecision {
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
  /** More on the reason: the class of an address, the listed ports, the server name that differs; `granted`. */
  detail?: string;
}

const MAX_ENTRIES = 256;

/**
 * The last decisions of one task. Of equal ones the last is kept, so that a retry loop does not push out what else
 * happened; beyond the limit the one that was quiet for longest goes.
 */
export class DecisionRing {
  readonly #decisions = new Map<string, EgressDecision>();

  /** Its URL, which may be long, is in the log alone. */
  add({ url: _url, ...decision }: EgressDecision): void {
    const { method, host, port, reason, detail } = decision;
    const key = JSON.stringify([method, host, port, reason, detail]);
    // Taken out and put back: the map's order is that of the last decision.
    this.#decisions.delete(key);
    if (this.#decisions.size >= MAX_ENTRIES) {
      const [oldest] = this.#decisions.keys();
      this.#decisions.delete(oldest!);
    }
    this.#decisions.set(key, decision);
  }

  /** What is kept, the latest last. */
  list(): EgressDecision[] {
    return [...this.#decisions.values()];
  }
}
