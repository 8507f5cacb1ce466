/**
 * SHA-256 of what is in memory.
 */

import { createHash } from "node:crypto";

/** The digest of bytes, or of text as UTF-8. */
export function sha256(data: string | Uint8Array): Uint8Array {
  return createHash("sha256").update(data).digest();
}

export function sha256Hex(data: string | Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}
