import { assertEquals } from "@std/assert";
import { buildBrief } from "./brief.ts";
import { briefTables, seenOf, seenText } from "./seen.ts";

const BRIEF = {
  ...buildBrief({ task_id: "t", instruction: "i", repo: "r", agent: "a" }),
  databases: [{
    db: "shop",
    base: "main",
    changed: true,
    tables: [
      {
        table: "items",
        change: "changed" as const,
        rows_added: 1,
        rows_removed: 30,
        rows_changed: 2,
        rows: [{ change: "added" as const, key: {} }],
      },
      { table: "seen", change: "added" as const, rows_added: 5, rows_removed: 0, rows_changed: 0 },
    ],
    more_tables: 0,
    schema: [],
    more_schema: 0,
    other_changes: false,
  }],
};

Deno.test("what was shown has the files that were read as ranges, and of each table the rows", () => {
  const seen = seenOf(BRIEF, [true, true, false, true], briefTables(BRIEF.databases));
  assertEquals(seen, [
    { part: "brief", from: 1, to: 1, of: 1 },
    { part: "files", from: 1, to: 2, of: 4 },
    { part: "files", from: 4, to: 4, of: 4 },
    { part: "rows", name: "shop@main items", from: 1, to: 1, of: 33 },
  ]);
  assertEquals(seenText(seen), "brief; files 1-2,4-4 (4); rows of shop@main items 1-1 (33)");
});

Deno.test("nothing was shown without a brief, and a change with every other file read has its bound", () => {
  assertEquals(seenOf(null, [true], []), []);
  assertEquals(seenOf(BRIEF, Array.from({ length: 10_000 }, (_, at) => at % 2 === 0), []).length, 512);
});
