import { assertEquals, assertRejects } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import { load } from "../../tests/broker/settings/harness.ts";
import { loadSettings } from "./load.ts";
import { configText, seedHome } from "./seed.ts";
import { GROUPS, SETTING_PATHS } from "./settings.ts";

async function withHome(test: (home: string) => Promise<void>): Promise<void> {
  const home = await Deno.makeTempDir();
  try {
    await test(home);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}

const mode = (path: string) => (Deno.statSync(path).mode ?? 0) & 0o777;

Deno.test("seedHome() makes a directory of 0700 and files of 0600 that load to exactly the defaults", () =>
  withHome(async (home) => {
    const seeded = await seedHome(home);
    assertEquals(seeded.created, [`${home}/.taskd/config.yaml`, `${home}/.taskd/egress.yaml`]);
    assertEquals(seeded.kept, []);
    assertEquals([mode(`${home}/.taskd`), ...seeded.created.map(mode)], [0o700, 0o600, 0o600]);
    assertEquals([...Deno.readDirSync(`${home}/.taskd`)].length, 2);
    const env = () => undefined;
    const resolved = await loadSettings({ home, env });
    const unseeded = await loadSettings({ home, env, read: () => Promise.resolve(undefined) });
    assertEquals(resolved.settings, unseeded.settings);
    assertEquals([resolved.egress, resolved.hash], [unseeded.egress, unseeded.hash]);
    assertEquals([...new Set(resolved.sources.values())], ["default"]);
  }));

// conformance: b1.init b9.seeds
Deno.test("seedHome() overwrites nothing, writes what is missing, and closes the directory", () =>
  withHome(async (home) => {
    Deno.mkdirSync(`${home}/.taskd`, { mode: 0o755 });
    Deno.chmodSync(`${home}/.taskd`, 0o755);
    Deno.writeTextFileSync(`${home}/.taskd/config.yaml`, "task_budget_usd: 7\n");
    const seeded = await seedHome(home);
    assertEquals([seeded.kept, seeded.created], [[`${home}/.taskd/config.yaml`], [`${home}/.taskd/egress.yaml`]]);
    assertEquals(Deno.readTextFileSync(`${home}/.taskd/config.yaml`), "task_budget_usd: 7\n");
    assertEquals(mode(`${home}/.taskd`), 0o700);
    assertEquals((await seedHome(home)).created, []);
  }));

Deno.test("seedHome() leaves a dangling link as it is", () =>
  withHome(async (home) => {
    Deno.mkdirSync(`${home}/.taskd`);
    Deno.symlinkSync(`${home}/elsewhere.yaml`, `${home}/.taskd/config.yaml`);
    assertEquals((await seedHome(home)).kept, [`${home}/.taskd/config.yaml`]);
    assertEquals([...Deno.readDirSync(home)].map(({ name }) => name), [".taskd"]);
  }));

Deno.test("of several concurrent calls of seedHome() exactly one writes each file", () =>
  withHome(async (home) => {
    const all = await Promise.all(Array.from({ length: 8 }, () => seedHome(home)));
    assertEquals(all.flatMap(({ created }) => created).length, 2);
    assertEquals(Deno.readTextFileSync(`${home}/.taskd/config.yaml`), configText());
    assertEquals([...Deno.readDirSync(`${home}/.taskd`)].length, 2);
  }));

Deno.test("seedHome() fails where a file stands in the directory's place", () =>
  withHome(async (home) => {
    Deno.writeTextFileSync(`${home}/.taskd`, "");
    await assertRejects(() => seedHome(home), TaskdError, "Cannot make the directory");
  }));

Deno.test("uncommenting every default of the seeded file changes nothing", async () => {
  const config = configText().replaceAll(/^( *)#(?=[a-z_]+:)/gm, "$1");
  const { settings, sources, hash } = await load({ config });
  assertEquals(settings, (await load()).settings);
  assertEquals(hash, (await load()).hash);
  assertEquals([...sources].filter(([, source]) => source === "config.yaml").map(([path]) => path), [...SETTING_PATHS]);
});

Deno.test("every example of the seeded file can be uncommented", async () => {
  const examples = configText().replaceAll(/^( *)# {5}/gm, "$1");
  const { sources, settings } = await load({ config: examples });
  assertEquals([...sources].filter(([, source]) => source === "config.yaml").length, 11);
  assertEquals(settings.profiles.repos["git.example.com/owner/repo"]?.setup, [["npm", "ci"]]);
});

Deno.test("the seeded file has every group with its settings below it", () => {
  const lines = configText().split("\n");
  for (const group of GROUPS) {
    const at = lines.indexOf(`${group}:`);
    assertEquals(lines[at + 1]?.startsWith("  # "), true, group);
  }
});
