import { assertEquals, assertStringIncludes } from "@std/assert";
import type { BenchCase, BenchPart } from "./bench.ts";
import type { Figure, Report } from "./figures.ts";
import { benchmarksPage, caseRows, textReport } from "./report.ts";

const stats = (p50: number, n = 20) => ({ n, min: p50 / 2, p5: p50 / 2, p50, p95: p50 * 2, max: p50 * 3 });
const figure = (subject: string, p50: number, more: Partial<Figure> = {}): Figure => ({
  case: "fork",
  subject,
  place: "xfs",
  size_mb: 12,
  unit: "ms",
  stats: stats(p50),
  ...more,
});
const CASE: BenchCase = {
  name: "fork",
  title: "Fork a branch",
  method: "How.",
  places: "each",
  run: () => Promise.resolve(),
};

const PART: BenchPart = { name: "store", title: "Branch store", method: ["With care."], cases: [CASE] };
const OTHER: BenchPart = { name: "broker", title: "Task broker", method: [], cases: [{ ...CASE, name: "proxy" }] };

Deno.test("caseRows() sets a figure beside another of its place, size and unit", () => {
  const rows = caseRows([
    figure("taskd fork", 2, { target: { value: 3, is: "at_most" } }),
    figure("cp", 250, { beside: "taskd fork" }),
    figure("stored", 289, { unit: "bytes", stats: stats(289, 1) }),
    figure("taskd fork", 4, { size_mb: 100, target: { value: 3, is: "at_most" } }),
    figure("VACUUM INTO", 1_234.5, { size_mb: 100, beside: "taskd fork" }),
  ]);
  assertEquals(rows.slice(1).map((row) => row.slice(2)), [
    ["taskd fork", "2.00 ms", "4.00", "1.00", "20", "", "<= 3 met"],
    ["cp", "250 ms", "500", "125", "20", "x125", ""],
    ["stored", "289 bytes", "", "", "1", "", ""],
    ["taskd fork", "4.00 ms", "8.00", "2.00", "20", "", "<= 3 MISSED"],
    ["VACUUM INTO", "1235 ms", "2469", "617", "20", "x309", ""],
  ]);
});

Deno.test("both reports show every figure and everything that was skipped", () => {
  const report: Report = {
    format: 1,
    started_at: "2026-01-02T03:04:05.000Z",
    duration_seconds: 61,
    quick: false,
    machine: { processor: "a fast one" },
    figures: [
      figure("taskd fork", 4, { target: { value: 3, is: "at_most" } }),
      figure("taskd fork", 2, { place: "ext4", target: { value: 3, is: "at_most" } }),
      figure("cp", 500, { place: "ext4", beside: "taskd fork" }),
    ],
    skipped: [{ case: "fork", subject: "4096 MB", reason: "no room" }],
  };
  for (const text of [textReport(report, [CASE]), benchmarksPage(report, [PART, OTHER], "")]) {
    for (const part of ["Fork a branch", "taskd fork", "x250", "4096 MB", "no room"]) assertStringIncludes(text, part);
  }
  const page = benchmarksPage(report, [PART, OTHER], "");
  assertStringIncludes(page, "Run of 2026-01-02, 61 s, on:");
  assertStringIncludes(
    page,
    "1 of 2 targets are met in this run. Missed:\n\n- taskd fork at 12 MB on xfs: 4.00 ms, goal at most 3",
  );
});

Deno.test("a part of the page without figures in the run stays as it was, the other is drawn anew", () => {
  const report = { format: 1, started_at: "2026-01-02T03:04:05.000Z", duration_seconds: 1, quick: true, machine: {} };
  const first: Report = { ...report, format: 1, figures: [figure("taskd fork", 4)], skipped: [] };
  const second: Report = { ...report, format: 1, figures: [figure("tunnels", 9, { case: "proxy" })], skipped: [] };
  const page = benchmarksPage(first, [PART, OTHER], "# Something else\n");
  const both = benchmarksPage(second, [PART, OTHER], page);
  assertEquals(both.startsWith(page.trimEnd()), true);
  assertStringIncludes(both.slice(page.length), "## Task broker");
  assertStringIncludes(both.slice(page.length), "tunnels");
  assertEquals(benchmarksPage(first, [PART, OTHER], both), both);
});
