/**
 * How a point of a branch is named: a checkpoint's name, a transaction, a time or an age. The one parser of that text.
 */

import { hasCode } from "../errors.ts";
import { parseDuration } from "../text/duration.ts";

/** A point that is no checkpoint. */
export type PointText = { txid: number } | { time_ms: number } | { age_ms: number };

const TIME = /^(\d{4}-\d{2}-\d{2})(?:T(\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?)(Z|[+-]\d{2}:\d{2})?)?$/;

/**
 * Reads `txid:41`, `time:2026-11-25T15:00:00Z` or `age:15m`, or any of the three without its prefix; a time without a zone
 * is UTC. Undefined when the text is none of them.
 */
export function parsePoint(text: string): PointText | undefined {
  const [, prefix, value = ""] = /^(?:(txid|time|age):)?(.*)$/s.exec(text) ?? [];
  if ((prefix ?? "txid") === "txid" && /^\d{1,15}$/.test(value)) return { txid: Number(value) };
  if ((prefix ?? "time") === "time") {
    const time_ms = timeOf(value);
    if (time_ms !== undefined) return { time_ms };
  }
  if ((prefix ?? "age") !== "age") return undefined;
  try {
    return { age_ms: parseDuration(value) };
  } catch (error) {
    if (hasCode(error, "usage")) return undefined;
    throw error;
  }
}

function timeOf(text: string): number | undefined {
  const [, day, time = "00:00", zone = "Z"] = TIME.exec(text) ?? [];
  const ms = Date.parse(`${day}T${time}${zone}`);
  return day === undefined || Number.isNaN(ms) ? undefined : ms;
}
