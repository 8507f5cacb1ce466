import * as v from "valibot";
import { assertEquals, assertThrows } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import {
  assertMove,
  isWaiting,
  type LooseMove,
  type Move,
  moveProblem,
  type Outcome,
  STAGE,
  type Stage,
  STAGES,
} from "./stages.ts";

const SHA = "0".repeat(64);
const CARGO = {
  gate: { diff_sha256: SHA, second_look: [], timeout_ms: 0 },
  approval: { diff_sha256: SHA, acknowledged: [] },
  pushed: { branch: "agent/1", commit: "c" },
};
const BY = { via: "page", who: "anyone" } as const;
const ALL = Object.keys(STAGES) as Stage[];

/** Every move there could be, each with the cargo that the table wants of it. */
function* moves(from: Stage): Generator<LooseMove> {
  yield { from, to: "awaiting_approval", gate: CARGO.gate, ...from === "pushing" ? { reason: "r" } : {} };
  yield { from, to: "awaiting_ci", pushed: CARGO.pushed };
  yield { from, to: "pushing", ...isWaiting(from) ? { reason: "r" } : { approval: CARGO.approval } };
  yield { from, to: "push_failed", reason: "r" };
  yield { from, to: "data_waits", reason: "r", pushed: CARGO.pushed };
  for (const to of ["admission", "staging", "setting_up", "running", "collecting"] as const) yield { from, to };
  const outcomes: Outcome[] = ["no_diff", "denied", "cancelled", "timed_out", "setup_failed", "agent_failed"];
  outcomes.push("policy_blocked", "push_failed");
  for (const outcome of outcomes) yield { from, to: "done", outcome, reason: "r" };
  yield { from, to: "done", outcome: "pushed", reason: "r", pushed: CARGO.pushed };
}

Deno.test("a task moves only where the table says", () => {
  for (const from of ALL) {
    const { next, ends }: { next: readonly string[]; ends: readonly string[] } = STAGES[from];
    for (const move of moves(from)) {
      const allowed = move.to === "done" ? ends.includes(move.outcome!) : next.includes(move.to);
      assertEquals(moveProblem(from, move) === undefined, allowed, JSON.stringify(move));
    }
  }
});

Deno.test("every stage but the last leads to an end", () => {
  const ends = (stage: Stage): boolean => {
    const row: { next: readonly Stage[]; ends: readonly string[] } = STAGES[stage];
    // Back to a round that has not landed, and to its end.
    return row.ends.length > 0 && row.next.every((next) => next === "pushing" || ends(next));
  };
  for (const stage of ALL) assertEquals(ends(stage), stage !== "done", stage);
});

Deno.test("a move without what it has to carry is refused, and so is one with more", () => {
  const bad: LooseMove[] = [
    { from: "collecting", to: "awaiting_approval" },
    { from: "collecting", to: "pushing" },
    { from: "collecting", to: "pushing", approval: CARGO.approval },
    { from: "awaiting_approval", to: "pushing" },
    { from: "pushing", to: "awaiting_ci" },
    { from: "pushing", to: "push_failed" },
    { from: "pushing", to: "data_waits", reason: "r" },
    { from: "push_failed", to: "pushing" },
    { from: "push_failed", to: "pushing", reason: "r", approval: CARGO.approval },
    { from: "pushing", to: "done", outcome: "pushed", reason: "r" },
    { from: "running", to: "done", outcome: "timed_out" },
    { from: "running", to: "collecting", outcome: "pushed" },
    { from: "running", to: "done", reason: "r" },
    { from: "running", to: "collecting", by: BY },
    { from: "running", to: "done", outcome: "agent_failed", reason: "r", by: BY },
  ];
  for (const move of bad) assertEquals(typeof moveProblem(move.from, move), "string", JSON.stringify(move));
  const killed = { to: "done", outcome: "cancelled", reason: "r", by: BY } as const;
  for (const from of ALL.filter((stage) => (STAGES[stage].ends as readonly Outcome[]).includes("cancelled"))) {
    assertEquals(moveProblem(from, { from, ...killed }), undefined, from);
  }
});

Deno.test("a move from a stage that the task has left is a conflict that names the stage", () => {
  const late: Move = { from: "awaiting_approval", to: "done", outcome: "denied", reason: "no" };
  const error = assertThrows(() => assertMove("ab".repeat(16), "pushing", late), TaskdError);
  assertEquals(error.code, "conflict");
  assertEquals(error.message.endsWith("the task is in pushing, not in awaiting_approval"), true);
});

Deno.test("a move that the table does not have does not compile", () => {
  // @ts-expect-error a running task has nothing to push
  const skip: Move = { from: "running", to: "pushing", approval: CARGO.approval };
  // @ts-expect-error nothing was approved yet
  const unapproved: Move = { from: "collecting", to: "pushing", approval: CARGO.approval };
  // @ts-expect-error the gate opens for a named diff only
  const bare: Move = { from: "awaiting_approval", to: "pushing" };
  // @ts-expect-error nothing was approved
  const early: Move = { from: "staging", to: "done", outcome: "denied", reason: "r" };
  for (const move of [skip, unapproved, bare, early]) assertEquals(typeof moveProblem(move.from, move), "string");
});

Deno.test("the names of Object's own members are no stages", () => {
  assertEquals(["running", "constructor", "__proto__", ""].filter((name) => v.is(STAGE, name)), ["running"]);
});

Deno.test("docs/reference/trace_and_brief.md has the stages as they are", async () => {
  const document = await Deno.readTextFile(new URL("../../docs/reference/trace_and_brief.md", import.meta.url));
  const words = (cell: string) => [...cell.matchAll(/`(\w+)`/g)].map((match) => match[1]!);
  const documented = document.replaceAll(/\n {2,}/g, " ").split("\n").flatMap((line) => {
    const [, stage = "", next = "", ends = ""] = /^- `(\w+)`(?: → ([^;]*);|:) *(.*)$/.exec(line) ?? [];
    return v.is(STAGE, stage) ? [[stage, words(next), words(ends)]] : [];
  });
  assertEquals(documented, ALL.map((stage) => [stage, [...STAGES[stage].next], [...STAGES[stage].ends]]));
});
