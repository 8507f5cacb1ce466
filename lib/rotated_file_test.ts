import { assertEquals, assertThrows } from "@std/assert";
import { TaskdError } from "./errors.ts";
import { RotatedFile } from "./rotated_file.ts";

const opened = (path: string, max_bytes = 1_000) => new RotatedFile({ path, suffix: ".1", max_bytes });

async function inFolder(work: (folder: string) => void | Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await work(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("a log takes at most twice its bound and keeps its last lines", () =>
  inFolder((folder) => {
    const path = `${folder}/log`;
    {
      using log = opened(path, 100);
      for (let index = 0; index < 100; index++) log.write(`line ${index}\n`);
    }
    const [old, current] = [Deno.readTextFileSync(`${path}.1`), Deno.readTextFileSync(path)];
    assertEquals(old.length <= 100 && current.length <= 100, true);
    assertEquals((old + current).trimEnd().split("\n").at(-1), "line 99");
    assertEquals([...Deno.readDirSync(folder)].length, 2);
  }));

Deno.test("an existing log is appended to, and only its owner can read it", () =>
  inFolder((folder) => {
    const path = `${folder}/log`;
    Deno.writeTextFileSync(path, "before\n", { mode: 0o644 });
    {
      using log = opened(path);
      log.write("after\n");
    }
    assertEquals(Deno.readTextFileSync(path), "before\nafter\n");
    assertEquals(Deno.statSync(path).mode! & 0o777, 0o600);
  }));

Deno.test("what others could have put in a log's place is refused and left as it is", () =>
  inFolder((folder) => {
    const [aim, link, pipe] = [`${folder}/aim`, `${folder}/link`, `${folder}/pipe`];
    Deno.writeTextFileSync(aim, "before\n", { mode: 0o644 });
    Deno.symlinkSync(aim, link);
    new Deno.Command("mkfifo", { args: [pipe] }).outputSync();
    for (const path of [link, pipe, "/dev/null", folder]) {
      assertThrows(() => opened(path), TaskdError, "Cannot use", path);
    }
    Deno.chmodSync(aim, 0o666);
    assertThrows(() => opened(aim), TaskdError, "other users can change it");
    assertEquals([Deno.readTextFileSync(aim), Deno.statSync(aim).mode! & 0o777], ["before\n", 0o666]);
  }));

Deno.test("a log that cannot be opened is an error at once", () => {
  assertThrows(() => opened("/nowhere/log"), Deno.errors.NotFound);
});

Deno.test("a log that was moved away is created again once it is full", () =>
  inFolder((folder) => {
    const path = `${folder}/log`;
    using log = opened(path, 20);
    log.write("the first line\n");
    Deno.renameSync(path, `${folder}/kept`);
    log.write("the second line\n");
    log.write("the third line\n");
    const texts = [`${folder}/kept`, `${path}.1`, path].map((name) => Deno.readTextFileSync(name));
    assertEquals(texts, ["the first line\n", "the second line\n", "the third line\n"]);
  }));
