/**
 * Holds one task to its disk space (`task_disk_gb`) from its staging to the end of its agent: counts what its folders take
 * again and again, the rarer the longer that takes, and once more when the agent has ended, before anything of it is
 * read.
 *
 * A task that is found above its bound is ended; so is one whose space cannot be counted several times in a row, and one
 * whose last count is not whole: a folder that is closed to the broker must be no place to hide in.
 */

import type { Clock } from "../../lib/clock.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import type { DiskUse } from "../task/schema.ts";
import type { DiskCount, DiskMeter } from "./disk_count.ts";
import { TaskEnding } from "./endings.ts";

/** Milliseconds between two counts, at least. */
export const COUNT_EVERY_MS = 2_000;
/** Counting takes at most a twentieth of the time, as long as that leaves it no more than a minute behind. */
const REST_SHARE = 19;
const MAX_PAUSE_MS = 60_000;
/** Counts in a row that may miss something: what an agent builds closes a folder for a moment at times. */
const MAX_INCOMPLETE = 3;

export interface DiskWatchOptions {
  meter: DiskMeter;
  clock: Clock;
  /** 0: nothing is counted. */
  limit_bytes: number;
  /** Ends the task; not called any more once {@linkcode DiskWatch.stop} was. */
  onEnding(ending: TaskEnding): void;
  /** Called with each count. */
  onCount?: (bytes: number) => void;
}

export class DiskWatch {
  readonly #options: DiskWatchOptions;
  readonly #folders: Set<string>;
  readonly #over = new AbortController();
  #counting: Promise<void> = Promise.resolve();
  #peak_bytes: number | undefined;
  #incomplete = 0;

  constructor(folders: readonly string[], options: DiskWatchOptions) {
    this.#folders = new Set(folders);
    this.#options = options;
  }

  /** The most that was found; undefined before the first count. */
  get use(): DiskUse | undefined {
    const { limit_bytes } = this.#options;
    return this.#peak_bytes === undefined ? undefined : { peak_bytes: this.#peak_bytes, limit_bytes };
  }

  /** Begins to count. */
  start(): void {
    if (this.#options.limit_bytes > 0) this.#counting = this.#watch().catch(() => {});
  }

  /** Counts one more folder with the others, while it is there; it lies in none of them. */
  add(folder: string): void {
    this.#folders.add(folder);
  }

  /** Ends the counting; resolves when none is under way. */
  async stop(): Promise<void> {
    this.#over.abort();
    await this.#counting;
  }

  /**
   * Ends it with a last count, when nothing writes any more.
   *
   * @throws {TaskEnding} when the task is above its bound, or that is not known; the signal's reason.
   */
  async finish(signal: AbortSignal): Promise<void> {
    await this.stop();
    if (this.#options.limit_bytes === 0) return;
    this.#incomplete = MAX_INCOMPLETE;
    const ending = this.#check(await this.#count(signal));
    if (ending !== undefined) throw ending;
  }

  async #watch(): Promise<void> {
    const { clock, onEnding } = this.#options;
    const { signal } = this.#over;
    for (let pause_ms = COUNT_EVERY_MS;;) {
      await clock.sleep(pause_ms, signal);
      const began_ms = clock.monotonic();
      const ending = this.#check(await this.#count(signal));
      signal.throwIfAborted();
      if (ending !== undefined) return onEnding(ending);
      const rest_ms = REST_SHARE * (clock.monotonic() - began_ms);
      pause_ms = Math.min(Math.max(COUNT_EVERY_MS, rest_ms), MAX_PAUSE_MS);
    }
  }

  async #count(signal: AbortSignal): Promise<DiskCount> {
    const found = await this.#options.meter.count([...this.#folders], signal);
    this.#peak_bytes = Math.max(this.#peak_bytes ?? 0, found.bytes);
    this.#options.onCount?.(found.bytes);
    return found;
  }

  /** What a count means; what could be seen counts also where it is not all. */
  #check({ bytes, incomplete }: DiskCount): TaskEnding | undefined {
    const { limit_bytes } = this.#options;
    const bound = `task_disk_gb (${formatBytes(limit_bytes)})`;
    if (bytes > limit_bytes) {
      const hint = "have it write less, or raise task_disk_gb";
      return new TaskEnding("agent_failed", `it took ${formatBytes(bytes)} of disk, more than ${bound}; ${hint}`);
    }
    this.#incomplete = incomplete === undefined ? 0 : this.#incomplete + 1;
    if (incomplete === undefined || this.#incomplete < MAX_INCOMPLETE) return undefined;
    return new TaskEnding("agent_failed", `the disk that it takes, for ${bound}, cannot be counted: ${incomplete}`);
  }
}
