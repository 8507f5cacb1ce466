import { assertEquals } from "@std/assert";
import { concat } from "./concat.ts";

Deno.test("concat() copies its parts, one behind the other", () => {
  const part = new Uint8Array([1, 2]);
  const whole = concat([part, new Uint8Array(), new Uint8Array([3])]);
  part[0] = 9;
  assertEquals(whole, new Uint8Array([1, 2, 3]));
  assertEquals(concat([]), new Uint8Array());
});
