import { assertEquals } from "@std/assert";
import { apiKey } from "./keys.ts";
import { loadSettings } from "./load.ts";
import { configurationVariables } from "./environment_variables.ts";

Deno.test("loading reads exactly the variables of configurationVariables()", async () => {
  const asked = new Set<string>();
  const env = (name: string) => {
    asked.add(name);
    return undefined;
  };
  await loadSettings({ home: "/home/ada", uid: 1, env, read: () => Promise.resolve(undefined) });
  for (const lane of ["vendor_a", "vendor_b", "vendor_c", "compat"] as const) apiKey(lane, { env, file: new Map() });
  const of_parser = ["LOG_STREAM", "LOG_TOKENS"];
  assertEquals([...asked, "HOME", ...of_parser].sort(), configurationVariables().sort());
});

Deno.test("a program with permission for these variables alone can load the files", async () => {
  const home = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${home}/.taskd`, { mode: 0o700 });
    await Deno.writeTextFile(`${home}/.taskd/config.yaml`, "log_json: true\n", { mode: 0o600 });
    await Deno.writeTextFile(`${home}/.taskd/egress.yaml`, "allow: []\n", { mode: 0o600 });
    const load = new URL("./load.ts", import.meta.url).href;
    const program = `const { loadSettings } = await import(${JSON.stringify(load)});
      const env = (name) => Deno.env.get(name);
      console.log((await loadSettings({ home: ${JSON.stringify(home)}, env, uid: 1 })).settings.log_json);`;
    await Deno.writeTextFile(`${home}/program.ts`, program);
    const config = new URL("../../deno.json", import.meta.url).pathname;
    const args = [
      "run",
      "--no-prompt",
      "--no-check",
      "--config",
      config,
      "--allow-read",
      "--allow-import",
      "--allow-sys=uid",
    ]
      .concat(`--allow-env=${configurationVariables().join(",")}`, `${home}/program.ts`);
    const { stdout, stderr } = await new Deno.Command(Deno.execPath(), { args }).output();
    assertEquals(new TextDecoder().decode(stdout), "true\n", new TextDecoder().decode(stderr));
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});
