import { assertEquals } from "@std/assert";
import { sha256, sha256Hex } from "./sha256.ts";

Deno.test("sha256() digests text as UTF-8, and bytes", () => {
  // The example of FIPS 180-2, appendix B.1.
  const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  assertEquals([sha256Hex("abc"), sha256Hex(new Uint8Array([97, 98, 99]))], [abc, abc]);
  assertEquals(sha256("abc").toHex(), abc);
});
