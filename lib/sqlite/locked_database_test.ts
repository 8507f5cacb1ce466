import { assertEquals, assertThrows } from "@std/assert";
import { withDirectory } from "../../tests/support/stores.ts";
import { textLines } from "../../tests/support/text_lines.ts";
import { TaskdError } from "../errors.ts";
import { LockedFile } from "./locked_database.ts";

/** What a file may hold that SQLite finds to be no database, or finds empty. */
const CONTENTS: Record<string, Uint8Array<ArrayBuffer>> = {
  nothing: new Uint8Array(),
  "a few bytes": new Uint8Array(10).fill(7),
  "a hole": new Uint8Array(8_192),
  "something else": new Uint8Array(9_000).fill(42),
  "a header without pages": new TextEncoder().encode("SQLite format 3\0".padEnd(4_096, "\xff")),
};

/**
 * Takes the lock of a connection that reads, or tries the one that excludes all, by the bytes that SQLite's have:
 * https://sqlite.org/src/file/src/os.h.
 */
const LOCKS = `
import fcntl, sys
file = open(sys.argv[1], "r+b")
try:
    fcntl.lockf(file, (fcntl.LOCK_SH if sys.argv[2] == "read" else fcntl.LOCK_EX) | fcntl.LOCK_NB, 510, 0x40000002)
    print("locked", flush=True)
except OSError:
    print("refused", flush=True)
sys.stdin.read()
`;

/** Another process that has tried for a lock of the file, and keeps it until it is disposed of. */
async function other(path: string, lock: "read" | "exclude"): Promise<AsyncDisposable & { answer: string }> {
  const child = new Deno.Command("python3", { args: ["-c", LOCKS, path, lock], stdin: "piped", stdout: "piped" })
    .spawn();
  const lines = textLines(child.stdout)[Symbol.asyncIterator]();
  const { value: answer } = await lines.next();
  return {
    answer: answer ?? "",
    [Symbol.asyncDispose]: async () => {
      await child.stdin.close();
      await lines.return?.(undefined);
      await child.status;
    },
  };
}

const namesIn = (directory: string) => Array.from(Deno.readDirSync(directory), ({ name }) => name).sort();

for (const [name, content] of Object.entries(CONTENTS)) {
  for (const by of ["another name", "its own name"] as const) {
    Deno.test(`a file with ${name} is taken by ${by}, from every process, and stays as it is`, () =>
      withDirectory(async (directory) => {
        const path = `${directory}/some.db`;
        Deno.writeFileSync(path, content);
        const open = () => LockedFile.open(path, by === "its own name" ? undefined : `${directory}/.beside.tmp`);
        {
          await using application = await other(path, "read");
          assertEquals(application.answer, "locked");
          assertEquals(assertThrows(open, TaskdError).code, "busy");
          assertEquals(namesIn(directory), ["some.db"]);
        }
        {
          using _locked = open();
          await using application = await other(path, "read");
          assertEquals(application.answer, "refused");
        }
        await using application = await other(path, "exclude");
        assertEquals(application.answer, "locked");
        assertEquals(Deno.readFileSync(path), content);
        assertEquals(namesIn(directory), ["some.db"]);
      }));
  }
}
