/**
 * Who may use the HTTP listener: one bearer token, and rules about where it may listen.
 *
 * The token is compared in constant time and appears nowhere but in the one line that tells of a
 * generated one; everything else shows its fingerprint.
 *
 * @module
 */

import { createHash, timingSafeEqual } from "node:crypto";
import { type RandomBytes, randomHex } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";

/** Fewest characters of an explicit token; the contract's number. */
export const MIN_TOKEN_CHARS = 16;
/** Characters of a fingerprint; the contract's number. */
export const FINGERPRINT_CHARS = 8;

/** Where to listen. */
export interface HttpAddress {
  hostname: string;
  port: number;
  loopback: boolean;
}

/** Reads `host:port` or `[v6]:port`; an empty host is every interface, as elsewhere. */
export function parseHttpAddress(text: string): HttpAddress {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]*)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (!match || port > 65535) {
    throw new TaskdError("usage", `Cannot listen on ${JSON.stringify(text.slice(0, 200))}: it is not host:port`, {
      hint: "Write 127.0.0.1:8080 or [::1]:8080; port 0 takes any free one",
    });
  }
  const hostname = match[1] ?? (match[2] === "" ? "0.0.0.0" : match[2]!);
  return { hostname, port, loopback: isLoopback(hostname) };
}

/** Only literal addresses and `localhost` count: what another name resolves to may change. */
function isLoopback(hostname: string): boolean {
  return /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(hostname) || hostname.toLowerCase() === "localhost" ||
    /^(?:0*:)+0*1$/.test(hostname);
}

/** The token of a listener. */
export class BearerToken {
  readonly #digest: Uint8Array;
  /** Stands for the token in logs: the first {@linkcode FINGERPRINT_CHARS} hex digits of its SHA-256. */
  readonly fingerprint: string;
  /** The token itself when it was generated, to be printed once; undefined for an explicit one. */
  readonly generated: string | undefined;

  private constructor(token: string, generated: boolean) {
    this.#digest = sha256(token);
    this.fingerprint = createHash("sha256").update(token).digest("hex").slice(0, FINGERPRINT_CHARS);
    this.generated = generated ? token : undefined;
  }

  /**
   * Applies the rules of the contract to what was asked for, each breach with an error of its own.
   *
   * @param options.token From `-token` or `BSTORE_TOKEN`; without one it is generated.
   */
  static forListener(
    address: HttpAddress,
    options: { token?: string; allow_non_loopback: boolean; random: RandomBytes },
  ): BearerToken {
    const { token } = options;
    if (token !== undefined && token.length < MIN_TOKEN_CHARS) {
      throw new TaskdError("usage", `Cannot use the token: it is shorter than ${MIN_TOKEN_CHARS} characters`, {
        hint: "Give a longer one, or none to have one generated",
      });
    }
    // What cannot stand in a header could never be presented.
    if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) {
      throw new TaskdError("usage", "Cannot use the token: it has spaces, control or non-ASCII characters");
    }
    if (!address.loopback && !options.allow_non_loopback) {
      throw new TaskdError("usage", `Cannot listen on ${address.hostname}: it is not a loopback address`, {
        hint: "Add -http-allow-non-loopback and an explicit token if others are meant to reach it; there is no TLS",
      });
    }
    if (!address.loopback && token === undefined) {
      throw new TaskdError("usage", `Cannot listen on ${address.hostname} with a generated token`, {
        hint: "Give an explicit token with BSTORE_TOKEN or -token",
      });
    }
    return token === undefined ? new BearerToken(randomHex(options.random, 32), true) : new BearerToken(token, false);
  }

  /** Whether an Authorization header presents the token. */
  accepts(authorization: string | null): boolean {
    const presented = /^Bearer +(\S+) *$/i.exec(authorization ?? "")?.[1];
    // Digests have one length, so neither the length nor the place of a difference shows in the time.
    return timingSafeEqual(sha256(presented ?? ""), this.#digest) && presented !== undefined;
  }
}

function sha256(text: string): Uint8Array {
  return createHash("sha256").update(text).digest();
}
