import { assert, assertEquals, assertRejects } from "@std/assert";
import { systemClock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { removeTree } from "../../lib/remove_tree.ts";
import { copyTree, settleTree } from "./cached_trees.ts";

async function folder() {
  const root = await Deno.makeTempDir({ prefix: "taskd-trees-" });
  await Deno.mkdir(`${root}/tree`);
  return { root, tree: `${root}/tree`, [Symbol.asyncDispose]: () => removeTree(root) };
}

async function shell(script: string, cwd: string): Promise<void> {
  const { success, stderr } = await new Deno.Command("sh", { args: ["-ec", script], cwd }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}

Deno.test("settleTree() counts whole blocks, and every name of a file", async () => {
  await using at = await folder();
  await shell("mkdir d; : > empty; head -c 4097 /dev/zero > d/two; ln d/two d/again; ln -s nowhere link", at.tree);
  // A folder, an empty file, twice two blocks, a link.
  assertEquals(await settleTree(at.tree), (1 + 1 + 2 + 2 + 1) * 4_096);
});

Deno.test("attack: a file of holes is as large as its copy could be", async () => {
  await using at = await folder();
  await shell("truncate -s 1T holes", at.tree);
  assertEquals(await settleTree(at.tree), 2 ** 40);
});

Deno.test("attack: links are neither followed nor measured", async () => {
  await using at = await folder();
  await Deno.writeTextFile(`${at.root}/outside`, "x".repeat(100_000));
  await Deno.chmod(`${at.root}/outside`, 0o444);
  await shell("ln -s ../outside a; ln -s / b; ln -s . c; ln -s ../../tree d", at.tree);
  assertEquals(await settleTree(at.tree), 4 * 4_096);
  assertEquals((await Deno.stat(`${at.root}/outside`)).mode! & 0o777, 0o444);
});

Deno.test("attack: pipes and sockets are not kept, and no pipe holds anything up", async () => {
  await using at = await folder();
  await shell("mkfifo pipe; mkdir d; mkfifo d/pipe; echo x > d/file", at.tree);
  using _socket = Deno.listen({ transport: "unix", path: `${at.tree}/socket` });
  await settleTree(at.tree);
  assertEquals([...Deno.readDirSync(at.tree)].map(({ name }) => name), ["d"]);
  assertEquals([...Deno.readDirSync(`${at.tree}/d`)].map(({ name }) => name), ["file"]);
});

Deno.test("attack: permissions that would hinder or endanger a later owner are put right", async () => {
  await using at = await folder();
  await shell(
    "mkdir d; echo x > d/file; chmod 4000 d/file; echo y > run; chmod 6755 run; chmod 1000 d; chmod 0 .",
    at.tree,
  );
  await settleTree(at.tree);
  const mode = async (path: string) => (await Deno.lstat(path)).mode! & 0o7777;
  assertEquals(
    [await mode(at.tree), await mode(`${at.tree}/d`), await mode(`${at.tree}/d/file`), await mode(`${at.tree}/run`)],
    [0o700, 0o700, 0o600, 0o755],
  );
});

/** Puts a tree into a folder of this name, `levels` times. */
async function nest(tree: string, name: string, levels: number): Promise<void> {
  for (let level = 0; level < levels; level++) {
    await Deno.mkdir(`${tree}.outer`);
    await Deno.rename(tree, `${tree}.outer/${name}`);
    await Deno.rename(`${tree}.outer`, tree);
  }
}

Deno.test("attack: a tree too deep for any path is refused, and can still be removed", async () => {
  for (const [name, levels] of [["d", 2_000], ["d".repeat(255), 300], ["\u{1f600}".repeat(63), 300]] as const) {
    await using at = await folder();
    await Deno.writeTextFile(`${at.tree}/file`, "x");
    await nest(at.tree, name, levels);
    const error = await assertRejects(() => settleTree(at.tree), TaskdError);
    assertEquals(error.code, "too_large");
    await removeTree(at.tree);
    await assertRejects(() => Deno.lstat(at.tree), Deno.errors.NotFound);
  }
});

Deno.test("attack: a deep tree is removed also by a process that may open few files", async () => {
  await using at = await folder();
  for (const levels of [400, 400, 400]) {
    await nest(at.tree, "d", levels);
    await Deno.chmod(`${at.tree}/d`, 0);
  }
  const script = `const { removeTree } = await import(${
    JSON.stringify(import.meta.resolve("../../lib/remove_tree.ts"))
  });
    await removeTree(Deno.args[0]);`;
  const { success, stderr } = await new Deno.Command("sh", {
    args: ["-c", 'ulimit -n 200; exec "$@"', "sh", Deno.execPath(), "eval", script, at.tree],
  }).output();
  assert(success, new TextDecoder().decode(stderr));
  await assertRejects(() => Deno.lstat(at.tree), Deno.errors.NotFound);
});

Deno.test("attack: names that are not UTF-8 are not kept, and can still be removed", async () => {
  await using at = await folder();
  await shell(`mkdir "$(printf 'a\\377')"; echo x > "$(printf 'a\\377/b')"`, at.tree);
  const error = await assertRejects(() => settleTree(at.tree), TaskdError);
  assertEquals(error.code, "not_found");
  await removeTree(at.tree);
});

Deno.test("copyTree() makes the same tree, which changes without the original", async () => {
  await using at = await folder();
  await shell(
    "mkdir -p a/b; echo one > a/b/file; echo run > a/run; chmod 755 a/run; ln -s b/file a/link; ln -s /x abs; ln a/run a/name",
    at.tree,
  );
  await settleTree(at.tree);
  const old = new Date(1_000_000_000_000);
  await Deno.utime(`${at.tree}/a/b/file`, old, old);
  const copy = `${at.root}/copy`;
  await Deno.mkdir(copy);
  await copyTree(at.tree, copy, { clock: systemClock });
  await shell("diff -r --no-dereference tree copy", at.root);
  assertEquals((await Deno.stat(`${copy}/a/b/file`)).mtime, old);
  assertEquals((await Deno.stat(`${copy}/a/run`)).mode! & 0o777, 0o755);
  assertEquals(await Deno.readLink(`${copy}/abs`), "/x");
  await shell("echo changed > copy/a/run; rm copy/a/b/file", at.root);
  assertEquals(await Deno.readTextFile(`${at.tree}/a/run`), "run\n");
  assertEquals(await Deno.readTextFile(`${at.tree}/a/b/file`), "one\n");
});

Deno.test("copyTree() stops when it is aborted, and nothing of it goes on", async () => {
  await using at = await folder();
  await shell("for i in $(seq 200); do echo $i > $i; done", at.tree);
  const controller = new AbortController();
  const copy = `${at.root}/copy`;
  await Deno.mkdir(copy);
  const copying = copyTree(at.tree, copy, { clock: systemClock, signal: controller.signal });
  controller.abort(new TaskdError("interrupted", "killed"));
  await assertRejects(() => copying, TaskdError, "killed");
  await Deno.remove(copy, { recursive: true });
  await assertRejects(() => Deno.lstat(copy), Deno.errors.NotFound);
});

Deno.test("removeTree() follows no link and takes it well when there is nothing", async () => {
  await using at = await folder();
  await Deno.mkdir(`${at.root}/outside`);
  await Deno.writeTextFile(`${at.root}/outside/file`, "x");
  await shell("ln -s ../outside link; mkdir d; ln -s ../../outside d/link; chmod 0 d", at.tree);
  await removeTree(at.tree);
  await removeTree(at.tree);
  assert((await Deno.stat(`${at.root}/outside/file`)).isFile);
});
