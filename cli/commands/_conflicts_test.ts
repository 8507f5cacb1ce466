import { assertEquals } from "@std/assert";
import type { MergeConflict } from "../../lib/merge/conflicts.ts";
import { conflictLines } from "./_conflicts.ts";

const cells = (line: string) => line.split(/ {2,}/).map((cell) => cell.trim()).filter((cell) => cell !== "");

Deno.test("conflicts are a table of values, with what SQLite says of those that have none", async () => {
  const conflicts: MergeConflict[] = [
    { kind: "deleted_and_changed", table: "t", key: { id: 1 }, base: { a: 1 }, theirs: { a: 2 } },
    { kind: "definition", table: "v", detail: "no such table: t" },
  ];
  const [table, ...rest] = await conflictLines(conflicts, 3, undefined);
  const [, of_row, of_view] = table!.split("\n");
  assertEquals(cells(of_row!), ["t", "id=1", "deleted and changed", "a=1", "absent", "a=2"]);
  assertEquals(cells(of_view!), ["v", "definition"]);
  assertEquals(rest, ["v: no such table: t", "and 1 more: --json"]);
});
