/**
 * A branch's time to live: how it is given, renewed and read. It counts from the last touch; a branch without one never
 * expires.
 */

import type { Lifetime, RepointOptions, TouchOptions } from "./results.ts";

/** How long a safety fork lives: a mistake may be noticed days later. */
export const SAFETY_TTL_MS = 7 * 24 * 3600 * 1000;

/** The part of a ref, or of an answer, that holds the time to live. */
export type TtlField = Pick<Lifetime, "ttl_ms">;

export function ttlField({ ttl_ms }: TtlField): TtlField {
  return ttl_ms === undefined ? {} : { ttl_ms };
}

/** The time to live of the branch that rollback and promote keep the old head as. */
export function safetyTtlField({ safety_ttl_ms }: Pick<RepointOptions, "safety_ttl_ms">): TtlField {
  return { ttl_ms: safety_ttl_ms ?? SAFETY_TTL_MS };
}

/** `ref` touched at `touched_at`; its time to live stays, changes, or ends with null. */
export function touched<R extends Lifetime>(ref: R, { ttl_ms }: TouchOptions, touched_at: string): R {
  const { ttl_ms: _before, ...endless } = ref;
  if (ttl_ms === null) return { ...endless, touched_at } as R;
  return { ...ref, touched_at, ...(ttl_ms === undefined ? {} : { ttl_ms }) };
}

export function isExpired({ ttl_ms, touched_at }: Lifetime, now_ms: number): boolean {
  return ttl_ms !== undefined && Date.parse(touched_at) + ttl_ms <= now_ms;
}

/** The time to live in seconds; 0 when there is none. */
export function ttlSeconds({ ttl_ms = 0 }: Lifetime): number {
  return ttl_ms / 1000;
}
