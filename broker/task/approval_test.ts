import { assertEquals } from "@std/assert";
import { APPROVED, encodeAll, SHA, someOrder, staged, START_MS, TO_THE_GATE } from "../../tests/broker/task/lives.ts";
import { type GateAnswer, gateExpiresIn, judgeApproval, judgeDenial } from "./approval.ts";
import { foldRows } from "./record.ts";
import type { TaskRecord } from "./schema.ts";
import type { Move } from "./stages.ts";

const ID = "ab".repeat(16);
const ALL = { diff_sha256: SHA, acknowledge: ["ci_files", "lockfile"] };
/** The gate row is the fifth, a second apart; its timeout is a minute. */
const OPENED_MS = START_MS + 4_000;
const IN_TIME = { now_ms: OPENED_MS + 1 };

function after(...more: Move[]): TaskRecord {
  const events = [{ type: "created", task: someOrder(ID) } as const, ...[...TO_THE_GATE, ...more].map(staged)];
  return foldRows(encodeAll(events).map(({ row }) => row));
}

function short(answer: GateAnswer): string {
  return answer.status === 204 ? "204" : `${answer.status} ${answer.code}`;
}

Deno.test("the diff that was read, with every category, passes the gate", () => {
  const answer = judgeApproval(after(), ALL, IN_TIME);
  assertEquals(answer, { status: 204, move: APPROVED });
});

Deno.test("approving a stale diff is 409, and names the one at the gate", () => {
  for (const diff_sha256 of ["d2".repeat(32), "", SHA.toUpperCase(), SHA.slice(1)]) {
    const answer = judgeApproval(after(), { ...ALL, diff_sha256 }, IN_TIME);
    assertEquals(short(answer), "409 stale_diff");
    assertEquals(answer.status === 409 && answer.detail.includes(SHA), true);
  }
});

Deno.test("approving without every category is 422 and names what is missing, whatever else is named", () => {
  for (const [acknowledge, missing] of [[[], ["ci_files", "lockfile"]], [["binary", "lockfile", "*"], ["ci_files"]]]) {
    const answer = judgeApproval(after(), { ...ALL, acknowledge: acknowledge! }, IN_TIME);
    assertEquals(answer.status === 422 && answer.missing, missing!);
  }
});

Deno.test("categories that nobody asked about are not recorded as looked at", () => {
  const answer = judgeApproval(after(), { ...ALL, acknowledge: [...ALL.acknowledge, "made_up"] }, IN_TIME);
  assertEquals(answer, { status: 204, move: APPROVED });
});

Deno.test("approving twice, after a denial or after a kill is 409", () => {
  const denied: Move = { from: "awaiting_approval", to: "done", outcome: "denied", reason: "no" };
  const killed: Move = { from: "awaiting_approval", to: "done", outcome: "cancelled", reason: "killed" };
  for (const move of [APPROVED, denied, killed]) {
    assertEquals(short(judgeApproval(after(move), ALL, IN_TIME)), "409 wrong_state");
    assertEquals(short(judgeDenial(after(move), "no", IN_TIME)), "409 wrong_state");
  }
});

Deno.test("from the moment that approval_timeout has passed the gate is shut, denial written or not", () => {
  const at = (ms: number) => ({ now_ms: OPENED_MS + ms });
  assertEquals(short(judgeApproval(after(), ALL, at(59_999))), "204");
  assertEquals(short(judgeApproval(after(), ALL, at(60_000))), "409 expired");
  assertEquals(short(judgeDenial(after(), "no", at(60_000))), "409 expired");
});

Deno.test("a wall clock that is set back does not hold a gate open", () => {
  const back = { now_ms: OPENED_MS - 86_400_000, waited_ms: 60_000 };
  assertEquals(gateExpiresIn(after(), back), 0);
  assertEquals(short(judgeApproval(after(), ALL, back)), "409 expired");
});

// conformance: b2.effect.approval_timeout
Deno.test("a gate without a timeout waits for ever, and a task elsewhere has none", () => {
  const forever = after();
  forever.gate = { ...forever.gate!, timeout_ms: 0 };
  assertEquals(gateExpiresIn(forever, { now_ms: Number.MAX_SAFE_INTEGER }), undefined);
  assertEquals(short(judgeApproval(forever, ALL, { now_ms: Number.MAX_SAFE_INTEGER })), "204");
  assertEquals(gateExpiresIn(after(APPROVED), IN_TIME), undefined);
});
