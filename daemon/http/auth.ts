/**
 * Access to the HTTP listener: one bearer token, and rules about where it may listen. The token appears only in the one
 * log line that shows a generated one; everything else shows its fingerprint.
 */

import { type RandomBytes, randomHex } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { HttpAddress } from "../../lib/http/address.ts";
import { BearerCheck } from "../../lib/http/bearer.ts";

/** Fewest characters of an explicit token; the contract's number. */
const MIN_TOKEN_CHARS = 16;

/** Refuses an explicit token that is too short, or that no client could put into a header. */
export function checkToken(token: string): void {
  if (token.length < MIN_TOKEN_CHARS) {
    throw new TaskdError("usage", `Cannot use the token: it is shorter than ${MIN_TOKEN_CHARS} characters`, {
      hint: "Give a longer one, or none to have one generated",
    });
  }
  if (!/^[\x21-\x7e]+$/.test(token)) {
    throw new TaskdError("usage", "Cannot use the token: it has spaces, control or non-ASCII characters");
  }
}

export class BearerToken extends BearerCheck {
  /** The token itself when it was generated, to be printed once; undefined for an explicit one. */
  readonly generated: string | undefined;

  private constructor(token: string, generated: boolean) {
    super(token);
    this.generated = generated ? token : undefined;
  }

  /**
   * Applies the rules of the contract to the options; each breach has an error of its own.
   *
   * @param options.token From `--token` or `BSTORE_TOKEN`; without one it is generated.
   */
  static forListener(
    address: HttpAddress,
    options: { token?: string; allow_non_loopback: boolean; random: RandomBytes },
  ): BearerToken {
    const { token } = options;
    if (token !== undefined) checkToken(token);
    if (!address.loopback && !options.allow_non_loopback) {
      throw new TaskdError("usage", `Cannot listen on ${address.hostname}: it is not a loopback address`, {
        hint: "Add --http-allow-non-loopback and an explicit token if others are meant to reach it; there is no TLS",
      });
    }
    if (!address.loopback && token === undefined) {
      throw new TaskdError("usage", `Cannot listen on ${address.hostname} with a generated token`, {
        hint: "Give an explicit token with BSTORE_TOKEN or --token",
      });
    }
    return token === undefined ? new BearerToken(randomHex(options.random, 32), true) : new BearerToken(token, false);
  }
}
