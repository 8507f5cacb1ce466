import { assert, assertEquals } from "@std/assert";

/** What `deno info --json` says of a module. */
interface InfoModule {
  specifier: string;
  dependencies?: { code?: { specifier: string } }[];
}

/** Every module that the runtime reads before the first line of `entry` runs: what an import may load at any time counts. */
async function modulesReadFor(entry: string): Promise<Set<string>> {
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["info", "--json", entry] }).output();
  const { modules } = JSON.parse(new TextDecoder().decode(stdout)) as { modules: InfoModule[] };
  const known = new Map(modules.map((module) => [module.specifier, module]));
  const read = new Set<string>();
  for (const queue = [entry]; queue.length > 0;) {
    const specifier = queue.pop()!;
    if (read.has(specifier)) continue;
    read.add(specifier);
    // Types alone are not read.
    for (const { code } of known.get(specifier)?.dependencies ?? []) if (code !== undefined) queue.push(code.specifier);
  }
  return read;
}

const url = (path: string) => import.meta.resolve(`../../../${path}`);

Deno.test("a call's first thread loads only modules of inline commands, and neither engine", async () => {
  const read = await modulesReadFor(url("cli/main.ts"));
  const commands = [...read].filter((specifier) => specifier.startsWith(url("cli/commands/")));
  const inline = ["completion.ts", "help_text.ts", "program.ts"];
  assertEquals(commands.sort(), inline.map((name) => url(`cli/commands/${name}`)));
  assert(read.has(url("cli/table/commands.ts")));
  for (const path of ["lib/store/store.ts", "lib/client/client.ts", "broker/serve.ts", "broker/client/client.ts"]) {
    assert(!read.has(url(path)), path);
  }
});

Deno.test("a command's Worker reads no engine that the command does not use", async () => {
  const foreign = {
    store: ["broker/serve.ts", "broker/client/client.ts"],
    broker: ["broker/serve.ts", "lib/store/store.ts"],
  };
  for (const [worker, paths] of Object.entries(foreign)) {
    const read = await modulesReadFor(url(`cli/run/workers/${worker}.ts`));
    assert(read.has(url(`cli/run/modules/${worker}.ts`)));
    for (const path of paths) assert(!read.has(url(path)), `${worker}: ${path}`);
  }
});

Deno.test("text beside modules is read only by commands that may import at run time", async () => {
  // From a registry, text is not read ahead as modules are: a command reads it with its own permissions.
  for (const entry of ["cli/main.ts", ...["broker", "local", "store"].map((name) => `cli/run/workers/${name}.ts`)]) {
    const texts = [...await modulesReadFor(url(entry))].filter((specifier) =>
      !/\.(?:[cm]?[jt]s|json)$|^(?:npm|node|jsr|data):/.test(specifier)
    );
    assertEquals(texts.filter((text) => !text.startsWith(url("broker/")) && !text.startsWith(url("cli/redteam/"))), []);
  }
});
