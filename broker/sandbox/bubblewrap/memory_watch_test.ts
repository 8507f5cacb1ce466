import { assertEquals } from "@std/assert";
import { membersOf, sharedBytes, threadsBytes } from "./memory_watch.ts";

Deno.test("a sandbox's processes are the descendants of its first one, whatever their session", () => {
  const listed =
    "  1   0  10\n 50   1  100\n 51  50   7\n 52  51   8\n 53   1  500\n 54  50   9\n 55  50   0\n 56   1   0\nnoise\n";
  const { pids, headless, resident_bytes } = membersOf(50, listed);
  assertEquals(pids.sort(), [50, 51, 52, 54, 55]);
  assertEquals(headless, [55]);
  assertEquals(resident_bytes, (100 + 7 + 8 + 9) * 1_024);
  assertEquals(membersOf(99, listed), { pids: [], headless: [], resident_bytes: 0 });
});

Deno.test("memory that processes share counts once", () => {
  const rollup = "55d0 ---p [rollup]\nRss:    100 kB\nPss:     40 kB\nPss_Anon:  4 kB\n";
  assertEquals(sharedBytes(rollup + rollup), 80 * 1_024);
});

Deno.test("what a thread has stands for a process whose first thread has ended", () => {
  assertEquals(threadsBytes("VmRSS: 307200 kB\nVmRSS: 8 kB\n"), 307_208 * 1_024);
  assertEquals(threadsBytes(""), 0);
});
