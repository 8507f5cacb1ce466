/**
 * A branch's time to live: how it is given, renewed and read. It counts from the last touch; a branch without one never
 * expires.
 */

import type { Lifetime, TouchOptions } from "./results.ts";

/** How long a safety fork lives: a mistake may be noticed days later. */
export const SAFETY_TTL_MS = 7 * 24 * 3600 * 1000;

/** The part of a ref, or of an answer, that holds the time to live. */
export type TtlField = Pick<Lifetime, "ttl_ms">;

/** The field for a time to live of that many milliseconds, or without an end; absent for none. */
export function ttlOption<T extends number | null>(ms: T | undefined): { ttl_ms?: T } {
  return ms === undefined ? {} : { ttl_ms: ms };
}

export function ttlField({ ttl_ms }: TtlField): TtlField {
  return ttl_ms === undefined ? {} : { ttl_ms };
}

/** `ref` touched at `touched_at`; its time to live stays, changes, or ends with null. */
export function touched<R extends Lifetime>(ref: R, { ttl_ms }: TouchOptions, touched_at: string): R {
  const { ttl_ms: _before, ...endless } = ref;
  if (ttl_ms === null) return { ...endless, touched_at } as R;
  return { ...ref, touched_at, ...(ttl_ms === undefined ? {} : { ttl_ms }) };
}

/** The same, without a time to live. */
export function endless<R extends TtlField>({ ttl_ms: _, ...ref }: R): Omit<R, keyof TtlField> {
  return ref;
}

/** When it expires, in milliseconds since 1970; undefined for never. */
export function expiresAt({ ttl_ms, touched_at }: Lifetime): number | undefined {
  return ttl_ms === undefined ? undefined : Date.parse(touched_at) + ttl_ms;
}

export function isExpired(ref: Lifetime, now_ms: number): boolean {
  return (expiresAt(ref) ?? Infinity) <= now_ms;
}

export function ttlOf({ ttl_ms }: TtlField): number | undefined {
  return ttl_ms;
}
