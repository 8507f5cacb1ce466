import { assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { systemRandom } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { isTaskId, newTaskId, resolveTaskId } from "./ids.ts";

const A = "a1".repeat(16);
const B = "a2".repeat(16);
const C = "c0".repeat(16);

function refusal(prefix: string, ids: string[]): TaskdError {
  return assertThrows(() => resolveTaskId(prefix, ids), TaskdError);
}

Deno.test("newTaskId() takes all of its 128 bits from the given source", () => {
  assertEquals(newTaskId((count) => new Uint8Array(count).fill(0xab)), "ab".repeat(16));
  const id = newTaskId(systemRandom);
  assertEquals(isTaskId(id), true);
  assertNotEquals(newTaskId(systemRandom), id);
});

Deno.test("isTaskId() knows whole ids only", () => {
  for (const text of ["", "a", A.toUpperCase(), `${A}0`, A.slice(1), `../${A.slice(3)}`, `${A.slice(1)}\n`]) {
    assertEquals(isTaskId(text), false, text);
  }
});

Deno.test("resolveTaskId() takes any prefix that names one task, in any case", () => {
  assertEquals(resolveTaskId("a1", [A, B, C]), A);
  assertEquals(resolveTaskId("C", [A, B, C]), C);
  assertEquals(resolveTaskId(B, [A, B, C]), B);
});

Deno.test("resolveTaskId() names the candidates of a prefix that several tasks have", () => {
  const error = refusal("a", [A, B, C]);
  assertEquals(error.code, "usage");
  assertEquals(error.message, `Cannot find the task "a": 2 tasks begin so: ${A}, ${B}`);
  const many = Array.from({ length: 100 }, (_, n) => `a${n.toString(16).padStart(31, "0")}`);
  assertEquals(refusal("a", many).message.endsWith(" and 96 more"), true);
});

Deno.test("resolveTaskId() says that no task has such an id", () => {
  assertEquals(refusal("f", [A, B, C]).code, "not_found");
  assertEquals(refusal("f", []).code, "not_found");
});

Deno.test("resolveTaskId() refuses what is no prefix of an id, and shows it harmless and short", () => {
  for (const text of ["", "%", "a*", "../etc", `${A}0`, "\x1b[2J", "x".repeat(1_000_000)]) {
    const error = refusal(text, [A]);
    assertEquals(error.code, "usage", text.slice(0, 8));
    assertEquals(error.message.includes("\x1b"), false);
    assertEquals(error.message.length < 200, true);
  }
});
