import { assertEquals, assertThrows } from "@std/assert";
import { TaskdError } from "../errors.ts";
import { formatBytes, parseBytes } from "./bytes.ts";

// conformance: 8.ro_cache_budget
Deno.test("parseBytes() reads whole numbers and powers of 1024", () => {
  const table: [string, number][] = [
    ["0", 0],
    ["65536", 65_536],
    ["1K", 1_024],
    ["512M", 536_870_912],
    ["10G", 10_737_418_240],
    ["2T", 2_199_023_255_552],
  ];
  for (const [text, bytes] of table) assertEquals(parseBytes(text), bytes, text);
});

Deno.test("parseBytes() refuses everything else", () => {
  for (const text of ["", "-1", "1.5G", "1k", "1KB", "1 G", "G", "1e9", "0x10", "9".repeat(20), "8193T0", "9999999T"]) {
    const error = assertThrows(() => parseBytes(text), TaskdError, "Cannot parse byte size");
    assertEquals(error.code, "usage");
  }
});

Deno.test("formatBytes() keeps one decimal below ten of a unit", () => {
  const table: [number, string][] = [
    [0, "0 B"],
    [1023, "1023 B"],
    [1024, "1 KiB"],
    [1536, "1.5 KiB"],
    [10_240, "10 KiB"],
    [12_582_912, "12 MiB"],
    [1_048_575, "1 MiB"],
    [5 * 1024 ** 4, "5 TiB"],
    [5000 * 1024 ** 4, "5000 TiB"],
  ];
  for (const [bytes, text] of table) assertEquals(formatBytes(bytes), text);
});
