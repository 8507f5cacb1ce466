import { assertEquals, assertStringIncludes } from "@std/assert";
import type { Decisions } from "./_clients.ts";
import { BASE_FILES, instructionOf, planOf, tagOf } from "./plan.ts";
import { blobId, type Branch, type Trace } from "./traces.ts";
import { evaluate, type World } from "./_verdicts.ts";

const ID = "a".repeat(32);
const OTHER = "b".repeat(32);
const ITEM = "c".repeat(32);
const SHA = "d".repeat(64);
/** A task that writes. */
const TAG = Array.from({ length: 50 }, (_, number) => tagOf(1, number)).find((tag) => planOf(tag).files.size === 2)!;

interface Parts {
  trace: Trace;
  branch: Branch;
  decisions: Decisions;
  world: World;
}

/** A world in which one queued task was approved, pushed and paid for. */
function good(): Parts {
  const trace: Trace = {
    id: ID,
    instruction: instructionOf(planOf(TAG)),
    repo: "/acme/one.git",
    queue_id: ITEM,
    started_ms: 1_000,
    ended_ms: 2_000,
    rows: ["created", "stage", "output", "claimed", "spend", "stage"],
    stages: ["admission", "staging", "done"],
    outcomes: ["pushed"],
    reason: "pushed",
    approved_diff: SHA,
    tree: "tree",
    base_commit: "base",
    pushed: { branch: `agent/${ID}`, commit: "commit" },
    spent: { usd: 0.5, requests: 2, unmetered_requests: 1 },
    fault: undefined,
  };
  const changes = new Map([...planOf(TAG).files].map(([path, text]) => [path, blobId(text)]));
  const branch: Branch = { name: `agent/${ID}`, commit: "commit", parents: "base", tree: "tree", changes };
  const decisions: Decisions = {
    approvals_sent: [SHA],
    approved: true,
    denial_sent: false,
    denied: false,
    end_sent: false,
    ended: false,
  };
  const world: World = {
    orders: [{ tag: TAG, via: "queue", fate: "accepted", id: ITEM }],
    decisions: new Map([[ID, decisions]]),
    followings: [{ id: ID, rows: [1, 2, 3, 5, 6], stages: ["admission", "staging"], results: ["pushed"], over: true }],
    traces: [trace],
    items: [{ id: ITEM, state: "completed", task_id: ID, request: { instruction: trace.instruction } }],
    ledger: new Map([[ID, 0.5]]),
    branches: [branch],
    bill: [
      { tag: TAG, fate: "whole", usd: 0.5, reported_usd: 0.5, unmetered: false },
      { tag: TAG, fate: "cut_before_usage", usd: 0.2, reported_usd: 0, unmetered: true },
    ],
    kills: 0,
    slots: 1,
    max_starts: 1,
    window_ms: 5_000,
  };
  return { trace, branch, decisions, world };
}

Deno.test("a run in which every promise was kept has no violation, and its money is accounted for", () => {
  const { violations, money } = evaluate(good().world);
  assertEquals(violations, []);
  assertEquals([money.billed_usd, money.metered_usd, money.unreported_usd, money.lost_usd], [0.7, 0.5, 0.2, 0]);
  assertEquals(Object.keys(BASE_FILES).some((path) => planOf(TAG).files.has(path)), false);
});

/** What can be wrong, and the words by which the verdict has to say so. */
const WRONGS: [what: string, says: string, harm: (parts: Parts) => Partial<World> | void][] = [
  ["a task without an end", "0 outcomes", ({ trace }) => void (trace.outcomes = [])],
  ["a broken chain", "does not follow", ({ trace }) => void (trace.fault = "row 2 does not follow the one before")],
  ["an accepted item that is lost", "is gone", () => ({ items: [] })],
  ["an item that was begun twice", "begun 2 times", ({ trace }) => ({ traces: [trace, { ...trace, id: OTHER }] })],
  ["a task that was refused and begun", "was refused and is there", ({ world }) => ({
    orders: [{ ...world.orders[0]!, fate: "refused" }],
  })],
  ["an item that says something else than its task", "is cancelled and its task", ({ world }) => ({
    items: [{ ...world.items[0]!, state: "cancelled" }],
  })],
  [
    "a branch that no client has approved",
    "no client has approved it",
    ({ decisions }) => void decisions.approvals_sent.pop(),
  ],
  ["a branch with another tree than the approved one", "has the tree", ({ branch }) => void (branch.tree = "other")],
  ["a branch with a foreign file", "changes", ({ branch }) => void branch.changes.set("evil", "blob")],
  ["a pushed task whose remote has nothing", "no remote has it", () => ({ branches: [] })],
  ["a branch of a task that failed", "is on the remote", ({ trace }) => void (trace.outcomes = ["push_failed"])],
  ["an approval that came to nothing", "was approved", ({ trace }) => void (trace.outcomes = ["cancelled"])],
  ["a follower who missed a row", "saw the rows", ({ world }) => void world.followings[0]!.rows.splice(2, 1)],
  ["a follower who saw a row twice", "saw the rows", ({ world }) => void world.followings[0]!.rows.push(6)],
  ["a request that was billed and not counted", "2 requests, the vendor 3", ({ world }) => ({
    bill: [...world.bill, { tag: TAG, fate: "never_answered", usd: 0.1, reported_usd: 0, unmetered: true }],
  })],
  ["a request that no vendor saw", "3 requests, the vendor 2", ({ trace }) => void (trace.spent!.requests = 3)],
  ["a figure that is not the vendor's", "the vendor reported $0.5", ({ trace }) => void (trace.spent!.usd = 0.4)],
  ["a request whose cost was taken for known", "unmetered", ({ trace }) => void (trace.spent!.unmetered_requests = 0)],
  ["a start that the ledger lacks", "no start of the ledger", () => ({ ledger: new Map() })],
  ["a start that cost something else", "the ledger $0.4", () => ({ ledger: new Map([[ID, 0.4]]) })],
  ["an unknown cost although no broker was killed", "does not know", () => ({ ledger: new Map([[ID, null]]) })],
  ["more starts in a window than the ceiling has", "was start 2 in a window of 1", ({ trace }) => ({
    traces: [trace, { ...trace, id: OTHER, started_ms: 5_500, ended_ms: 5_600 }],
  })],
  ["requests for a task that there never was", "no such task", ({ world }) => ({
    bill: [...world.bill, { ...world.bill[0]!, tag: tagOf(1, 9_999) }],
  })],
];
for (const [what, says, harm] of WRONGS) {
  Deno.test(`the verdict of a soak finds ${what}`, () => {
    const parts = good();
    const world = { ...parts.world, ...harm(parts) };
    assertStringIncludes(evaluate(world).violations.join("\n"), says);
  });
}
