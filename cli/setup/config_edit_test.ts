import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { parse } from "@std/yaml/parse";
import { TaskdError } from "../../lib/errors.ts";
import { configText } from "../../broker/settings/seed.ts";
import type { SettingPath } from "../../broker/settings/settings.ts";
import { changeConfig, type PlainValue } from "./config_edit.ts";

const change = (text: string, changes: Record<string, PlainValue>) =>
  changeConfig("config.yaml", text, new Map(Object.entries(changes) as [SettingPath, PlainValue][]));

/** Lines of one text that the other does not have. */
function differing(before: string, after: string): string[] {
  const known = new Set(before.split("\n"));
  return after.split("\n").filter((line) => !known.has(line));
}

Deno.test("changeConfig() sets a value at its commented default and changes no other line", () => {
  const seeded = configText();
  const changed = change(seeded, { runtime: "podman", "compat.base_url": "http://localhost:11434" });
  assertEquals(differing(seeded, changed), ["runtime: podman", "  base_url: http://localhost:11434"]);
  assertEquals(changed.split("\n").length, seeded.split("\n").length);
  const config = parse(changed) as Record<string, unknown>;
  assertEquals(config.runtime, "podman");
  assertEquals(config.compat, { base_url: "http://localhost:11434" });
});

Deno.test("changeConfig() is idempotent", () => {
  const once = change(configText(), { runtime: "deno", "compat.model": "m" });
  assertEquals(change(once, { runtime: "deno", "compat.model": "m" }), once);
});

Deno.test("changeConfig() replaces a value and keeps the comment behind it", () => {
  const text = "# mine\nruntime: docker # because\n\nci:\n  watch: true\n";
  assertEquals(change(text, { runtime: "podman" }), "# mine\nruntime: podman # because\n\nci:\n  watch: true\n");
});

Deno.test("changeConfig() adds a setting to an existing group and to a missing one", () => {
  const text = "compat:\n    model: a\n";
  assertEquals(
    change(text, { "compat.base_path": "/v1" }),
    "compat:\n    base_path: /v1\n    model: a\n",
  );
  assertEquals(change("runtime: deno", { "compat.model": "a" }), "runtime: deno\ncompat:\n  model: a\n");
  assertEquals(change("", { default_agent: "agent_d" }), "default_agent: agent_d\n");
});

Deno.test("changeConfig() changes a group in braces", () => {
  assertEquals(parse(change("compat: { model: a } # mine\n", { "compat.base_path": "/v1" })), {
    compat: { model: "a", base_path: "/v1" },
  });
  assertStringIncludes(change("compat: { model: a } # mine\n", { "compat.base_path": "/v1" }), "# mine");
});

Deno.test("changeConfig() quotes text that YAML would read as another value", () => {
  assertEquals(parse(change("", { "compat.model": "true" })), { compat: { model: "true" } });
  assertEquals(parse(change("", { "compat.model": "a: b # c" })), { compat: { model: "a: b # c" } });
  assertEquals(parse(change("", { "compat.model": "x\ninjected: 1" })), { compat: { model: "x\ninjected: 1" } });
});

Deno.test("changeConfig() refuses a file that is not YAML and a group that is not a map", () => {
  assertThrows(() => change("a: [", { runtime: "deno" }), TaskdError, "not YAML");
  assertThrows(() => change("compat: [1]\n", { "compat.model": "m" }), TaskdError, "not understood");
});
