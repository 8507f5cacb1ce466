import { assert, assertEquals } from "@std/assert";
import { storeError } from "../store/errors.ts";
import { TaskdError } from "../errors.ts";
import { backendError } from "./_local_files.ts";

/** What Deno throws, with a code where it gives one, and a word of what to do about it. */
const MACHINE = [
  ["EIO", 5, true, "dmesg"],
  ["EMFILE", 24, true, "ulimit -n"],
  ["ENFILE", 23, false, "fs.file-max"],
  ["EDQUOT", 122, false, "quota"],
  ["EFBIG", 27, false, "ulimit -f"],
  ["EROFS", 30, true, "read-only"],
] as const;

Deno.test("what the machine lacks is named, with what to do, through a local store's file call", () => {
  for (const [errno, number, coded, hint] of MACHINE) {
    const thrown = Object.assign(new Error(`staged (os error ${number}): open '/x'`), coded ? { code: errno } : {});
    const error = storeError(backendError(thrown, "refs/a/b.json", "read"), "Cannot read the ref of a@b");
    assert(error instanceof TaskdError && error.hint?.includes(hint), `${errno}: ${(error as TaskdError).hint}`);
    assertEquals(error.code === "no_space", ["EDQUOT", "EFBIG"].includes(errno), errno);
  }
});
