/**
 * What an agent prints, into its task's trace: in order, bounded, and never in the way of the task. A disk that does not
 * keep up loses output, which is then said, and not the task.
 *
 * @module
 */

import { hasCode } from "../../lib/errors.ts";
import type { Task } from "../task/task.ts";

/** What is passed on of an agent's output in all. */
export const MAX_OUTPUT_BYTES = 8 << 20;

/** Cost as agents print it in a line of JSON. Within a text its quotes would be escaped. */
const CLAIMED_COST = /"total_cost_usd"\s*:\s*(\d{1,9}(?:\.\d{1,20})?(?:[eE]-?\d{1,2})?)/;

/** The output of one run. */
export class Transcript {
  readonly #task: Task;
  readonly #writing = new Set<Promise<unknown>>();
  #lost = 0;
  #claimed_usd: number | undefined;

  /** Writes into the trace of `task`. */
  constructor(task: Task) {
    this.#task = task;
  }

  /** Takes a line. */
  take(channel: "stdout" | "stderr" | "setup", text: string): void {
    const claimed = channel === "stdout" && text.startsWith("{") ? CLAIMED_COST.exec(text)?.[1] : undefined;
    if (claimed !== undefined) this.#claimed_usd = Number(claimed);
    const writing = this.#task.append({ type: "output", channel, text }).catch((error: unknown) => {
      if (!hasCode(error, "overloaded", "too_large", "no_space", "unavailable", "denied", "fenced")) throw error;
      this.#lost++;
    });
    this.#writing.add(writing);
    writing.finally(() => this.#writing.delete(writing)).catch(() => {});
  }

  /**
   * Resolves once everything is written, with what the agent claims to have spent.
   *
   * @throws What keeps even the note about lost output from being written.
   */
  async close(): Promise<void> {
    await Promise.all(this.#writing);
    if (this.#lost > 0) {
      await this.#task.append({ type: "note", text: `${this.#lost} lines of output could not be kept` });
    }
    if (this.#claimed_usd !== undefined) await this.#task.append({ type: "claimed", usd: this.#claimed_usd });
  }
}
