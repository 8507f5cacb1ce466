import { assertEquals, assertThrows } from "@std/assert";
import { TaskdError } from "../errors.ts";
import { parseHttpAddress } from "./address.ts";

Deno.test("parseHttpAddress() tells loopback from other addresses by the literal alone", () => {
  const cases: [string, boolean][] = [
    ["127.0.0.1:80", true],
    ["127.9.8.7:0", true],
    ["localhost:65535", true],
    ["[::1]:80", true],
    ["[0:0:0:0:0:0:0:1]:80", true],
    ["0.0.0.0:80", false],
    [":80", false],
    ["[::]:80", false],
    ["192.168.1.2:80", false],
    ["127.0.0.1.example.com:80", false],
    ["localhost.example.com:80", false],
    ["[::ffff:192.168.1.2]:80", false],
  ];
  for (const [text, loopback] of cases) assertEquals(parseHttpAddress(text).loopback, loopback, text);
  for (const text of ["", "80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "::1:80", "[::1]", "a:b:1", "a:-1"]) {
    assertThrows(() => parseHttpAddress(text), TaskdError, "host:port");
  }
});
