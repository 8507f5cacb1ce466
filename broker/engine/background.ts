/**
 * Work in the background: gates, pushes, watches. Every failure of it is reported.
 */

export class Background {
  readonly #running = new Set<Promise<void>>();
  readonly #onFailure: (error: unknown) => void;

  constructor(onFailure: (error: unknown) => void) {
    this.#onFailure = onFailure;
  }

  go(work: () => Promise<void>): void {
    const running = work().catch(this.#onFailure);
    this.#running.add(running);
    running.finally(() => this.#running.delete(running));
  }

  /** Work whose failure is its caller's, who waits for it. */
  async call<T>(work: () => Promise<T>): Promise<T> {
    const result = work();
    this.go(() => result.then(() => {}, () => {}));
    return await result;
  }

  /** Resolves once nothing runs any more, work that began meanwhile included. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }
}
