import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { COMMANDS } from "../../cli/table/commands.ts";
import { exists } from "../../lib/fs.ts";
import { inParallel } from "../../lib/in_parallel.ts";
import { makePlace } from "./support/taskd.ts";

/** The words of each command that works on one store; a row here for every one in the table. */
const CALLS: Readonly<Record<string, { words: string[]; makes?: true }>> = {
  create: { words: ["create", "shop"], makes: true },
  checkout: { words: ["checkout", "shop"] },
  path: { words: ["path", "shop"] },
  fork: { words: ["fork", "shop", "try"] },
  promote: { words: ["promote", "shop@try", "--onto", "main"] },
  merge: { words: ["merge", "shop@try", "--into", "main"] },
  revert: { words: ["revert", "shop"] },
  reset: { words: ["reset", "shop@try"] },
  destroy: { words: ["destroy", "shop@try"] },
  touch: { words: ["touch", "shop"] },
  protect: { words: ["protect", "shop"] },
  unprotect: { words: ["unprotect", "shop"] },
  checkpoint: { words: ["checkpoint", "shop", "v1"] },
  rollback: { words: ["rollback", "shop", "--to", "v1"] },
  compact: { words: ["compact", "shop"] },
  export: { words: ["export", "shop", "out.db"] },
  log: { words: ["log", "shop"] },
  diff: { words: ["diff", "shop", "shop@try"] },
  gc: { words: ["gc"] },
  verify: { words: ["verify", "--all"] },
  repair: { words: ["repair", "--all"] },
  undo: { words: ["undo", "shop"] },
  status: { words: ["status"] },
  branches: { words: ["branches"] },
  databases: { words: ["databases"] },
  lease: { words: ["lease", "shop"] },
};

Deno.test("a store that is not there is refused by commands that read or change one, and not made", async () => {
  const rows = COMMANDS.filter(({ uses }) => uses === "store" || uses === "branches").map(({ name }) => name);
  await inParallel(rows.filter((name) => name !== "mcp"), 3, async (name) => {
    await using place = await makePlace();
    const call = CALLS[name];
    assert(call, `${name} has no row`);
    const { code, stdout, stderr } = await place.taskd(...call.words, "--store", "none/such");
    const expected = call.makes ? [0, true] : [1, false];
    assertEquals([code, exists(`${place.base}/none`)], expected, `${name}: ${stdout}${stderr}`);
    if (call.makes) return;
    assertStringIncludes(stderr, `There is no store at ${place.base}/none/such`);
    assertStringIncludes(stderr, "taskd create <db>");
  });
});

Deno.test("a store with a damaged manifest is refused with the command that mends it", async () => {
  await using place = await makePlace();
  await place.json(["create", "shop"]);
  const manifest = `${place.store}/bstore.json`;
  const before = Deno.readTextFileSync(manifest);
  Deno.writeTextFileSync(manifest, before.replace("layout_version", "layout_versiom"));
  for (const words of [["branches"], ["verify", "--all"], ["fork", "shop", "try"]]) {
    const { code, stderr } = await place.taskd(...words);
    assertEquals(code, 1);
    assertStringIncludes(stderr, "taskd repair --all");
  }
  const { stdout } = await place.taskd("repair", "--all");
  assertStringIncludes(stdout, "bstore.json is restored from its own bytes and checksum");
  assertEquals(Deno.readTextFileSync(manifest), before);
  assertEquals((await place.json(["verify", "--all"])).intact, true);
});

Deno.test("a folder that is no store is left as it is by commands that read", async () => {
  await using place = await makePlace();
  Deno.mkdirSync(`${place.base}/photos`);
  assertEquals((await place.json(["branches", "--store", "photos"], 1)).code, "not_a_store");
  assertEquals([...Deno.readDirSync(`${place.base}/photos`)], []);
});
