/**
 * Runs jobs one after the other: a session's flushes, takeovers and renewals never overlap.
 */

export class Serial {
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  /** Whether a job is running or waiting. */
  get busy(): boolean {
    return this.#waiting > 0;
  }

  /** Runs `job` after all earlier ones, failed ones included. */
  run<T>(job: () => Promise<T>): Promise<T> {
    this.#waiting++;
    const done = this.#last.then(job).finally(() => this.#waiting--);
    this.#last = done.catch(() => {});
    return done;
  }
}
