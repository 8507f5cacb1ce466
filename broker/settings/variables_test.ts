import { assertEquals } from "@std/assert";
import { apiKey } from "./keys.ts";
import { loadSettings } from "./load.ts";
import { configurationVariables } from "./variables.ts";

Deno.test("configuration and keys are read from these variables and no others", async () => {
  const asked = new Set<string>();
  const env = (name: string) => {
    asked.add(name);
    return undefined;
  };
  await loadSettings({ home: "/home/ada", uid: 1, env, read: () => Promise.resolve(undefined) });
  for (const lane of ["vendor_a", "vendor_b", "vendor_c", "compat"] as const) apiKey(lane, { env, file: new Map() });
  assertEquals([...asked, "HOME"].sort(), configurationVariables().sort());
});
