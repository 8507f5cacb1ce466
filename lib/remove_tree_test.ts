import { assert, assertEquals, assertRejects } from "@std/assert";
import { mountReadOnlyView } from "../tests/support/mounts.ts";
import { TaskdError } from "./errors.ts";
import { removeTree } from "./remove_tree.ts";

async function isGone(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(() => false, (error) => error instanceof Deno.errors.NotFound);
}

/** As a program in a sandbox makes it, one step down at a time: no path is ever long. */
const DIG = `Deno.chdir(Deno.args[0]);
for (let level = 0; level < 15_000; level++) {
  Deno.mkdirSync("d");
  Deno.chdir("d");
}`;

Deno.test("attack: a tree of 15,000 levels with a name that is not UTF-8 is removed", async () => {
  const root = await Deno.makeTempDir();
  const dug = await new Deno.Command(Deno.execPath(), { args: ["eval", DIG, root] }).output();
  assert(dug.success, new TextDecoder().decode(dug.stderr));
  await new Deno.Command("sh", { args: ["-c", "mkdir \"$(printf '\\377')\" && mv d \"$(printf '\\377')\""], cwd: root })
    .output();
  await removeTree(root);
  assert(await isGone(root));
});

Deno.test("attack: a folder without permissions is removed, and the targets of its links stay", async () => {
  const root = await Deno.makeTempDir();
  await Deno.mkdir(`${root}/tree/a/b`, { recursive: true });
  await Deno.writeTextFile(`${root}/kept`, "kept");
  await Deno.symlink("../../kept", `${root}/tree/a/link`);
  for (const path of ["a/b", "a", "."]) await Deno.chmod(`${root}/tree/${path}`, 0);
  await removeTree(`${root}/tree`);
  assertEquals([await isGone(`${root}/tree`), await Deno.readTextFile(`${root}/kept`)], [true, "kept"]);
  await removeTree(root);
});

Deno.test("removeTree() removes a file too, and takes it well when there is nothing", async () => {
  const path = await Deno.makeTempFile();
  await removeTree(path);
  await removeTree(path);
  assert(await isGone(path));
});

Deno.test("what cannot be removed is an error that names it", async () => {
  const root = await Deno.makeTempDir();
  await Deno.mkdir(`${root}/d`);
  {
    await using view = await mountReadOnlyView(root);
    const error = await assertRejects(() => removeTree(`${view.directory}/d`), TaskdError, `${view.directory}/d`);
    assertEquals(error.code, "denied");
  }
  await removeTree(root);
});
