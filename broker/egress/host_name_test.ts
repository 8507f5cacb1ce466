import { assertEquals } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { canonicalHost, formatTarget, parseAuthority } from "./host_name.ts";

Deno.test("one host has one form, however it is written", () => {
  for (
    const [text, host] of [
      ["example.com", "example.com"],
      ["EXAMPLE.Com", "example.com"],
      ["example.com.", "example.com"],
      ["a_b.example.com", "a_b.example.com"],
      ["bücher.example", "xn--bcher-kva.example"],
      ["BÜCHER.example", "xn--bcher-kva.example"],
      ["XN--BCHER-KVA.example", "xn--bcher-kva.example"],
      ["ｅｘａｍｐｌｅ.com", "example.com"],
      ["example。com", "example.com"],
      ["localhost", "localhost"],
      ["1password.com", "1password.com"],
      ["0x7f.com", "0x7f.com"],
    ] as const
  ) {
    assertEquals([text, canonicalHost(text)], [text, { host }]);
  }
});

Deno.test("a raw address is recognized in every notation that some parser takes", () => {
  for (
    const text of [
      "127.0.0.1",
      "127.0.0.1.",
      "127.1",
      "127.0.1",
      "2130706433",
      "0177.0.0.1",
      "017700000001",
      "0x7f.0.0.1",
      "0X7F000001",
      "0x7f.1",
      "0x",
      "127.0.0.0x1",
      "256.256.256.256",
      "1.2.3.4.5",
      "99999999999",
      "example.1",
      "１２７.0.0.1",
      "127。0。0。1",
      "①②⑦.0.0.1",
      "::1",
      "[::1]",
      "[::ffff:127.0.0.1]",
      "[64:ff9b::7f00:1]",
      "fe80::1%eth0",
    ]
  ) assertEquals([text, canonicalHost(text)], [text, "address_literal"]);
});

Deno.test("what is not a plain name is refused", () => {
  for (
    const text of [
      "",
      ".",
      "..",
      ".example.com",
      "example..com",
      "example.com..",
      "-a.example.com",
      "a-.example.com",
      "*.example.com",
      "exa mple.com",
      "example.com\t",
      "example.com\n",
      "example.com\0.evil.com",
      "example.com%00.evil.com",
      "ex%61mple.com",
      "user@example.com",
      "example.com/",
      "example.com\\",
      "example.com#a",
      "example.com?a",
      "exam!ple.com",
      "xn--a.example",
      "a".repeat(64) + ".example.com",
      "a.".repeat(130) + "example.com",
      "a".repeat(5_000),
    ]
  ) assertEquals([text, canonicalHost(text)], [text, "bad_target"]);
});

Deno.test("an authority is a name and a port, and nothing else", () => {
  assertEquals(parseAuthority("Example.com.:443"), { host: "example.com", port: 443 });
  assertEquals(parseAuthority("example.com", 80), { host: "example.com", port: 80 });
  assertEquals(parseAuthority("example.com:65535"), { host: "example.com", port: 65_535 });
  for (
    const text of [
      "example.com",
      "example.com:",
      "example.com:0",
      "example.com:0443",
      "example.com:+443",
      "example.com: 443",
      "example.com:65536",
      "example.com:443x",
      "example.com:99999",
      ":443",
      "user:pass@example.com:443",
      "user@example.com:443",
      "example.com:443@evil.com:443",
      "https://example.com:443",
    ]
  ) assertEquals([text, typeof parseAuthority(text)], [text, "string"]);
  assertEquals(parseAuthority("[::1]:443"), "address_literal");
  assertEquals(parseAuthority("::1:443"), "address_literal");
  assertEquals(parseAuthority("127.0.0.1:443"), "address_literal");
  assertEquals(formatTarget({ host: "example.com", port: 80 }, 80), "example.com");
  assertEquals(formatTarget({ host: "example.com", port: 81 }, 80), "example.com:81");
});

Deno.test("a canonical name is its own canonical form, of letters, digits, hyphens, _ and dots", () => {
  fc.assert(
    fc.property(fc.oneof(fc.domain(), fc.string(), fc.string({ unit: "binary" }), fc.ipV4Extended()), (text) => {
      const found = canonicalHost(text);
      if (typeof found === "string") return;
      assertEquals(/^[a-z0-9._-]{1,253}$/.test(found.host), true);
      assertEquals(canonicalHost(found.host), found);
    }),
    { numRuns: 500 },
  );
});
