import { assertEquals } from "@std/assert";
import { BearerCheck } from "./bearer.ts";

const TOKEN = "a-token-of-enough-length";

Deno.test("a header is accepted that presents the whole token as a bearer's, and no other", () => {
  const check = new BearerCheck(TOKEN);
  for (const header of [`Bearer ${TOKEN}`, `bearer  ${TOKEN} `]) assertEquals(check.accepts(header), true, header);
  const others = [
    null,
    "",
    "Bearer",
    "Bearer ",
    TOKEN,
    `Basic ${TOKEN}`,
    `Bearer ${TOKEN}x`,
    `Bearer ${TOKEN.slice(1)}`,
    `Bearer ${TOKEN.toUpperCase()}`,
    `Bearer ${TOKEN} ${TOKEN}`,
    `Bearer ${check.fingerprint}`,
    `x Bearer ${TOKEN}`,
  ];
  for (const header of others) assertEquals(check.accepts(header), false, `${header}`);
});

Deno.test("an empty token accepts no header", () => {
  for (const header of [null, "", "Bearer", "Bearer "]) assertEquals(new BearerCheck("").accepts(header), false);
});
