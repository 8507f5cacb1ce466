import { assert, assertEquals } from "@std/assert";
import fc from "../tests/packages/fast_check.ts";
import { concat } from "./concat.ts";
import { GatheredBytes } from "./gathered_bytes.ts";

Deno.test("what is gathered is what came, in parts of any size whose memory is used again", () => {
  const part = fc.oneof(fc.uint8Array({ maxLength: 3 }), fc.uint8Array({ minLength: 500, maxLength: 3_000 }));
  fc.assert(fc.property(fc.array(part, { maxLength: 50 }), (parts) => {
    const gathered = new GatheredBytes();
    for (const each of parts) {
      const lent = each.slice();
      gathered.push(lent);
      lent.fill(0xff);
    }
    const whole = concat(parts);
    assertEquals(gathered.length, whole.length);
    assertEquals(gathered.whole(), whole);
    assertEquals(gathered.whole(), whole, "it can be asked again");
  }));
});

Deno.test("single bytes cost hardly more than one large part", () => {
  const gathered = new GatheredBytes();
  for (let at = 0; at < 200_000; at++) {
    gathered.push(Uint8Array.of(at));
    assert(gathered.held_bytes <= Math.max(1 << 10, Math.min(2 * gathered.length, gathered.length + (64 << 10))));
  }
  const large = new GatheredBytes();
  large.push(new Uint8Array(200_000));
  assertEquals(large.held_bytes, 200_000);
});
