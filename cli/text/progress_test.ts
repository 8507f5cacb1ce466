import { assertEquals } from "@std/assert";
import { describeProgress, Progress } from "./progress.ts";

function bar(): { at: (ms: number) => void; written: string[]; progress: Progress } {
  let now_ms = 0;
  const written: string[] = [];
  const progress = new Progress({
    label: "create shop",
    columns: 40,
    now: () => now_ms,
    write: (text) => written.push(text),
  });
  return { at: (ms) => now_ms = ms, written, progress };
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

Deno.test("Progress draws nothing for short work", () => {
  const { at, written, progress } = bar();
  progress.update(1, 2);
  at(299);
  progress.update(2, 2);
  progress.clear();
  assertEquals(written, []);
});

Deno.test("Progress draws at most ten times a second, within the terminal, and leaves no trace", () => {
  const { at, written, progress } = bar();
  for (let ms = 0; ms <= 1_000; ms += 10) {
    at(ms);
    progress.update(ms, 1_000);
  }
  assertEquals(written.length, 8);
  for (const line of written) assertEquals(line.replace("\r\x1b[K", "").length, 39);
  progress.clear();
  assertEquals(written.at(-1), "\r\x1b[K");
});
