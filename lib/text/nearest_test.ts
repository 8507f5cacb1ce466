import { assertEquals } from "@std/assert";
import { nearest } from "./nearest.ts";

Deno.test("nearest() finds slips of the hand and beginnings, and nothing for another word", () => {
  const words = ["watch", "watch_timeout", "poll_interval", "ci"];
  const table: [string, string | undefined][] = [
    ["wach", "watch"],
    ["WATCH", "watch"],
    ["watch_timout", "watch_timeout"],
    ["poll", "poll_interval"],
    ["po", undefined],
    ["cj", "ci"],
    ["budget", undefined],
    ["", undefined],
    ["x".repeat(100_000), undefined],
  ];
  for (const [word, expected] of table) assertEquals(nearest(word, words), expected, word.slice(0, 20));
  assertEquals(nearest("watch", []), undefined);
});
