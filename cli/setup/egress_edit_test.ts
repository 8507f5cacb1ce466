import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { parseEgress } from "../../broker/settings/egress_file.ts";
import { InvalidConfig } from "../../broker/settings/invalid_config.ts";
import { allowInEgress } from "./egress_edit.ts";

const allow = (text: string, host: string, port = 443) => allowInEgress("egress.yaml", text, { host, port });

Deno.test("allowInEgress() adds a host and keeps comments and what is listed", () => {
  const text = `# Ours.
allow:
  # Packages.
  - host: packages.example.com
    ports: [443]
  - { host: "*.cdn.example.com", ports: [443] } # mirrors
`;
  const changed = allow(text, "api.example.com", 8443);
  assertEquals(parseEgress("egress.yaml", changed).entries, [
    { host: "packages.example.com", ports: [443] },
    { host: "*.cdn.example.com", ports: [443] },
    { host: "api.example.com", ports: [8443] },
  ]);
  for (const comment of ["# Ours.", "# Packages.", "# mirrors"]) assertStringIncludes(changed, comment);
});

Deno.test("allowInEgress() adds a port to a listed host, and leaves what is allowed already", () => {
  const text = "allow:\n  - host: api.example.com # the API\n";
  const changed = allow(text, "api.example.com", 80);
  assertEquals(parseEgress("egress.yaml", changed).entries, [{ host: "api.example.com", ports: [80, 443] }]);
  assertStringIncludes(changed, "# the API");
  assertEquals(allow(text, "api.example.com"), text);
  assertEquals(allow(changed, "api.example.com", 80), changed);
});

Deno.test("allowInEgress() begins a list where there is none", () => {
  for (const text of ["", "allow:\n", "allow: []\n", "# Nothing yet.\n"]) {
    const changed = allow(text, "api.example.com");
    assertEquals(parseEgress("egress.yaml", changed).entries, [{ host: "api.example.com", ports: [443] }], text);
    assertEquals(parseEgress("egress.yaml", allow(changed, "b.example.com")).entries.length, 2);
  }
});

Deno.test("allowInEgress() refuses what may not be listed, and a file that cannot be used", () => {
  assertThrows(() => allow("", "localhost"), InvalidConfig);
  assertThrows(() => allow("", "printer.local"), InvalidConfig);
  assertThrows(() => allow("allow: 1\n", "api.example.com"), InvalidConfig);
});
