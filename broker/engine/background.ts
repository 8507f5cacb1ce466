/**
 * Work in the background: gates, pushes, watches. Every failure of it is reported.
 */

/** Everything that goes on. */
export class Background {
  readonly #running = new Set<Promise<void>>();
  readonly #onFailure: (error: unknown) => void;

  /** `onFailure` receives the errors of work that rejects. */
  constructor(onFailure: (error: unknown) => void) {
    this.#onFailure = onFailure;
  }

  /** Begins something. */
  go(work: () => Promise<void>): void {
    const running = work().catch(this.#onFailure);
    this.#running.add(running);
    running.finally(() => this.#running.delete(running));
  }

  /** Resolves once nothing goes on any more, what was begun meanwhile included. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }
}
