/** Parts of results in words, as several commands print them. */

import type { Finding, LeftOut, Lifetime, WaitOptions } from "../../lib/store/results.ts";
import { formatDuration } from "../../lib/text/duration.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import { ttlOf } from "../../lib/store/time_to_live.ts";

export function branchName(result: { db: string; branch: string }): string {
  return `${result.db}@${result.branch}`;
}

export function lifetimeText(branch: Lifetime): string | undefined {
  const ttl = ttlOf(branch);
  return ttl === undefined ? undefined : formatDuration(ttl);
}

export function waitFlag(args: Args): WaitOptions {
  const wait_ms = args.number("wait");
  return wait_ms === undefined ? {} : { wait_ms };
}

/** An ISO 8601 stamp to the second, as `2026-01-31 12:00:00Z`. */
export function stamp(iso: string): string {
  return iso.replace("T", " ").replace(/\.\d+(?=Z)/, "");
}

/** Something that is damaged: what, who needs it unless that is the line above, and what to do. */
export function findingLines({ why, needed_by, hint }: Finding, shown_under?: string): string[] {
  const needed = needed_by.every((name) => name === shown_under) ? [] : [`    Needed by ${needed_by.join(", ")}`];
  return [`  ${sanitizeLine(why)}`, ...needed, `    ${sanitizeLine(hint)}`];
}

/** Says which edits are not in what was read. */
export function noteLeftOut<T extends LeftOut>(result: T, io: Io): T {
  for (const address of result.left_out ?? []) {
    io.note(
      `The checkout of ${address} has edits that are not in the store and are left out: taskd checkpoint keeps them`,
    );
  }
  return result;
}
