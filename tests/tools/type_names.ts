/**
 * One type name, one meaning: fails when two product files export an interface, a class, a type or an enum of one name.
 *
 *     deno run --allow-read --allow-run=git tests/tools/type_names.ts
 */

const ROOT = new URL("../../", import.meta.url).pathname;
const DECLARATION =
  /^export (?:declare )?(?:abstract )?(?:interface|class|type|enum) (\w+)(?= *[<={]| extends| implements)/gm;

/** The client's declarations: written from the types that it is about, under their names; a test compares. */
const GENERATED = "broker/client/mod.d.mts";

/** Product files, as paths from the root of the repository. */
async function productFiles(): Promise<string[]> {
  const { stdout } = await new Deno.Command("git", {
    args: ["ls-files", "--cached", "--others", "--exclude-standard", "lib", "daemon", "cli", "broker", "mod.ts"],
    cwd: ROOT,
  }).output();
  return new TextDecoder().decode(stdout).split("\n").filter((path) =>
    /\.m?ts$/.test(path) && !/_(?:test|testing)\.ts$/.test(path) && path !== GENERATED
  );
}

/** The names with more than one home, sorted, each with its files. */
export async function sharedTypeNames(): Promise<[name: string, files: string[]][]> {
  const homes = new Map<string, Set<string>>();
  for (const path of await productFiles()) {
    for (const [, name] of (await Deno.readTextFile(ROOT + path)).matchAll(DECLARATION)) {
      homes.set(name!, (homes.get(name!) ?? new Set()).add(path));
    }
  }
  return [...homes].filter(([, files]) => files.size > 1)
    .map(([name, files]): [string, string[]] => [name, [...files]])
    .sort(([a], [b]) => a < b ? -1 : 1);
}

if (import.meta.main) {
  const shared = await sharedTypeNames();
  for (const [name, files] of shared) console.error(`${name}: ${files.join(", ")}`);
  if (shared.length > 0) console.error(`${shared.length} type names have more than one home`);
  Deno.exit(shared.length > 0 ? 1 : 0);
}
