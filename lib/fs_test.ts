import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { MIN_XFS_MB, whyNotMountable, withMount } from "../tests/support/mounts.ts";
import { TaskdError } from "./errors.ts";
import {
  clonable,
  cloneFile,
  discard,
  fileError,
  isThere,
  removeIfPresent,
  removeUnfinished,
  writeFileAtomic,
} from "./fs.ts";

const NO_XFS = await whyNotMountable("xfs");
const NO_TMPFS = await whyNotMountable("tmpfs");

async function inDirectory(fn: (directory: string) => Promise<void>): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    await fn(directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

async function code(action: () => Promise<unknown>): Promise<string> {
  return (await assertRejects(action, TaskdError)).code;
}

const names = (directory: string): string[] => Array.from(Deno.readDirSync(directory), ({ name }) => name).sort();
const text = (value: string) => new TextEncoder().encode(value);

Deno.test("writeFileAtomic() creates and replaces, with its mode, and leaves nothing else", () =>
  inDirectory(async (directory) => {
    await writeFileAtomic(`${directory}/f`, text("one"), 0o600);
    await writeFileAtomic(`${directory}/f`, text("two"), 0o400);
    assertEquals(await Deno.readTextFile(`${directory}/f`), "two");
    assertEquals((await Deno.stat(`${directory}/f`)).mode! & 0o777, 0o400);
    assertEquals(names(directory), ["f"]);
    assertEquals(await code(() => writeFileAtomic(`${directory}/none/f`, text("x"), 0o600)), "not_found");
    assertEquals(await code(() => writeFileAtomic(`${directory}/f/f`, text("x"), 0o600)), "not_found");
    await Deno.mkdir(`${directory}/d`);
    assertEquals(await code(() => writeFileAtomic(`${directory}/d`, text("x"), 0o600)), "denied");
    assertEquals(names(directory), ["d", "f"]);
  }));

Deno.test("removeUnfinished() removes what killed writers have left, and nothing else", () =>
  inDirectory(async (directory) => {
    await writeFileAtomic(`${directory}/f.json`, text("one"), 0o600);
    for (const name of ["f.json.0123456789abcdef.tmp", "f.tmp", "notes.0123.tmp"]) {
      await Deno.writeFile(`${directory}/${name}`, text("half"));
    }
    await Deno.mkdir(`${directory}/d.0123456789abcdef.tmp`);
    assertEquals(removeUnfinished(directory), ["f.json.0123456789abcdef.tmp"]);
    assertEquals(names(directory), ["d.0123456789abcdef.tmp", "f.json", "f.tmp", "notes.0123.tmp"]);
    assertEquals(removeUnfinished(`${directory}/none`), []);
  }));

Deno.test("what cannot be removed is an error of removeIfPresent() with a code, and none of discard()", () =>
  inDirectory(async (directory) => {
    await Deno.mkdir(`${directory}/d/e`, { recursive: true });
    const error = assertThrows(() => removeIfPresent(`${directory}/d`), TaskdError, "Cannot remove");
    assertEquals(error.code, "unavailable");
    discard(`${directory}/d`);
    removeIfPresent(`${directory}/d/e`);
    removeIfPresent(`${directory}/d/e`);
    discard(`${directory}/d`);
    assertEquals(names(directory), []);
  }));

Deno.test("isThere() finds files, directories and dangling links, and nothing it cannot inspect", () =>
  inDirectory(async (directory) => {
    await Deno.writeTextFile(`${directory}/f`, "x");
    await Deno.symlink(`${directory}/none`, `${directory}/l`);
    assertEquals(["", "/f", "/l", "/none", "/f/g"].map((name) => isThere(directory + name)), [
      true,
      true,
      true,
      false,
      false,
    ]);
    assertEquals(isThere(`${directory}/${"n".repeat(300)}`), false, "a name that no file system takes");
  }));

Deno.test({
  name: `writeFileAtomic() on a full disk is no_space and keeps the old file${NO_TMPFS}`,
  ignore: NO_TMPFS !== "",
  fn: () =>
    withMount("tmpfs", 1, async (disk) => {
      await writeFileAtomic(`${disk}/f`, text("old"), 0o600);
      assertEquals(await code(() => writeFileAtomic(`${disk}/f`, new Uint8Array(2_000_000), 0o600)), "no_space");
      assertEquals(await Deno.readTextFile(`${disk}/f`), "old");
      assertEquals(names(disk), ["f"]);
    }),
});

Deno.test({
  name: `clonable() is true on XFS, and cloneFile() shares blocks there${NO_XFS}`,
  ignore: NO_XFS !== "",
  fn: () =>
    withMount("xfs", MIN_XFS_MB, async (disk) => {
      assert(await clonable(disk));
      assertEquals(await clonable(disk, { cp_path: "/nowhere/cp" }), false);
      assertEquals(await clonable(`${disk}/none`), false);
      const content = new Uint8Array(100_000).fill(7);
      await Deno.writeFile(`${disk}/-a`, content);
      await cloneFile(`${disk}/-a`, `${disk}/b`);
      assertEquals(await Deno.readFile(`${disk}/b`), content);
      assertEquals(await code(() => cloneFile(`${disk}/-a`, `${disk}/b`)), "already_exists");
      assertEquals(await code(() => cloneFile(`${disk}/none`, `${disk}/c`)), "not_found");
      assertEquals(await code(() => cloneFile(`${disk}/-a`, `${disk}/c`, { cp_path: "/nowhere/cp" })), "unavailable");
      assertEquals(names(disk), ["-a", "b"]);
      const cloning = cloneFile(`${disk}/-a`, `${disk}/d`);
      // At once, before cp can have begun.
      Deno.writeTextFileSync(`${disk}/d`, "of another process");
      assertEquals(await code(() => cloning), "already_exists");
      assertEquals(await Deno.readTextFile(`${disk}/d`), "of another process");
      assertEquals(names(disk), ["-a", "b", "d"]);
    }),
});

Deno.test({
  name: `where blocks cannot be shared, cloneFile() fails and copies nothing${NO_TMPFS}`,
  ignore: NO_TMPFS !== "",
  fn: () =>
    withMount("tmpfs", 1, async (disk) => {
      assertEquals(await clonable(disk), false);
      await Deno.writeFile(`${disk}/a`, new Uint8Array(1000));
      assertEquals(await code(() => cloneFile(`${disk}/a`, `${disk}/b`)), "unavailable");
      assertEquals(names(disk), ["a"]);
    }),
});

Deno.test("fileError() says what was attempted, what went wrong and what to do", () => {
  const error = fileError(new Deno.errors.NotCapable("Requires write access"), "Cannot write /a");
  assertEquals([error.code, error.message], ["denied", "Cannot write /a: Requires write access"]);
  assert(error.hint !== undefined);
  assertEquals(fileError(new Error("odd"), "Cannot read /a").code, "unavailable");
  assertEquals(fileError(error, "Cannot do more"), error);
});
