import { assert, assertEquals } from "@std/assert";
import { packError, unpackError } from "../daemon/worker_messages.ts";
import { asKnownError, type ErrorCode, messageOf, messageWithHint, stackOf, TaskdError } from "./errors.ts";
import { fileError } from "./fs.ts";
import { failure } from "./protocol/codec.ts";

Deno.test("messageOf() and stackOf() take whatever was thrown", () => {
  assertEquals([messageOf(new Error("a")), messageOf("b"), messageOf(undefined)], ["a", "b", "undefined"]);
  assert(stackOf(new TypeError("a")).startsWith("TypeError: a\n"));
  assertEquals(stackOf(3), "3");
});

Deno.test("messageWithHint() adds the hint of an error that has one", () => {
  assertEquals(messageWithHint(new TaskdError("busy", "a", { hint: "b" })), "a (b)");
  assertEquals(messageWithHint(new TaskdError("busy", "a", { hint: undefined })), "a");
  assertEquals(messageWithHint(new Error("a")), "a");
});

/** What a machine lacks or cannot do, as Deno throws it: some with a code, others with their number alone. */
const MACHINE: readonly (readonly [errno: string, number: number, coded: boolean, code: ErrorCode, hint: string])[] = [
  ["EIO", 5, true, "unavailable", "dmesg"],
  ["EMFILE", 24, true, "unavailable", "ulimit -n"],
  ["ENFILE", 23, false, "unavailable", "fs.file-max"],
  ["ENOMEM", 12, true, "unavailable", "memory"],
  ["ENOSPC", 28, true, "no_space", "Free space"],
  ["EDQUOT", 122, false, "no_space", "quota"],
  ["EFBIG", 27, false, "no_space", "ulimit -f"],
  ["EROFS", 30, true, "denied", "read-only"],
];

for (const [errno, number, coded, code, hint] of MACHINE) {
  Deno.test(`${errno} is ${code} with what to do, wherever it comes up, and never a defect`, () => {
    const thrown = Object.assign(new Error(`staged (os error ${number}): open '/x'`), coded ? { code: errno } : {});
    const seen = [
      asKnownError(thrown),
      fileError(thrown, "Cannot write x"),
      // From a worker, and over the socket.
      unpackError(packError(thrown)) as TaskdError,
    ];
    for (const error of seen) {
      assert(error instanceof TaskdError && error.hint?.includes(hint), `${error}`);
      assertEquals(error.code, code);
    }
    const { code: sent, hint: sent_hint } = failure(undefined, thrown);
    assertEquals([sent, sent_hint?.includes(hint)], [code, true]);
  });
}

Deno.test("any other error that is thrown is a defect", () => {
  const missing = Object.assign(new Error("staged"), { code: "ENOENT" });
  for (const thrown of [missing, new TypeError("x"), "text", undefined]) {
    assertEquals(asKnownError(thrown), undefined);
    assertEquals(failure(undefined, thrown).code, "internal");
  }
});

Deno.test("a real full disk is known by its errno", async () => {
  if (Deno.build.os !== "linux") return;
  const error = await Deno.writeTextFile("/dev/full", "x").catch((error) => error);
  assertEquals(asKnownError(error)?.code, "no_space");
});
