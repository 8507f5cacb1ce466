import { assertEquals, assertRejects } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import { parkLinks, restoreLinks } from "./_parked_links.ts";

async function tree() {
  const root = await Deno.makeTempDir({ prefix: "taskd-links-" });
  await Deno.mkdir(`${root}/tree/sub`, { recursive: true });
  await Deno.writeTextFile(`${root}/tree/file`, "x");
  for (
    const [target, path] of [["file", "link"], ["-n", "sub/-s"], ["/nowhere\n", "sub/line\nbreak"], ["sub", "dir"]]
  ) {
    await Deno.symlink(target!, `${root}/tree/${path}`);
  }
  const links = () =>
    ["link", "sub/-s", "sub/line\nbreak", "dir"].map((path) => {
      try {
        return Deno.readLinkSync(`${root}/tree/${path}`);
      } catch {
        return undefined;
      }
    });
  return { work: `${root}/tree`, links, [Symbol.asyncDispose]: () => Deno.remove(root, { recursive: true }) };
}

Deno.test("links are put aside and put back, with any names and targets", async () => {
  await using at = await tree();
  const before = at.links();
  const parked = await parkLinks(at.work);
  assertEquals(at.links(), [undefined, undefined, undefined, undefined]);
  await restoreLinks(parked);
  assertEquals(at.links(), before);
});

Deno.test("what a link names keeps its bytes, whatever they are", async () => {
  await using at = await tree();
  const script = `cd "$1" && ln -s "$(printf 'caf\\351')" odd`;
  await new Deno.Command("sh", { args: ["-c", script, "sh", at.work] }).output();
  await restoreLinks(await parkLinks(at.work));
  const { stdout } = await new Deno.Command("readlink", { args: ["-n", `${at.work}/odd`] }).output();
  assertEquals(stdout, new Uint8Array([0x63, 0x61, 0x66, 0xe9]));
});

Deno.test("once a task is ended no link is moved any more, however many there are", async () => {
  await using at = await tree();
  for (let n = 0; n < 1_000; n++) await Deno.symlink("file", `${at.work}/sub/l${n}`);
  const ended = new Error("ended");
  await assertRejects(() => parkLinks(at.work, AbortSignal.abort(ended)), Error, "ended");
  assertEquals(at.links()[0], "file");
  const parked = await parkLinks(at.work);
  const controller = new AbortController();
  const restoring = restoreLinks(parked, controller.signal);
  controller.abort(ended);
  await restoring;
  const back = [...Deno.readDirSync(`${at.work}/sub`)].length;
  assertEquals(back < 1_000, true, `${back} were put back`);
});

Deno.test({
  name: "a folder or link whose name is not UTF-8 is refused by its name, and no link is lost",
  // Apple's file systems take no such name.
  ignore: Deno.build.os === "darwin",
  async fn() {
    for (const make of ["mkdir", "ln -s file"]) {
      await using at = await tree();
      const before = at.links();
      const script = `cd "$1" && ${make} "$(printf 'caf\\351')"`;
      const { success } = await new Deno.Command("sh", { args: ["-c", script, "sh", at.work] }).output();
      assertEquals(success, true);
      await assertRejects(() => parkLinks(at.work), TaskdError, "aside: the name caf\ufffd is not UTF-8");
      assertEquals(at.links(), before);
    }
  },
});

Deno.test("a link does not come back where the agent put something else, or removed the folder", async () => {
  await using at = await tree();
  const parked = await parkLinks(at.work);
  await Deno.mkdir(`${at.work}/dir`);
  await Deno.remove(`${at.work}/sub`, { recursive: true });
  await Deno.writeTextFile(`${at.work}/sub`, "a file now");
  await restoreLinks(parked);
  assertEquals(at.links(), ["file", undefined, undefined, undefined]);
  assertEquals([...Deno.readDirSync(`${at.work}/dir`)], []);
});

Deno.test("permissions for the work folder and the one beside it are enough to put links back", async () => {
  await using at = await tree();
  const before = at.links();
  const module = JSON.stringify(import.meta.resolve("./_parked_links.ts"));
  await Deno.writeTextFile(
    `${at.work}/main.ts`,
    `import { parkLinks, restoreLinks } from ${module};
     await restoreLinks(await parkLinks(Deno.args[0]!));`,
  );
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--no-prompt",
      `--config=${new URL("../../deno.json", import.meta.url).pathname}`,
      `--allow-read=${at.work},${at.work}.links`,
      `--allow-write=${at.work},${at.work}.links`,
      `${at.work}/main.ts`,
      at.work,
    ],
  }).output();
  assertEquals([success, new TextDecoder().decode(stderr)], [true, ""]);
  assertEquals(at.links(), before);
});
