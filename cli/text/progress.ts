/** One line that shows the progress of long work: bytes, share, rate and time left. */

import type { OnProgress } from "../../lib/store/results.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import { formatDuration } from "../../lib/text/duration.ts";
import type { LiveLine } from "./live_line.ts";

/** Redrawn at most this often, in milliseconds: faster is unreadable and costs more than the work it shows. */
const REDRAW_MS = 100;

/** Nothing is drawn before this, in milliseconds: short work should not flash. */
const SHOW_AFTER_MS = 300;

const BAR_CELLS = 24;

/** Shows the progress of work that begins now in `line`; `now` gives monotonic milliseconds. */
export function progressIn(line: Pick<LiveLine, "show">, label: string, now: () => number): OnProgress {
  const started_ms = now();
  let drawn_ms = -Infinity;
  return (done_bytes, total_bytes) => {
    const now_ms = now();
    const elapsed_ms = now_ms - started_ms;
    if (elapsed_ms < SHOW_AFTER_MS || now_ms - drawn_ms < REDRAW_MS) return;
    drawn_ms = now_ms;
    void line.show(`${label}  ${describeProgress(done_bytes, total_bytes, elapsed_ms)}`);
  };
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
