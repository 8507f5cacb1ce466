/**
 * Whether the broker answers, as its requests find out: what a page says of that, and for how long it has been so.
 */

export type Silence = "no connection" | "no answer";

export class Link {
  #answered_ms = performance.now();
  #lost: { since_ms: number; why: Silence } | undefined;

  answered(): void {
    this.#answered_ms = performance.now();
    this.#lost = undefined;
  }

  failed(why: Silence): void {
    this.#lost = { since_ms: this.#lost?.since_ms ?? performance.now(), why };
  }

  /** What is wrong, for how many milliseconds that is known, and how long ago the last answer came; undefined when it answers. */
  get silence(): { why: Silence; lost_ms: number; answered_ms: number } | undefined {
    if (this.#lost === undefined) return undefined;
    const now_ms = performance.now();
    const { since_ms, why } = this.#lost;
    return { why, lost_ms: now_ms - since_ms, answered_ms: now_ms - this.#answered_ms };
  }
}
