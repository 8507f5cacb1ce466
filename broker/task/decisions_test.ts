import { assertEquals, assertThrows } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import type { Conflict, DatabaseConflicts } from "./database_schema.ts";
import * as v from "valibot";
import { DECIDE_REQUEST, DECISIONS } from "./database_schema.ts";
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
  for (const none of [[], [found("shop", [])]]) {
    assertThrows(() => decide(none, { prefer: "ours" }), TaskdError, "nothing of this task is known to be in conflict");
  }
});

Deno.test("decide() refuses two decisions of one place, and takes what is named before what is not", () => {
  for (const take of ["ours", "theirs"] as const) {
    for (const db of [{ db: "shop" }, {}]) {
      const one = { ...db, ...place, take: "ours" } as const;
      assertThrows(() => decide(FOUND, { resolve: [one, { ...one, take }] }), TaskdError, "two decisions of");
    }
  }
  const cell = { ...place, take: "ours" } as const;
  const named = { db: "shop", ...place, take: "theirs" } as const;
  assertEquals(decide(FOUND, { resolve: [cell, named] }).map(({ db, take }) => [db, take]), [
    ["shop", "theirs"],
    ["stats", "ours"],
  ]);
});

Deno.test("decide() refuses a decision that was made of another value than the base has", () => {
  const one = { db: "shop", ...place, take: "theirs" } as const;
  for (const ours of [{ price: 9 }, { price: "2" }, {}, null]) {
    assertThrows(() => decide(FOUND, { resolve: [{ ...one, ours }] }), TaskdError, "the database has another value");
  }
  assertEquals(decide(FOUND, { resolve: [{ ...one, ours: { price: 2 } }] }), [{ ...one, ours: { price: 2 } }]);
  const gone = { db: "shop", table: "items", key: { id: 3 }, take: "ours", ours: null } as const;
  assertEquals(decide(FOUND, { resolve: [gone] }), [gone]);
});

Deno.test("as many decisions can be written down as conflicts are listed, of several databases", () => {
  const many = Array.from({ length: 1_000 }, (_, id): Conflict => ({ ...PRICE, key: { id } }));
  const decisions = decide([found("shop", many), found("stats", many)], { prefer: "ours" });
  assertEquals(decisions.length, 2_000);
  assertEquals(v.parse(DECISIONS, decisions), decisions);
  assertEquals(v.is(DECIDE_REQUEST, { resolve: decisions }), true);
});
