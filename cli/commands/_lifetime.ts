/**
 * Times to live, as flags and in words.
 *
 * @module
 */

import type { Lifetime } from "../../lib/store/results.ts";
import { formatDuration } from "../../lib/text/duration.ts";
import type { Args } from "../plan/args.ts";

/** What --ttl asks for a new branch. */
export function newLifetime(args: Args): { ttl_ms?: number } {
  const ttl_ms = args.number("ttl");
  return ttl_ms === undefined ? {} : { ttl_ms };
}

/** What --ttl asks for a branch that exists: 0 ends its time to live. */
export function changedLifetime(args: Args): { ttl_ms?: number | null } {
  const { ttl_ms } = newLifetime(args);
  return ttl_ms === undefined ? {} : { ttl_ms: ttl_ms || null };
}

/** What --safety-ttl asks for the branch that keeps the old head. */
export function safetyLifetime(args: Args): { safety_ttl_ms?: number } {
  const safety_ttl_ms = args.number("safety-ttl");
  return safety_ttl_ms === undefined ? {} : { safety_ttl_ms };
}

/** A branch's time to live for people; undefined when it never expires. */
export function lifetimeText({ ttl_ms }: Lifetime): string | undefined {
  return ttl_ms === undefined ? undefined : formatDuration(ttl_ms);
}
