/**
 * One bearer token, as the side that checks it: kept only as a digest, compared in
 * constant time, and named in logs by a fingerprint.
 */

import { timingSafeEqual } from "node:crypto";
import { sha256, sha256Hex } from "../sha256.ts";

/** Characters of a fingerprint; the contract's number. */
export const FINGERPRINT_CHARS = 8;

/** The token that an Authorization header presents. */
export function bearerOf(authorization: string | null): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(authorization ?? "")?.[1];
}

export class BearerCheck {
  readonly #digest: Uint8Array;
  /** Identifies the token in logs: the first {@linkcode FINGERPRINT_CHARS} hex digits of its SHA-256. */
  readonly fingerprint: string;

  constructor(token: string) {
    this.#digest = sha256(token);
    this.fingerprint = sha256Hex(token).slice(0, FINGERPRINT_CHARS);
  }

  /** Whether an Authorization header presents the token. */
  accepts(authorization: string | null): boolean {
    const presented = bearerOf(authorization);
    // Digests have one length, so neither the length nor the place of a difference shows in the time.
    return timingSafeEqual(sha256(presented ?? ""), this.#digest) && presented !== undefined;
  }
}
