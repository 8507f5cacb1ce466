import { assertEquals } from "@std/assert";
import { decisionFacts } from "./decided.ts";

const AT = "2026-01-01T00:00:00.000Z";
const BY = { via: "page", who: "the holder" } as const;
const RESULTS = [
  { db: "shop", base: "main", branch: "task-1", result: "promoted", safety_branch: "main-pre-promote" },
  { db: "log", base: "main", branch: "task-1", result: "promoted" },
  { db: "stats", base: "main", branch: "task-1", result: "kept" },
];

Deno.test("decisionFacts() says who decided when, and which databases were promoted", () => {
  const approval = { diff_sha256: "ab".repeat(32), acknowledged: ["lockfile", "ci"], at: AT, by: BY };
  const table: [Partial<Parameters<typeof decisionFacts>[0]>, [string, string][]][] = [
    [{}, []],
    [{ approval }, [["Approved", AT], ["Approved by", "the holder, via page"], ["Acknowledged", "lockfile, ci"]]],
    [{ approval: { ...approval, acknowledged: [], seen: [] } }, [
      ["Approved", AT],
      ["Approved by", "the holder, via page"],
      ["Shown", "nothing that the client reports"],
    ]],
    [{ outcome: "denied" }, [["Denied", AT]]],
    [{ outcome: "denied", ended_by: BY }, [["Denied", AT], ["Denied by", "the holder, via page"]]],
    [{ outcome: "cancelled", ended_by: BY }, [["Killed", AT], ["Killed by", "the holder, via page"]]],
    [{ outcome: "cancelled", approval, ended_by: BY }, [
      ["Approved", AT],
      ["Approved by", "the holder, via page"],
      ["Acknowledged", "lockfile, ci"],
      ["Given up", AT],
      ["Given up by", "the holder, via page"],
    ]],
    [{ outcome: "cancelled" }, []],
    [{ push_asked: { at: AT, by: BY } }, [["Push asked", AT], ["Push asked by", "the holder, via page"]]],
    [{ evidence: { database_results: RESULTS } }, [
      ["Promoted", "shop@main (before: shop@main-pre-promote), log@main"],
    ]],
    ...[null, "x", [null, 1, [], "x", {}]].map((database_results) =>
      [{ evidence: { database_results } }, []] as [Partial<Parameters<typeof decisionFacts>[0]>, []]
    ),
  ];
  for (const [task, facts] of table) {
    assertEquals(decisionFacts({ stage_since: AT, evidence: {}, ...task }), facts, JSON.stringify(task));
  }
});
