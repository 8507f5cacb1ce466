/**
 * Replaces a secret by asterisks in bytes that pass, wherever it stands and however the bytes
 * are cut. The length stays, so that lengths that were announced stay true. Only what could
 * be the beginning of the secret is held back until the next bytes decide.
 */

import { Buffer } from "node:buffer";

const BLOT = 0x2a;

export class Redactor {
  readonly #secrets: Buffer[];
  #held: Buffer = Buffer.alloc(0);

  /** Looks for each of `secrets`; empty ones are ignored. */
  constructor(secrets: readonly string[]) {
    this.#secrets = secrets.filter((secret) => secret !== "").map((secret) => Buffer.from(secret));
  }

  /** The next bytes that may pass; possibly none. */
  push(bytes: Uint8Array): Uint8Array {
    const buffer = this.#held.length === 0
      ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
      : Buffer.concat([this.#held, bytes]);
    const clean = this.#blot(buffer);
    const keep = this.#beginning(clean);
    this.#held = keep === 0 ? this.#held.subarray(0, 0) : Buffer.from(clean.subarray(clean.length - keep));
    return keep === 0 ? clean : clean.subarray(0, clean.length - keep);
  }

  end(): Uint8Array {
    const rest = this.#held;
    this.#held = this.#held.subarray(0, 0);
    return rest;
  }

  text(text: string): string {
    let clean = text;
    for (const secret of this.#secrets) clean = clean.replaceAll(secret.toString(), "*".repeat(secret.length));
    return clean;
  }

  #blot(buffer: Buffer): Buffer {
    let clean = buffer;
    for (const secret of this.#secrets) {
      for (let at = clean.indexOf(secret); at >= 0; at = clean.indexOf(secret, at + secret.length)) {
        if (clean === buffer) clean = Buffer.from(buffer);
        clean.fill(BLOT, at, at + secret.length);
      }
    }
    return clean;
  }

  /** How many bytes at the end could begin a secret. */
  #beginning(buffer: Buffer): number {
    let longest = 0;
    for (const secret of this.#secrets) {
      let at = buffer.indexOf(secret[0]!, Math.max(0, buffer.length - secret.length + 1));
      while (at >= 0 && !beginsAt(buffer, at, secret)) at = buffer.indexOf(secret[0]!, at + 1);
      if (at >= 0) longest = Math.max(longest, buffer.length - at);
    }
    return longest;
  }
}

/** Whether all that follows in `buffer` is the beginning of `secret`. */
function beginsAt(buffer: Buffer, at: number, secret: Buffer): boolean {
  for (let offset = 0; at + offset < buffer.length; offset++) {
    if (buffer[at + offset] !== secret[offset]) return false;
  }
  return true;
}
