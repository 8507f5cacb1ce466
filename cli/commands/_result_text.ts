/**
 * Parts of results in words, as several commands print them.
 */

import type { Lifetime } from "../../lib/store/results.ts";
import { formatDuration } from "../../lib/text/duration.ts";

/** `<db>@<branch>`. */
export function branchName(result: { db: string; branch: string }): string {
  return `${result.db}@${result.branch}`;
}

/** A branch's time to live; undefined when it never expires. */
export function lifetimeText({ ttl_ms }: Lifetime): string | undefined {
  return ttl_ms === undefined ? undefined : formatDuration(ttl_ms);
}

/** An ISO 8601 stamp to the second, as `2026-01-31 12:00:00Z`. */
export function stamp(iso: string): string {
  return iso.replace("T", " ").replace(/\.\d+(?=Z)/, "");
}
