import { assert, assertEquals, assertMatch } from "@std/assert";
import { launchFlags } from "../../cli/table/launch_flags.ts";
import test_config from "../deno.json" with { type: "json" };
import { ROOT, run } from "./_places.ts";

/** What a first run may download at most. */
const MAX_PACKAGES = 10;

/** Packages in a cache: folders that have versions in them. */
function packagesIn(cache: string): string[] {
  const registry = `${cache}/npm/registry.npmjs.org`;
  const names = [...Deno.readDirSync(registry)].flatMap(({ name }) =>
    name.startsWith("@") ? [...Deno.readDirSync(`${registry}/${name}`)].map((each) => `${name}/${each.name}`) : [name]
  );
  return names.filter((name) => [...Deno.readDirSync(`${registry}/${name}`)].some(({ isDirectory }) => isDirectory));
}

Deno.test("a first run with an empty cache downloads few packages, and none of the tests'", async () => {
  const cache = await Deno.makeTempDir({ prefix: "first-run-" });
  try {
    const words = ["run", ...launchFlags(), new URL("cli/main.ts", ROOT).pathname, "version"];
    const { code, stdout, stderr } = await run(Deno.execPath(), words, { env: { DENO_DIR: cache } });
    assertEquals(code, 0, stderr);
    assertMatch(stdout, /^taskd /);
    const packages = packagesIn(cache);
    assert(packages.length <= MAX_PACKAGES, packages.join(" "));
    assertEquals(packages.filter((name) => name in test_config.imports), []);
  } finally {
    await Deno.remove(cache, { recursive: true });
  }
});
