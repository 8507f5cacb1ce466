import { assertEquals, assertRejects } from "@std/assert";
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
    await assertRejects(() => readPrivateFile(`${directory}/loop`, "own"), TaskdError, "Cannot read");
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
        assertEquals(error.hint, `Run: chmod 600 '${directory}/it'\\''s config.yaml'`);
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
