/**
 * A stand-in for what `deno compile` makes, for machines that cannot have its base program. Like a compiled program it is
 * one executable that takes no flags of deno, `Deno.execPath()` is itself, and it has the modules and packages that the
 * compile task embeds and no others: the module graph of the entry and of each `--include`, copied to an empty folder.
 */

import { dirname, join } from "node:path";
import config from "../../deno.json" with { type: "json" };
import { ROOT, run } from "./_publish_and_run.ts";

/** Runs before the first line of every thread. */
const PRELUDE = (program: string) => `
Object.defineProperty(Deno, "execPath", { value: () => ${JSON.stringify(program)} });
Object.defineProperty(Deno, "build", { value: { ...Deno.build, standalone: true } });
`;

/** The part of `deno info --json` that is used. */
interface Graph {
  roots: string[];
  redirects: Record<string, string>;
  modules: { specifier: string; npmPackage?: string; dependencies?: { code?: { specifier: string } }[] }[];
  npmPackages: Record<string, { name: string; version: string; dependencies: string[] }>;
}

/** What compiling embeds for one root: local files, and folders of the npm cache. */
async function embeddedFor(root: string): Promise<{ files: Set<string>; packages: Set<string> }> {
  const { stdout, stderr } = await run(Deno.execPath(), ["info", "--json", root], { cwd: ROOT.pathname });
  if (stdout === "") throw new Error(stderr);
  const { roots, redirects, modules, npmPackages } = JSON.parse(stdout) as Graph;
  const known = new Map(modules.map((module) => [module.specifier, module]));
  const [files, packages, seen] = [new Set<string>(), new Set<string>(), new Set<string>()];
  const addPackage = (id: string) => {
    const found = npmPackages[id];
    if (found === undefined || packages.has(`${found.name}/${found.version}`)) return;
    packages.add(`${found.name}/${found.version}`);
    found.dependencies.forEach(addPackage);
  };
  for (const queue = [...roots]; queue.length > 0;) {
    const named = queue.pop()!;
    const specifier = redirects[named] ?? named;
    if (seen.has(specifier)) continue;
    seen.add(specifier);
    const module = known.get(specifier);
    if (module?.npmPackage !== undefined) addPackage(module.npmPackage);
    if (specifier.startsWith("file:")) files.add(specifier.slice(ROOT.href.length));
    // Types alone are not embedded.
    for (const { code } of module?.dependencies ?? []) if (code !== undefined) queue.push(code.specifier);
  }
  return { files, packages };
}

/** Makes the executable in `base` by the compile task of deno.json, and returns its path. */
export async function compileStandIn(base: string): Promise<string> {
  const words = config.tasks.compile.command.split(" ").slice(2);
  const entry = words.at(-1)!;
  const included = words.flatMap((word, index) => words[index - 1] === "--include" ? [word] : []);
  const flags = words.slice(0, words.indexOf("--include"));
  const program = join(base, "taskd");
  const [tree, cache] = [join(base, "embedded"), join(base, "packages")];
  const { npmCache } = JSON.parse((await run(Deno.execPath(), ["info", "--json"])).stdout) as { npmCache: string };
  const registry = "registry.npmjs.org";
  for (const root of [entry, ...included]) {
    const { files, packages } = await embeddedFor(root);
    for (const file of files) await copy(join(ROOT.pathname, file), join(tree, file));
    for (const each of packages) {
      await copy(join(npmCache, registry, each), join(cache, "npm", registry, each));
    }
  }
  // A compiled program knows which versions there are; the packages themselves are those above.
  const indexes = `cp --parents $(find . -maxdepth 3 -name registry.json) '${cache}/npm/${registry}'`;
  const listed = await run("/bin/sh", ["-c", indexes], { cwd: join(npmCache, registry) });
  if (listed.code !== 0) throw new Error(listed.stderr);
  await Deno.copyFile(new URL("deno.lock", ROOT), join(base, "deno.lock"));
  const prelude = join(tree, "lib/prelude.js");
  await Deno.writeTextFile(prelude, PRELUDE(program));
  for (const thread of [entry, ...included.filter((module) => module.endsWith(".ts"))]) {
    const path = join(tree, thread);
    await Deno.writeTextFile(path, `import "file://${prelude}";\n${await Deno.readTextFile(path)}`);
  }
  const members = config.workspace.filter((member) => member.startsWith("./std/"));
  for (const member of members) {
    await copy(join(ROOT.pathname, member, "deno.json"), join(tree, member, "deno.json"));
  }
  const { imports, unstable, version } = config;
  await Deno.writeTextFile(join(tree, "deno.json"), JSON.stringify({ version, imports, unstable, workspace: members }));
  // What it was started in stays what its children see, so the cache is named here alone.
  const script = `#!/bin/sh
DENO_DIR='${cache}' exec '${Deno.execPath()}' run --quiet --lock='${base}/deno.lock' --cached-only --no-remote ${
    flags.join(" ")
  } '${tree}/${entry}' "$@"
`;
  await Deno.writeTextFile(program, script, { mode: 0o755 });
  return program;
}

async function copy(from: string, to: string): Promise<void> {
  await Deno.mkdir(dirname(to), { recursive: true });
  const { code, stderr } = await run("/bin/cp", ["-r", "--no-target-directory", from, to]);
  if (code !== 0) throw new Error(stderr);
}
