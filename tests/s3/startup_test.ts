import { assert, assertEquals } from "@std/assert";

interface ModuleGraph {
  roots: string[];
  redirects: Record<string, string>;
  modules: {
    specifier: string;
    dependencies?: { isDynamic?: boolean; code?: { specifier: string }; npmPackage?: string }[];
  }[];
}

/** Specifiers of everything that is loaded with a module, what it may load later left out. */
async function loadedWith(path: string): Promise<string[]> {
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["info", "--json", path] }).output();
  const graph: ModuleGraph = JSON.parse(new TextDecoder().decode(stdout));
  const modules = new Map(graph.modules.map((module) => [module.specifier, module]));
  const loaded = new Set<string>();
  const visit = (specifier: string): void => {
    const at = graph.redirects[specifier] ?? specifier;
    if (loaded.has(at)) return;
    loaded.add(at);
    for (const { isDynamic, code } of modules.get(at)?.dependencies ?? []) {
      if (!isDynamic && code) visit(code.specifier);
    }
  };
  for (const root of graph.roots) visit(root);
  return [...loaded];
}

const WORKERS = ["broker", "local", "store"].map((name) => `cli/run/workers/${name}.ts`);

Deno.test("nothing of S3 is loaded before a bucket store is opened", async () => {
  const root = new URL("../../", import.meta.url).pathname;
  for (const entry of ["mod.ts", "cli/main.ts", "daemon/worker.ts", ...WORKERS]) {
    const loaded = await loadedWith(`${root}${entry}`);
    assert(loaded.length > 1, entry);
    assertEquals(loaded.filter((specifier) => /aws-sdk|\/_?s3(_|\.ts)(?!location)/.test(specifier)), [], entry);
  }
  // The test would see what it searches for.
  assert((await loadedWith(`${root}tests/support/s3_server.ts`)).some((specifier) => specifier.includes("aws-sdk")));
});
