import { assertEquals } from "@std/assert";
import { describeProgress, progressIn } from "./progress.ts";

function bar() {
  let now_ms = 0;
  const shown: string[] = [];
  const line = { show: (text: string) => Promise.resolve(void shown.push(text)) };
  const update = progressIn(line, "create shop", () => now_ms);
  return { at: (ms: number) => now_ms = ms, shown, update };
}

Deno.test("describeProgress() shows share, amounts, rate and time left", () => {
  const mib = 1024 * 1024;
  assertEquals(describeProgress(0, 0, 0), "0 B  0 B/s");
  assertEquals(describeProgress(12 * mib, undefined, 2_000), "12 MiB  6 MiB/s");
  assertEquals(
    describeProgress(12 * mib, 24 * mib, 2_000),
    "[============            ] 50%  12 MiB of 24 MiB  6 MiB/s  2s left",
  );
  assertEquals(
    describeProgress(30 * mib, 24 * mib, 3_000),
    "[========================] 100%  30 MiB of 24 MiB  10 MiB/s  0ms left",
  );
});

Deno.test("progressIn() shows nothing of short work", () => {
  const { at, shown, update } = bar();
  update(1, 2);
  at(299);
  update(2, 2);
  assertEquals(shown, []);
});

Deno.test("progressIn() shows the progress at most ten times a second", () => {
  const { at, shown, update } = bar();
  for (let ms = 0; ms <= 1_000; ms += 10) {
    at(ms);
    update(ms, 1_000);
  }
  assertEquals(shown.length, 8);
  assertEquals(shown[0]?.startsWith("create shop  [=======  "), true);
});
