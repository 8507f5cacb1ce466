/**
 * Which keys every backend accepts. The alphabet is small on purpose: each such key
 * is the same name on every file system and every S3 server, and none can leave a
 * directory.
 */

import { BackendError } from "./backend.ts";

/** First part of a key that backends keep for themselves. */
export const RESERVED_PART = ".taskd";

const PART = /^[A-Za-z0-9_.~@-]{1,255}$/;
const MAX_KEY_CHARACTERS = 1024;

export function isKeyPart(name: string): boolean {
  return PART.test(name) && name !== "." && name !== "..";
}

function refuse(key: string, what: "key" | "prefix"): never {
  throw new BackendError("denied", key, `Cannot use ${JSON.stringify(key.slice(0, 200))} as the ${what} of an object`);
}

function allowed(parts: string[]): boolean {
  return parts.every(isKeyPart) &&
    // Without regard to case, as some file systems read names.
    parts[0]?.toLowerCase() !== RESERVED_PART;
}

/**
 * Checks a key and returns its parts: 1-255 characters of `[A-Za-z0-9_.~@-]` each, `/` between them, 1024 in all.
 *
 * @throws {BackendError} `denied`
 */
export function parseKey(key: string): string[] {
  const parts = key.split("/");
  if (key.length > MAX_KEY_CHARACTERS || !allowed(parts)) refuse(key, "key");
  return parts;
}

/**
 * Checks the prefix of a listing: the beginning of a key, or nothing.
 *
 * @returns The whole parts, and what the next part begins with.
 * @throws {BackendError} `denied`
 */
export function parsePrefix(prefix: string): { directory: string[]; start: string } {
  const directory = prefix.split("/");
  const start = directory.pop()!;
  const parts = start === "" || /^\.{1,2}$/.test(start) ? directory : [...directory, start];
  if (prefix.length > MAX_KEY_CHARACTERS || !allowed(parts)) refuse(prefix, "prefix");
  return { directory, start };
}
