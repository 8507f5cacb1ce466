import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { systemRandom } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { parseHttpAddress } from "../../lib/http/address.ts";
import { FINGERPRINT_CHARS } from "../../lib/http/bearer.ts";
import { BearerToken } from "./auth.ts";

const LONG = "sixteen-chars-ok";

function token(address: string, options: { token?: string; allow_non_loopback?: boolean } = {}): BearerToken {
  return BearerToken.forListener(parseHttpAddress(address), {
    allow_non_loopback: false,
    ...options,
    random: systemRandom,
  });
}

Deno.test("every breach of the token's rules is an error of its own", () => {
  const messages = [
    assertThrows(() => token("127.0.0.1:0", { token: "fifteen-chars-x" }), TaskdError).message,
    assertThrows(() => token("127.0.0.1:0", { token: `${LONG} with space` }), TaskdError).message,
    assertThrows(() => token("0.0.0.0:0", { token: LONG }), TaskdError).message,
    assertThrows(() => token("0.0.0.0:0", { allow_non_loopback: true }), TaskdError).message,
  ];
  assertEquals(new Set(messages).size, messages.length);
  for (const message of messages) assert(!message.includes(LONG));
  assertEquals(token("0.0.0.0:0", { token: LONG, allow_non_loopback: true }).generated, undefined);
});

Deno.test("without a token one is generated, long and different each time", () => {
  const [a, b] = [token("127.0.0.1:0"), token("127.0.0.1:0")];
  assertMatch(a.generated!, /^[0-9a-f]{64}$/);
  assert(a.generated !== b.generated);
  assert(a.accepts(`Bearer ${a.generated}`));
  assert(!b.accepts(`Bearer ${a.generated}`));
});

// conformance: 8.token
Deno.test("a fingerprint has 8 characters and is no part of the token", () => {
  const made = token("127.0.0.1:0");
  assertEquals(made.fingerprint.length, FINGERPRINT_CHARS);
  assert(!made.generated!.startsWith(made.fingerprint));
});

Deno.test("accepts() takes the bearer scheme in any case, and nothing but the exact token", () => {
  const made = token("127.0.0.1:0", { token: LONG });
  for (const header of [`Bearer ${LONG}`, `bearer ${LONG}`, `BEARER  ${LONG}`]) assert(made.accepts(header), header);
  for (
    const header of [
      null,
      "",
      "Bearer",
      "Bearer ",
      `Bearer ${LONG}x`,
      `Bearer ${LONG.slice(1)}`,
      LONG,
      `Basic ${LONG}`,
      `Bearer ${LONG} ${LONG}`,
    ]
  ) {
    assert(!made.accepts(header), String(header));
  }
});
