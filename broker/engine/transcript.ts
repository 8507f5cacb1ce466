/**
 * What an agent prints, into its task's trace: in order, bounded, and never in the way of the task. A disk that does not
 * keep up loses output, which is then said, and not the task.
 *
 * Lines that come while others are being written become one row: an agent that prints nothing but newlines would
 * otherwise keep the whole broker busy with rows.
 */

import { hasCode } from "../../lib/errors.ts";
import { MAX_OUTPUT_CHARS } from "../task/schema.ts";
import type { Task } from "../task/task.ts";
import { plural } from "../../lib/text/plural.ts";

export const MAX_OUTPUT_BYTES = 8 << 20;

/** Characters that wait for the disk; what comes then is lost. */
const MAX_WAITING_CHARS = 4 << 20;

/** Cost as agents print it in a line of JSON. Within a text its quotes would be escaped. */
const CLAIMED_COST = /"total_cost_usd"\s*:\s*(\d{1,9}(?:\.\d{1,20})?(?:[eE]-?\d{1,2})?)/;

type Channel = "stdout" | "stderr" | "setup";

/** Lines of one channel, next to each other, that make one row. */
interface Batch {
  channel: Channel;
  lines: string[];
  /** With a newline for each line. */
  chars: number;
}

export class Transcript {
  readonly #task: Task;
  readonly #waiting: Batch[] = [];
  #waiting_chars = 0;
  #writing: Promise<void> | undefined;
  #failure: { cause: unknown } | undefined;
  #lost = 0;
  #claimed_usd: number | undefined;

  constructor(task: Task) {
    this.#task = task;
  }

  take(channel: Channel, text: string): void {
    const claimed = channel === "stdout" && text.startsWith("{") ? CLAIMED_COST.exec(text)?.[1] : undefined;
    if (claimed !== undefined) this.#claimed_usd = Number(claimed);
    const chars = text.length + 1;
    if (this.#waiting_chars + chars > MAX_WAITING_CHARS) {
      this.#lost++;
      return;
    }
    this.#waiting_chars += chars;
    const last = this.#waiting.at(-1);
    if (last?.channel === channel && last.chars + chars <= MAX_OUTPUT_CHARS) {
      last.lines.push(text);
      last.chars += chars;
    } else this.#waiting.push({ channel, lines: [text], chars });
    this.#writing ??= this.#write();
  }

  async #write(): Promise<void> {
    // One turn later, so that what comes in one turn is written at once.
    await Promise.resolve();
    for (let batch = this.#waiting.shift(); batch !== undefined; batch = this.#waiting.shift()) {
      const { channel, lines, chars } = batch;
      this.#waiting_chars -= chars;
      try {
        await this.#task.append({ type: "output", channel, text: lines.join("\n") });
      } catch (error) {
        this.#lost += lines.length;
        if (hasCode(error, "overloaded", "too_large", "no_space", "unavailable", "denied", "fenced")) continue;
        this.#failure ??= { cause: error };
      }
    }
    this.#writing = undefined;
  }

  /**
   * Resolves once everything is written, with what the agent claims to have spent.
   *
   * @throws What keeps even the note about lost output from being written.
   */
  async close(): Promise<void> {
    await this.#writing;
    if (this.#failure !== undefined) throw this.#failure.cause;
    if (this.#lost > 0) {
      await this.#task.append({ type: "note", text: `${plural(this.#lost, "line")} of output could not be kept` });
    }
    if (this.#claimed_usd !== undefined) await this.#task.append({ type: "claimed", usd: this.#claimed_usd });
  }
}
