import { lchownSync } from "node:fs";
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import { createPrivateFile, readPrivateFile } from "./private_file.ts";

async function withDirectory(test: (directory: string) => Promise<void>): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    await test(directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

Deno.test("readPrivateFile() returns undefined for a missing file and refuses an unusable one", () =>
  withDirectory(async (directory) => {
    assertEquals(await readPrivateFile(`${directory}/absent`, "own"), undefined);
    assertEquals(await readPrivateFile(`${directory}/no/such`, "own"), undefined);
    await assertRejects(() => readPrivateFile(directory, "own"), TaskdError, "not a regular file");
    await Deno.writeFile(`${directory}/binary`, Uint8Array.of(0xff, 0xfe, 0x00), { mode: 0o600 });
    await assertRejects(() => readPrivateFile(`${directory}/binary`, "own"), TaskdError, "not UTF-8");
    await Deno.writeFile(`${directory}/large`, new Uint8Array(4_194_305), { mode: 0o600 });
    await assertRejects(() => readPrivateFile(`${directory}/large`, "own"), TaskdError, "at most");
    Deno.symlinkSync("loop", `${directory}/loop`);
    await assertRejects(() => readPrivateFile(`${directory}/loop`, "own"), TaskdError, "Cannot use");
  }));

Deno.test("readPrivateFile() does not wait at a pipe", () =>
  withDirectory(async (directory) => {
    const made = await new Deno.Command("mkfifo", { args: [`${directory}/pipe`] }).output();
    assertEquals(made.success, true);
    await assertRejects(() => readPrivateFile(`${directory}/pipe`, "own"), TaskdError, "not a regular file");
  }));

Deno.test("configuration that others can change is refused; one that they can read is not", () =>
  withDirectory(async (directory) => {
    const path = `${directory}/it's config.yaml`;
    await Deno.writeTextFile(path, "a: 1");
    for (const [bits, refused] of [[0o644, false], [0o600, false], [0o664, true], [0o602, true]] as const) {
      Deno.chmodSync(path, bits);
      const reading = readPrivateFile(path, "own");
      if (!refused) assertEquals(await reading, "a: 1");
      else {
        const error = await assertRejects(() => reading, TaskdError, "other users can change it");
        assertStringIncludes(
          error.hint!,
          `chmod 6${bits === 0o664 ? 4 : 0}${bits === 0o664 ? 4 : 0} '${directory}/it'\\''s`,
        );
      }
    }
  }));

Deno.test("createPrivateFile() never replaces a file", () =>
  withDirectory(async (directory) => {
    assertEquals(await createPrivateFile(`${directory}/a`, "one"), true);
    assertEquals(await createPrivateFile(`${directory}/a`, "two"), false);
    assertEquals(await readPrivateFile(`${directory}/a`, "secret"), "one");
    assertEquals([...Deno.readDirSync(directory)].length, 1);
  }));

Deno.test("a link to a file of one's own is read, and advice is about the file that it leads to", () =>
  withDirectory(async (directory) => {
    Deno.mkdirSync(`${directory}/dotfiles`);
    Deno.writeTextFileSync(`${directory}/dotfiles/keys`, "A=1", { mode: 0o600 });
    Deno.symlinkSync("dotfiles/keys", `${directory}/api-keys.env`);
    assertEquals(await readPrivateFile(`${directory}/api-keys.env`, "secret"), "A=1");
    Deno.chmodSync(`${directory}/dotfiles/keys`, 0o644);
    assertEquals(await readPrivateFile(`${directory}/api-keys.env`, "own"), "A=1");
    const error = await assertRejects(() => readPrivateFile(`${directory}/api-keys.env`, "secret"), TaskdError);
    assertStringIncludes(error.hint!, `chmod 600 ${Deno.realPathSync(directory)}/dotfiles/keys`);
  }));

Deno.test({
  name: "configuration of another user is refused, and so is a link of theirs" +
    (Deno.uid() === 0 ? "" : ": ignored, only root can make one"),
  ignore: Deno.uid() !== 0,
  fn: () =>
    withDirectory(async (directory) => {
      for (const privacy of ["own", "secret"] as const) {
        const path = `${directory}/${privacy}`;
        Deno.writeTextFileSync(path, "a: 1", { mode: 0o600 });
        Deno.symlinkSync(path, `${path}-link`);
        lchownSync(`${path}-link`, 65_534, 65_534);
        await assertRejects(() => readPrivateFile(`${path}-link`, privacy), TaskdError, "another user");
        Deno.chownSync(path, 65_534, 65_534);
        await assertRejects(() => readPrivateFile(path, privacy), TaskdError, "another user");
      }
    }),
});

Deno.test("configuration in a home that others can write to is refused, there or not", () =>
  withDirectory(async (directory) => {
    Deno.mkdirSync(`${directory}/.taskd`, { mode: 0o700 });
    Deno.writeTextFileSync(`${directory}/.taskd/config.yaml`, "a: 1", { mode: 0o600 });
    Deno.chmodSync(directory, 0o777);
    for (const name of ["config.yaml", "absent"]) {
      const error = await assertRejects(() => readPrivateFile(`${directory}/.taskd/${name}`, "own"), TaskdError);
      assertEquals([error.code, error.message.includes("(mode 0777)")], ["denied", true]);
    }
  }));
