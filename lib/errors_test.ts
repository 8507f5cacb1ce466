import { assert, assertEquals } from "@std/assert";
import { messageOf, messageWithHint, stackOf, TaskdError } from "./errors.ts";

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
