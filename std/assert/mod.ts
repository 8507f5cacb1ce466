// @ts-types="./mod.d.ts"
export {
  assert,
  AssertionError,
  assertEquals,
  assertExists,
  assertInstanceOf,
  assertMatch,
  assertNotEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
  fail,
} from "npm:deno-std@1.4.0/assert/mod.js";
