import { assertEquals, assertThrows } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import type { Conflict, DatabaseConflicts } from "./database_schema.ts";
import { decide } from "./decisions.ts";

const PRICE: Conflict = {
  kind: "changed_twice",
  table: "items",
  key: { id: 2 },
  column: "price",
  base: { price: 1 },
  ours: { price: 2 },
  theirs: { price: 3 },
};
const GONE: Conflict = { kind: "deleted_and_changed", table: "items", key: { id: 3 }, theirs: { id: 3 } };
const RULE: Conflict = { kind: "constraint", table: "items", key: { id: 4 }, detail: "UNIQUE" };
const found = (db: string, conflicts: Conflict[]): DatabaseConflicts => {
  return { db, base: "main", txid: 1, conflicts, total: conflicts.length };
};
const FOUND = [found("shop", [PRICE, GONE, RULE]), found("stats", [PRICE])];
const place = { table: "items", key: { id: 2 }, column: "price" };

Deno.test("decide() writes down each decision with what the base had, single ones before the rest", () => {
  assertEquals(decide(FOUND, { prefer: "ours", resolve: [{ db: "stats", ...place, take: "theirs" }] }), [
    { db: "shop", ...place, take: "ours", ours: { price: 2 } },
    { db: "shop", table: "items", key: { id: 3 }, take: "ours", ours: null },
    { db: "stats", ...place, take: "theirs", ours: { price: 2 } },
  ]);
  const row = { table: "items", key: { id: 2 } };
  const decided = decide(FOUND, { resolve: [{ ...row, take: "theirs" }] });
  assertEquals(decided.map(({ db, column, take }) => [db, column, take]), [
    ["shop", "price", "theirs"],
    ["stats", "price", "theirs"],
  ]);
  assertEquals(decide(FOUND), []);
});

Deno.test("decide() refuses a decision of what is not in conflict, or has no two values", () => {
  const stray = [
    { table: "items", key: { id: 9 } },
    { table: "items", key: { id: 4 } },
    { db: "stats", table: "items", key: { id: 3 } },
  ];
  for (const one of stray) {
    assertThrows(() => decide(FOUND, { resolve: [{ ...one, take: "ours" }] }), TaskdError, "nothing is in conflict at");
  }
  assertThrows(() => decide([], { prefer: "ours" }), TaskdError, "nothing of this task is known to be in conflict");
});
