/**
 * Numbers, money and time as people read them.
 */

import type { SpendFigures } from "../../task/schema.ts";

/** `1 file`, `12 files`. */
export function counted(count: number, what: string): string {
  return `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
}

const MAX_OPENING = 160;

/** The first line of a text, and whether there is more of it. */
export function opening(text: string): string {
  const whole = text.trim();
  const shown = whole.split("\n")[0]!.slice(0, MAX_OPENING).trimEnd().toWellFormed();
  return shown.length < whole.length ? `${shown} ...` : shown;
}

/** Dollars: two places, or four below ten cents. */
export function dollars(usd: number): string {
  const places = usd !== 0 && usd < 0.1 ? 4 : 2;
  return `$${usd.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places })}`;
}

/** A cost: what has no price is said, never shown as nothing. */
export function cost(spend: Omit<SpendFigures, "input_tokens" | "output_tokens"> | undefined): string {
  if (spend === undefined) return "not metered";
  const { usd, requests, unmetered_requests, priced } = spend;
  if (requests > 0 && unmetered_requests === requests && usd === 0) return "unmetered";
  return `${priced && unmetered_requests === 0 ? "" : "at least "}${dollars(usd)}`;
}

const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1_000]] as const;

/** A duration in its two greatest units. */
export function duration(ms: number): string {
  if (ms < 1_000) return ms < 0 ? "0 s" : `${Math.round(ms)} ms`;
  const first = UNITS.findIndex(([, size]) => ms >= size);
  const [unit, size] = UNITS[first]!;
  const whole = Math.floor(ms / size);
  const next = UNITS[first + 1];
  const rest = next === undefined ? 0 : Math.floor((ms % size) / next[1]);
  return next === undefined || rest === 0 ? `${whole} ${unit}` : `${whole} ${unit} ${rest} ${next[0]}`;
}

export function ago(iso: string, now_ms: number): string {
  const ms = now_ms - Date.parse(iso);
  return ms < 5_000 ? "just now" : `${duration(ms).split(" ").slice(0, 2).join(" ")} ago`;
}

/** A time of day with its date, in the reader's zone. */
export function moment(iso: string): string {
  return new Date(iso).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

/** `host/owner/repo` of a repository's URL, or what was given. */
export function repoName(repo: string): string {
  return repo.replace(/^[a-z+]+:\/\/(?:[^/@]*@)?/i, "").replace(/\.git$/, "");
}
