import { assertEquals, assertThrows } from "@std/assert";
import { TaskdError } from "../errors.ts";
import { endpointAddress, isLoopback, parseHttpAddress } from "./address.ts";

Deno.test("parseHttpAddress() recognises loopback by the literal alone", () => {
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
    ["127.255.255.255:80", true],
    ["127.999.1.1:80", false],
    ["127.0.0.256:80", false],
    ["127.0.0.01:80", false],
    ["127.0.1:80", false],
    ["127.0.0.1.:80", false],
    ["[::01]:80", true],
    ["[0::1]:80", true],
    ["[::0.0.0.1]:80", true],
    ["[::1:1]:80", false],
  ];
  for (const name of ["", "0:1", ":::1", "0:0:1", "::1]/", "x@[::1", "00000::1"]) {
    assertEquals(isLoopback(name), false, name);
  }
  for (const [text, loopback] of cases) assertEquals(parseHttpAddress(text).loopback, loopback, text);
  for (const text of ["", "80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "::1:80", "[::1]", "a:b:1", "a:-1"]) {
    assertThrows(() => parseHttpAddress(text), TaskdError, "host:port");
  }
});

Deno.test("parseHttpAddress() refuses what no host can be called", () => {
  const names = ["a..b", ".", ".a", "*", "x@y", "a b", "a/b", "%31", "''", "ä.example", `${"a.".repeat(130)}b`];
  for (const host of [...names, "http://x", "[::::]", "[1:2:3]", "[1:2:3:4:5:6:7:8:9]"]) {
    assertThrows(() => parseHttpAddress(`${host}:80`), TaskdError, "host:port", host);
  }
  for (const host of ["a_b.example", "my-host", "example.com.", "[2001:db8::1]", "[::ffff:127.0.0.1]"]) {
    assertEquals(parseHttpAddress(`${host}:80`).hostname, host.replace(/^\[|\]$/g, ""));
  }
});

Deno.test("endpointAddress() has the scheme's port where a URL names none, and nothing of other URLs", () => {
  const table: [string, object | undefined][] = [
    ["http://localhost:11434/v1", { hostname: "localhost", port: 11434 }],
    ["https://[::1]/v1", { hostname: "::1", port: 443 }],
    ["http://models.example.com", { hostname: "models.example.com", port: 80 }],
    ["ftp://example.com", undefined],
    ["http://a,b/", undefined],
    ["", undefined],
  ];
  for (const [url, address] of table) assertEquals(endpointAddress(url), address, url);
});
