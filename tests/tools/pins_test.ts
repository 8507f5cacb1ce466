import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { walk } from "@std/fs/walk";
import { join } from "@std/path/join";
import { MCP_SDK } from "../../cli/mcp/sdk.ts";
import config from "../../deno.json" with { type: "json" };
import test_config from "../deno.json" with { type: "json" };

const ROOT = join(import.meta.dirname!, "../..");
const DENO_VERSION = "2.9.6";

function text(path: string): Promise<string> {
  return Deno.readTextFile(join(ROOT, path));
}

/** Every `deno@x.y.z` and `DENO_VERSION` in a text. */
function denoVersions(source: string): Set<string> {
  return new Set([...source.matchAll(/(?:deno@|DENO_VERSION[:=] ?v?)(\d+\.\d+\.\d+)/g)].map((match) => match[1]!));
}

Deno.test("one version of Deno is named everywhere", async () => {
  for (const path of ["README.md", "docs/development.md", ".ci/run", ".github/workflows/ci.yml"]) {
    assertEquals(denoVersions(await text(path)), new Set([DENO_VERSION]), path);
  }
});

Deno.test("the README names the commands that CI runs", async () => {
  const readme = await text("README.md");
  const ci = await text(".ci/run");
  for (const command of ["run -A cli/main.ts demo", "task test"]) {
    assertStringIncludes(readme, `npx -y deno@${DENO_VERSION} ${command}`);
    assertStringIncludes(ci, `npx -y "deno@$DENO_VERSION" ${command}`);
  }
});

Deno.test("every package is pinned exactly", () => {
  for (const [name, specifier] of Object.entries({ ...config.imports, ...test_config.imports })) {
    assert(/^(npm|jsr):(@[a-z0-9-]+\/)?[a-z0-9-]+@\d+\.\d+\.\d+$/.test(specifier), `${name}: ${specifier}`);
  }
});

Deno.test("a package that is named outside deno.json has the version of its import map", async () => {
  for (const { name } of Deno.readDirSync(join(ROOT, "lib/packages"))) {
    const specifiers = [...(await text(join("lib/packages", name))).matchAll(/"(npm:[^"]+)"/g)].map((match) =>
      match[1]!
    );
    assert(specifiers.length > 0, name);
    for (const specifier of specifiers) assert(Object.values(config.imports).includes(specifier), specifier);
  }
  assertEquals(config.imports["@modelcontextprotocol/sdk"], MCP_SDK);
});

/** The packages that the project is to use, each for what it is made for. */
const CHOSEN_PACKAGES: readonly string[] = [
  ...["cli", "yaml", "http", "path", "fs", "assert", "crypto", "csv"].map((name) => `@std/${name}`),
  "@aws-sdk/client-s3",
  "picomatch",
];

/** The modules of each chosen package that the product imports; of @std/assert those that its tests import. */
async function importedModules(): Promise<Map<string, Set<string>>> {
  const modules = new Map(CHOSEN_PACKAGES.map((name) => [name, new Set<string>()]));
  for (const room of ["lib", "daemon", "broker", "cli", "tests"]) {
    for await (const { path } of walk(join(ROOT, room), { includeDirs: false, match: [/\.ts$/] })) {
      const isTest = room === "tests" || /_test\.ts$|_testing\.ts$/.test(path);
      const code = (await Deno.readTextFile(path)).replaceAll(/^\s*(?:\/\*|\*|\/\/).*$/gm, "");
      for (const [, specifier] of code.matchAll(/(?:from|import\(|string =)\s*"(?:npm:)?([^"]+)"/g)) {
        const name = CHOSEN_PACKAGES.find((each) => new RegExp(`^${each}(?=[@/]|$)`).test(specifier!));
        if (name === undefined || isTest !== (name === "@std/assert")) continue;
        modules.get(name)!.add(/^[^/]*(?:@std|@aws-sdk)\/[^/]+\/(.+)$/.exec(specifier!)?.[1] ?? "the root");
      }
    }
  }
  return modules;
}

Deno.test("the nine chosen packages are used as the table of docs/development.md says", async () => {
  const rows = [...(await text("docs/development.md")).matchAll(/^\| `([^`]+)` +\| ([^|]+?) +\| [^|]+ \|$/gm)];
  const table = rows.filter(([, name]) => CHOSEN_PACKAGES.includes(name!)).map(([, name, modules]) => [
    name!,
    modules!.replaceAll("`", "").split(", "),
  ]);
  const imported = [...await importedModules()].map(([name, modules]) => [name, [...modules].sort()] as const);
  assertEquals(Object.fromEntries(table), Object.fromEntries(imported));
  for (const name of CHOSEN_PACKAGES) {
    const specifier = (config.imports as Record<string, string>)[name]!;
    assert(specifier.startsWith(name.startsWith("@std/") ? `jsr:${name}@` : `npm:${name}@`), specifier);
  }
});

Deno.test("what stands in for a chosen package is where docs/development.md says", async () => {
  const page = await text("docs/development.md");
  const tables = page.slice(page.indexOf("## Packages"), page.indexOf("## Conventions"));
  for (const [, path] of tables.matchAll(/`((?:lib|cli|broker)\/[\w/]+\.ts)`/g)) {
    assert((await Deno.stat(join(ROOT, path!))).isFile, path);
  }
});

Deno.test("every @std package has a stand-in of the very version that is imported", async () => {
  const standard = Object.entries(config.imports).filter(([name]) => name.startsWith("@std/"));
  const stand_ins = config.workspace.filter((member) => member.startsWith("./std/"));
  assertEquals(stand_ins, standard.map(([name]) => name.replace("@std/", "./std/")));
  for (const [name, specifier] of standard) {
    const standIn = JSON.parse(await text(join(name.replace("@std/", "std/"), "deno.json")));
    assertEquals(`jsr:${standIn.name}@${standIn.version}`, specifier);
  }
});
