/** One line that shows the progress of long work: bytes, share, rate and time left. */

import { formatBytes } from "../../lib/text/bytes.ts";
import { formatDuration } from "../../lib/text/duration.ts";

/** Redrawn at most this often, in milliseconds: faster is unreadable and costs more than the work it shows. */
const REDRAW_MS = 100;

/** Nothing is drawn before this, in milliseconds: short work should not flash. */
const SHOW_AFTER_MS = 300;

const BAR_CELLS = 24;

export interface ProgressOptions {
  /** What is being done, for example `create shop`. */
  label: string;
  columns: number;
  /** Monotonic milliseconds. */
  now(): number;
  write(text: string): void;
}

export class Progress {
  readonly #options: ProgressOptions;
  readonly #started_ms: number;
  #drawn_ms: number | undefined;

  constructor(options: ProgressOptions) {
    this.#options = options;
    this.#started_ms = options.now();
  }

  /** Shows `done_bytes` of `total_bytes`, unless the line was drawn a moment ago. */
  update(done_bytes: number, total_bytes: number | undefined): void {
    const now_ms = this.#options.now();
    const elapsed_ms = now_ms - this.#started_ms;
    if (elapsed_ms < SHOW_AFTER_MS) return;
    if (this.#drawn_ms !== undefined && now_ms - this.#drawn_ms < REDRAW_MS) return;
    this.#drawn_ms = now_ms;
    const line = `${this.#options.label}  ${describeProgress(done_bytes, total_bytes, elapsed_ms)}`;
    this.#options.write(`\r\x1b[K${line.slice(0, Math.max(0, this.#options.columns - 1))}`);
  }

  clear(): void {
    if (this.#drawn_ms !== undefined) this.#options.write("\r\x1b[K");
    this.#drawn_ms = undefined;
  }
}

/** The line without its label: `[====    ] 50%  12 MiB of 24 MiB  6 MiB/s  2s left`. */
export function describeProgress(done_bytes: number, total_bytes: number | undefined, elapsed_ms: number): string {
  const rate = elapsed_ms <= 0 ? 0 : done_bytes / (elapsed_ms / 1_000);
  if (total_bytes === undefined || total_bytes <= 0) return `${formatBytes(done_bytes)}  ${formatBytes(rate)}/s`;
  const share = Math.min(1, done_bytes / total_bytes);
  const bar = "=".repeat(Math.floor(share * BAR_CELLS)).padEnd(BAR_CELLS);
  const left = rate <= 0 ? "" : `  ${formatDuration((1 - share) * total_bytes / rate * 1_000)} left`;
  const amount = `${formatBytes(done_bytes)} of ${formatBytes(total_bytes)}`;
  return `[${bar}] ${Math.floor(share * 100)}%  ${amount}  ${formatBytes(rate)}/s${left}`;
}
