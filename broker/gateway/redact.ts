/**
 * Replaces a secret by asterisks in bytes that pass, wherever it stands and however the bytes
 * are cut. The length stays, so that lengths that were announced stay true. Only what could
 * be the beginning of the secret is held back until the next bytes decide.
 */

import { Buffer } from "node:buffer";
import { hideSecrets, secretRanges } from "../../lib/text/secrets.ts";
import { concat } from "../../lib/concat.ts";

const BLOT = 0x2a;
const NOTHING = Buffer.alloc(0);

export class Redactor {
  readonly #secrets: Buffer[];
  /** The end of what came, as it came and as it passes: a secret may begin in another one's end. */
  #held: { raw: Buffer; clean: Buffer } = { raw: NOTHING, clean: NOTHING };

  constructor(secrets: readonly string[]) {
    this.#secrets = secrets.filter((secret) => secret !== "").map((secret) => Buffer.from(secret));
  }

  /** The next bytes that may pass; possibly none. */
  push(bytes: Uint8Array): Uint8Array {
    const came = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const { raw, clean } = this.#held;
    const buffer = raw.length === 0 ? came : joined(raw, came);
    const ranges = secretRanges(buffer, this.#secrets);
    const shown = ranges.length === 0 && raw.length === 0 ? came : joined(clean, came);
    for (const [start, end] of ranges) shown.fill(BLOT, start, end);
    const passing = buffer.length - this.#beginning(buffer);
    if (passing === buffer.length) this.#held = { raw: NOTHING, clean: NOTHING };
    else this.#held = { raw: Buffer.from(buffer.subarray(passing)), clean: Buffer.from(shown.subarray(passing)) };
    return shown.subarray(0, passing);
  }

  end(): Uint8Array {
    const { clean } = this.#held;
    this.#held = { raw: NOTHING, clean: NOTHING };
    return clean;
  }

  text(text: string): string {
    return hideSecrets(text, this.#secrets.map(String), (part) => "*".repeat(Buffer.byteLength(part)));
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

function beginsAt(buffer: Buffer, at: number, secret: Buffer): boolean {
  for (let offset = 0; at + offset < buffer.length; offset++) {
    if (buffer[at + offset] !== secret[offset]) return false;
  }
  return true;
}

/** A copy of both, as the type that can be searched. */
function joined(first: Uint8Array, second: Uint8Array): Buffer {
  return Buffer.from(concat([first, second]).buffer);
}
