import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { EgressRules } from "../egress/egress_rules.ts";
import { parseEgress } from "./egress_file.ts";
import { InvalidConfig } from "./invalid_config.ts";

const refusal = (text: string) => assertThrows(() => parseEgress("egress.yaml", text), InvalidConfig);

Deno.test("parseEgress() reads names, wildcards and ports, and brings them to one form", () => {
  const list = parseEgress(
    "egress.yaml",
    `
allow:
  - host: packages.example.com
  - host: "*.CDN.Example.com."
    ports: [8443, 443, 443]
  - { host: bücher.example, ports: [80] }
`,
  );
  assertEquals(list, {
    entries: [
      { host: "packages.example.com", ports: [443] },
      { host: "*.cdn.example.com", ports: [443, 8443] },
      { host: "xn--bcher-kva.example", ports: [80] },
    ],
  });
  assertEquals(new EgressRules(list).match({ host: "a.cdn.example.com", port: 8443 }), { listed: "wildcard" });
});

Deno.test("an empty list allows nothing", () => {
  for (const text of ["", "allow:", "allow: []", "# allow: everything"]) {
    assertEquals(parseEgress("egress.yaml", text), { entries: [] });
  }
});

Deno.test("a host that is not a name of the public internet is refused at its place", () => {
  for (
    const host of [
      "''",
      "'*'",
      "'*.'",
      "'*.com'",
      "'*.*.example.com'",
      "a*.example.com",
      "https://example.com",
      "example.com/path",
      "example.com:443",
      "user@example.com",
      "'exa mple.com'",
      "example..com",
      "-a.example.com",
      '"a\\0.example.com"',
      '"example.com\\n"',
      "example.com%00",
      "127.0.0.1",
      "10.0.0.0/8",
      "192.168.66.1",
      "8.8.8.8",
      "0x7f000001",
      "2130706433",
      "0177.0.0.1",
      "127.1",
      "'::1'",
      "'[::1]'",
      "'[2001:db8::1]'",
      "'::ffff:10.0.0.1'",
      "'64:ff9b::a00:1'",
      "169.254.169.254",
      "'１２７.0.0.1'",
      "localhost",
      "api.localhost",
      "metadata.google.internal",
      "printer.local",
      "router.home.arpa",
      "intranet",
      "12",
      "[a]",
    ]
  ) {
    const error = refusal(`allow:\n  - host: ${host}\n`);
    assertEquals([host, error.code, error.setting.startsWith("allow[0].host")], [host, "invalid_config", true]);
    assertEquals(error.place, { file: "egress.yaml", line: 2, column: 11 }, host);
  }
});

Deno.test("a URL instead of a host name is refused with a hint of the name", () => {
  assertEquals(refusal("allow: [{ host: 'https://Example.com/x' }]").hint, "Write example.com");
  assertEquals(refusal("allow: [{ host: 'example.com/x' }]").hint, "Write example.com");
});

Deno.test("wrong ports, keys and shapes are refused", () => {
  for (const ports of ["[]", "443", "[0]", "[65536]", "[-1]", "[443.5]", "['443']", "['1-1024']", "[[443]]", "'*'"]) {
    assertStringIncludes(refusal(`allow: [{ host: a.example, ports: ${ports} }]`).message, "port");
  }
  for (
    const text of [
      "- a.example",
      "allow: a.example",
      "allow: [a.example]",
      "allow: [{ ports: [443] }]",
      "allow: [{ host: a.example }, { host: A.example }]",
      "allow: [{ host: a.example, port: 443 }]",
      "alow: []",
      "deny: []",
      "allow: [{ host: &a a.example }, { host: *a }]",
    ]
  ) refusal(text);
  assertEquals(refusal("alow: []").hint, "Did you mean allow? Known here: allow");
});
