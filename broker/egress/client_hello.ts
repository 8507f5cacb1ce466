/**
 * Reads the server name out of the first bytes of a TLS connection (RFC 8446 and RFC 6066), nothing else of it.
 *
 * The bytes may come in any pieces and the message may be spread over records. What a server could read in another way
 * than this parser does (a second name, a length that does not fit) is malformed, never guessed at.
 */

import { concat } from "../../lib/concat.ts";

export type HelloVerdict =
  /** A whole ClientHello needs more bytes, at least this many in all. */
  | { is: "incomplete"; needs: number }
  /** The bytes cannot be the beginning of a TLS connection. */
  | { is: "not_tls" }
  /** They begin as one, and no server would accept them, or not every server in the same way. */
  | { is: "malformed" }
  /** A whole ClientHello; `server_name` as sent, undefined when it names none. */
  | { is: "hello"; server_name: string | undefined };

/** Most bytes of a first flight up to the end of its ClientHello. Post-quantum key shares make one of about 2 KiB. */
export const MAX_HELLO_BYTES = 16 << 10;

const HANDSHAKE_RECORD = 22;
const CLIENT_HELLO = 1;
const SERVER_NAME = 0;
const HOST_NAME = 0;
const MAX_RECORD_BYTES = 1 << 14;

export function readClientHello(bytes: Uint8Array): HelloVerdict {
  const message = handshakeBytes(bytes);
  if ("is" in message) return message;
  const body = message.bytes;
  if (body.length >= 1 && body[0] !== CLIENT_HELLO) return { is: "malformed" };
  if (body.length >= 4) {
    const length = body[1]! << 16 | body[2]! << 8 | body[3]!;
    if (length > MAX_HELLO_BYTES) return { is: "malformed" };
    if (body.length >= 4 + length) {
      try {
        return { is: "hello", server_name: serverName(new Fields(body.subarray(4, 4 + length))) };
      } catch (error) {
        if (error instanceof RangeError) return { is: "malformed" };
        throw error;
      }
    }
  }
  if (bytes.length >= MAX_HELLO_BYTES) return { is: "malformed" };
  return { is: "incomplete", needs: Math.min(message.needs, MAX_HELLO_BYTES) };
}

/** The payloads of the handshake records at the beginning of `bytes`, the last of them possibly cut off. */
function handshakeBytes(bytes: Uint8Array): { bytes: Uint8Array; needs: number } | HelloVerdict {
  const parts: Uint8Array[] = [];
  let total = 0;
  let at = 0;
  while (at < bytes.length) {
    // Type, version 3.x, length; each refused as soon as it is seen to be wrong.
    const bad = at === 0 ? "not_tls" : "malformed";
    if (bytes[at] !== HANDSHAKE_RECORD) return total >= 4 ? end() : { is: bad };
    if (at + 1 < bytes.length && bytes[at + 1] !== 3) return { is: bad };
    if (at + 5 > bytes.length) break;
    const length = bytes[at + 3]! << 8 | bytes[at + 4]!;
    // A handshake record is never empty: endless empty ones would never come to a hello.
    if (length === 0 || length > MAX_RECORD_BYTES) return { is: "malformed" };
    const part = bytes.subarray(at + 5, at + 5 + length);
    parts.push(part);
    total += part.length;
    at += 5 + length;
  }
  return end();

  function end(): { bytes: Uint8Array; needs: number } {
    // The end of a record that is cut off, or the beginning of the next one.
    const needs = at > bytes.length ? at : Math.max(at, bytes.length) + 1;
    if (parts.length === 1) return { bytes: parts[0]!, needs };
    return { bytes: concat(parts), needs };
  }
}

/** Takes big-endian fields off the front; throws RangeError past the end. */
class Fields {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get done(): boolean {
    return this.#at === this.#bytes.length;
  }

  take(count: number): Uint8Array {
    if (this.#at + count > this.#bytes.length) throw new RangeError("past the end");
    this.#at += count;
    return this.#bytes.subarray(this.#at - count, this.#at);
  }

  number(size: 1 | 2): number {
    const bytes = this.take(size);
    return size === 1 ? bytes[0]! : bytes[0]! << 8 | bytes[1]!;
  }

  vector(size: 1 | 2): Fields {
    return new Fields(this.take(this.number(size)));
  }

  rest(): Uint8Array {
    return this.take(this.#bytes.length - this.#at);
  }
}

/** The one host name of a ClientHello's body; RangeError when it is malformed. */
function serverName(hello: Fields): string | undefined {
  hello.take(2 + 32); // legacy version, random
  hello.vector(1); // session id
  hello.vector(2); // cipher suites
  hello.vector(1); // compression methods
  if (hello.done) return undefined;
  const extensions = hello.vector(2);
  if (!hello.done) throw new RangeError("bytes after the extensions");
  let name: string | undefined;
  while (!extensions.done) {
    const type = extensions.number(2);
    const extension = extensions.vector(2);
    if (type !== SERVER_NAME) continue;
    if (name !== undefined) throw new RangeError("two server_name extensions");
    const list = extension.vector(2);
    if (!extension.done) throw new RangeError("bytes after the name list");
    if (list.number(1) !== HOST_NAME) throw new RangeError("a name of unknown type");
    const host = list.vector(2).rest();
    if (!list.done || host.length === 0) throw new RangeError("not exactly one name");
    if (!host.every((byte) => byte > 0x20 && byte < 0x7f)) throw new RangeError("not an ASCII name");
    name = String.fromCharCode(...host.subarray(0, 256));
  }
  return name;
}
