/** How a grant of egress is said, in the brief, on pages and in commands. */

import { formatDuration } from "../../lib/text/duration.ts";
import { plural } from "../../lib/text/plural.ts";
import type { EgressGrants } from "./schema.ts";

/** On one line, without its target: `for 1h from 2026-01-01T12:00:00Z, used 1 of 3 times, by ...`. */
export function grantText({ at, for_ms, uses, used, by }: EgressGrants[number]): string {
  const time = `for ${formatDuration(for_ms)} from ${at.replace(/\.\d+Z$/, "Z")}`;
  const count = `used ${uses === undefined ? plural(used, "time") : `${used} of ${plural(uses, "time")}`}`;
  return [time, count, ...(by === undefined ? [] : [`by ${by.who} (${by.via})`])].join(", ");
}
