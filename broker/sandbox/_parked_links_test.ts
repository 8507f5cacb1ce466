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

Deno.test("permissions for the work folder and for programs are enough to put links back", async () => {
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
      `--allow-read=${at.work}`,
      `--allow-write=${at.work}`,
      "--allow-run",
      `${at.work}/main.ts`,
      at.work,
    ],
  }).output();
  assertEquals([success, new TextDecoder().decode(stderr)], [true, ""]);
  assertEquals(at.links(), before);
});
