import { assertEquals, assertStringIncludes } from "@std/assert";
import { growth, type StoreUse } from "./_store_soak.ts";

const HOUR_MS = 3_600_000;
const USE: StoreUse = { at_ms: 0, rss_bytes: 300 << 20, open_files: 60, threads: 20, disk_bytes: 1 << 20 };
const with_rss = (...mib: number[]) => mib.map((each) => ({ ...USE, rss_bytes: each << 20 }));

Deno.test("growth() finds nothing in a daemon that stays as it is, or has used less since", () => {
  const samples = with_rss(200, 300, 320, 310, 330, 300, 300, 310, 320, 380, 380, 385);
  assertEquals(growth({ before: USE, samples, after: { ...USE, threads: 9 } }, HOUR_MS), []);
});

Deno.test("growth() compares the end with what was used after a sixth of a long run", () => {
  const samples = with_rss(200, 300, 320, 310, 330, 300, 300, 310, 320, 380, 390, 400);
  const parts = { before: USE, samples, after: USE };
  assertStringIncludes(growth(parts, HOUR_MS).join(), "grew from 300 MiB after a sixth of the time to 400 MiB");
  assertEquals(growth(parts, 30_000), []);
});

Deno.test("growth() finds memory beyond every measure, and descriptors and threads that stay", () => {
  const after = { ...USE, open_files: 80, threads: 30 };
  assertEquals(growth({ before: USE, samples: with_rss(300, 700), after }, 30_000), [
    "the store daemon took 700 MiB",
    "the store daemon had 60 open_files before the load, and has 80 after it",
    "the store daemon had 20 threads before the load, and has 30 after it",
  ]);
});
