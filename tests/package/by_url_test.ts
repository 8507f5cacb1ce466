import { assertEquals } from "@std/assert";
import { cacheWithNpm, ROOT, run, serveFiles } from "./_publish_and_run.ts";

/** Every module of the library, without its tests. */
function libraryModules(folder = "lib/"): string[] {
  return [...Deno.readDirSync(new URL(folder, ROOT))].flatMap(({ name, isDirectory }) => {
    if (isDirectory) return libraryModules(`${folder}${name}/`);
    return /(?<!_test|_testing|conformance|faulty)\.ts$/.test(name) ? [folder + name] : [];
  });
}

Deno.test("the library is imported by URL, every module of it, without any configuration", async () => {
  const base = await Deno.makeTempDir({ prefix: "by-url-" });
  try {
    await using server = serveFiles((path) => Deno.readFile(new URL(`.${path}`, ROOT)).catch(() => undefined));
    const origin = `http://127.0.0.1:${server.addr.port}/`;
    const imports = ["mod.ts", ...libraryModules()].map((path) => `import "${origin}${path}";`);
    // Opens a store, and sees which word was probably meant: that module is loaded when it is needed.
    const work = `import { openStore, parseAddress } from "${origin}mod.ts";
      const store = await openStore(Deno.args[0]);
      await store.create("shop");
      await store.fork(parseAddress("shop"), "try");
      console.log((await store.branches()).length, await store.fork(parseAddress("shop@trry"), "b").catch((error) => error.hint.split("?")[0] + "?"));`;
    await Deno.writeTextFile(`${base}/main.ts`, [...imports, work].join("\n"));
    const env = { DENO_DIR: await cacheWithNpm(base) };
    const flags = ["--no-prompt", `--allow-import=127.0.0.1:${server.addr.port}`, "-RWSE", "--allow-run"];
    const ran = await run(Deno.execPath(), ["run", ...flags, `${base}/main.ts`, `${base}/store`], { env, cwd: base });
    assertEquals([ran.code, ran.stdout], [0, "2 Did you mean shop@try?\n"], ran.stderr);
  } finally {
    await Deno.remove(base, { recursive: true });
  }
});
