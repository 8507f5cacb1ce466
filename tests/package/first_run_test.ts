import { assert, assertEquals, assertMatch } from "@std/assert";
import { launchFlags } from "../../cli/table/launch_flags.ts";
import test_config from "../deno.json" with { type: "json" };
import { packagesIn, ROOT, run } from "./_publish_and_run.ts";

/** What a first run may download at most. */
const MAX_PACKAGES = 10;

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

/** Every npm specifier that a module of the program names, for its code or for its types: what `deno install` fetches. */
async function npmSpecifiers(): Promise<string[]> {
  const { stdout } = await run(Deno.execPath(), ["info", "--json", "cli/main.ts"], { cwd: ROOT.pathname });
  const { modules } = JSON.parse(stdout) as {
    modules: { dependencies?: { code?: { specifier?: string }; type?: { specifier?: string } }[] }[];
  };
  const named = modules.flatMap(({ dependencies = [] }) =>
    dependencies.flatMap(({ code, type }) => [code?.specifier ?? "", type?.specifier ?? ""])
  );
  return [...new Set(named.filter((specifier) => specifier.startsWith("npm:")))];
}

Deno.test("no module names a package, or a type of one, that is loaded late", async () => {
  const names = (await npmSpecifiers()).map((specifier) => /^npm:((?:@[^/]+\/)?[^@/]+)@/.exec(specifier)?.[1]);
  assertEquals(
    [...new Set(names)].sort(),
    // deno-std and get-east-asian-width are of the stand-ins for JSR.
    [
      "@types/picomatch",
      "deno-std",
      "get-east-asian-width",
      "picomatch",
      "pprof-format",
      "prom-client",
      "valibot",
      "yaml",
    ],
  );
});
