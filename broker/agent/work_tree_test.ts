import { assertEquals, assertRejects } from "@std/assert";
import { ToolError, WorkTree } from "./work_tree.ts";

class Folder implements Disposable {
  readonly root = Deno.realPathSync(Deno.makeTempDirSync());
  readonly work = `${this.root}/work`;
  readonly tree = new WorkTree(this.work);

  constructor() {
    Deno.mkdirSync(this.work);
    Deno.writeTextFileSync(`${this.root}/secret.txt`, "secret");
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.root, { recursive: true });
  }
}

Deno.test("a link in the work tree is neither read, written, listed through nor searched", async () => {
  using folder = new Folder();
  const { tree, work } = folder;
  Deno.symlinkSync("../secret.txt", `${work}/file`);
  Deno.symlinkSync("..", `${work}/up`);
  Deno.symlinkSync("absent", `${work}/dangling`);
  Deno.symlinkSync(".", `${work}/self`);
  for (const path of ["file", "up/secret.txt", "self/up/secret.txt", "dangling", ["up", "work", "file"].join("/")]) {
    await assertRejects(() => tree.read(path), ToolError, "symbolic link");
    await assertRejects(() => tree.write(path, "x"), ToolError, "symbolic link");
    await assertRejects(() => tree.list(path), ToolError, "symbolic link");
    await assertRejects(() => Array.fromAsync(tree.files(path)), ToolError, "symbolic link");
  }
  assertEquals(await Array.fromAsync(tree.files(".")), []);
  assertEquals((await tree.list(".")).entries.map(({ kind }) => kind), ["link", "link", "link", "link"]);
  assertEquals(Deno.readTextFileSync(`${folder.root}/secret.txt`), "secret");
});

Deno.test("a FIFO in the work tree is refused without waiting for it", async () => {
  using folder = new Folder();
  const { success } = await new Deno.Command("mkfifo", { args: [`${folder.work}/pipe`] }).output();
  assertEquals(success, true);
  await assertRejects(() => folder.tree.read("pipe"), ToolError, "not a regular file");
  await assertRejects(() => folder.tree.write("pipe", "x"), ToolError, "not a regular file");
  assertEquals(await Array.fromAsync(folder.tree.files(".")), []);
});

Deno.test({
  name: "a name that is not UTF-8 hides nothing that stands beside it",
  // Apple's file systems take no such name.
  ignore: Deno.build.os === "darwin",
  async fn() {
    using folder = new Folder();
    Deno.writeTextFileSync(`${folder.work}/plain.txt`, "plain");
    const script = `cd "$1" && name=$(printf 'caf\\351') && mkdir "$name" && : >"$name/inside" && : >"$name.txt"`;
    const { success } = await new Deno.Command("sh", { args: ["-c", script, "sh", folder.work] }).output();
    assertEquals(success, true);
    const { entries } = await folder.tree.list(".");
    assertEquals(entries.map(({ name, kind }) => [name, kind]), [
      ["caf\ufffd", "other"],
      ["caf\ufffd.txt", "other"],
      ["plain.txt", "file"],
    ]);
    assertEquals(await Array.fromAsync(folder.tree.files(".")), ["caf\ufffd.txt", "plain.txt"]);
    await assertRejects(() => folder.tree.read("caf\ufffd.txt"), ToolError, "There is no file");
  },
});

Deno.test("a file that is binary or over its limit is refused", async () => {
  using folder = new Folder();
  Deno.writeFileSync(`${folder.work}/binary`, new Uint8Array([0xff, 0xfe, 0]));
  Deno.writeFileSync(`${folder.work}/large`, new Uint8Array((1 << 20) + 1));
  Deno.writeFileSync(`${folder.work}/limit`, new Uint8Array(1 << 20).fill(0x61));
  await assertRejects(() => folder.tree.read("binary"), ToolError, "not UTF-8");
  await assertRejects(() => folder.tree.read("large"), ToolError, "more than");
  assertEquals((await folder.tree.read("limit")).length, 1 << 20);
});

Deno.test("write() keeps a file's mode and its byte order mark, and makes folders", async () => {
  using folder = new Folder();
  Deno.writeTextFileSync(`${folder.work}/run.sh`, "\ufeffold, and longer");
  Deno.chmodSync(`${folder.work}/run.sh`, 0o755);
  assertEquals(await folder.tree.read("run.sh"), "\ufeffold, and longer");
  assertEquals(await folder.tree.write("./run.sh", "new"), "replaced");
  assertEquals(await folder.tree.write("a/b/c.txt", ""), "created");
  assertEquals(Deno.readTextFileSync(`${folder.work}/run.sh`), "new");
  assertEquals(Deno.statSync(`${folder.work}/run.sh`).mode! & 0o777, 0o755);
  assertEquals(await Array.fromAsync(folder.tree.files(".")), ["run.sh", "a/b/c.txt"]);
});

Deno.test("links that were put aside are listed as links, and nothing takes their place", async () => {
  using at = new Folder();
  await Deno.mkdir(`${at.work}/lib`);
  await Deno.writeTextFile(`${at.work}/lib/a.ts`, "a");
  const links = [{ path: "current", target: "lib" }, { path: "lib/b.ts", target: "a.ts" }];
  const tree = new WorkTree(at.work, { links });
  for (const path of ["current", "current/a.ts", "current/new/file", "lib/b.ts", "lib//./b.ts"]) {
    await assertRejects(() => tree.read(path), ToolError, "symbolic link");
    await assertRejects(() => tree.write(path, "x"), ToolError, 'symbolic link to "');
    await assertRejects(() => tree.list(path), ToolError, "symbolic link");
  }
  assertEquals((await tree.list(".")).entries, [
    { name: "current", kind: "link", target: "lib" },
    { name: "lib", kind: "folder" },
  ]);
  assertEquals((await tree.list("lib")).entries, [
    { name: "a.ts", kind: "file", size_bytes: 1 },
    { name: "b.ts", kind: "link", target: "a.ts" },
  ]);
  assertEquals(await tree.write("currently", "x"), "created");
  assertEquals(Deno.readDirSync(at.work).map(({ name }) => name).toArray().sort(), ["currently", "lib"]);
});
