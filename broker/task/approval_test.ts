import { assertEquals, assertThrows } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import {
  APPROVED,
  encodeAll,
  foldRows,
  SHA,
  someOrder,
  staged,
  START_MS,
  TO_THE_GATE,
} from "../../tests/broker/task/lives.ts";
import { approvalMove, denialMove, gateExpiresIn } from "./approval.ts";
import { NotAcknowledged } from "./not_acknowledged.ts";
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

/** The code that `attempt` is refused with; undefined when it is not. */
function refusal(attempt: () => Move): string | undefined {
  try {
    attempt();
    return undefined;
  } catch (error) {
    return error instanceof TaskdError ? error.code : String(error);
  }
}

Deno.test("the diff that was read, with every category, passes the gate", () => {
  assertEquals(approvalMove(after(), ALL, IN_TIME), APPROVED);
});

Deno.test("approving a stale diff is refused as stale_diff, which names the one at the gate", () => {
  for (const diff_sha256 of ["d2".repeat(32), "", SHA.toUpperCase(), SHA.slice(1)]) {
    const error = assertThrows(() => approvalMove(after(), { ...ALL, diff_sha256 }, IN_TIME), TaskdError, SHA);
    assertEquals(error.code, "stale_diff");
  }
});

Deno.test("approving without every category is refused with what is missing, whatever else is named", () => {
  for (const [acknowledge, missing] of [[[], ["ci_files", "lockfile"]], [["binary", "lockfile", "*"], ["ci_files"]]]) {
    const request = { ...ALL, acknowledge: acknowledge! };
    assertEquals(assertThrows(() => approvalMove(after(), request, IN_TIME), NotAcknowledged).missing, missing!);
  }
});

Deno.test("categories that the gate does not ask for are not recorded as looked at", () => {
  assertEquals(approvalMove(after(), { ...ALL, acknowledge: [...ALL.acknowledge, "made_up"] }, IN_TIME), APPROVED);
});

Deno.test("approving twice, after a denial or after a kill is refused as wrong_state", () => {
  const denied: Move = { from: "awaiting_approval", to: "done", outcome: "denied", reason: "no" };
  const killed: Move = { from: "awaiting_approval", to: "done", outcome: "cancelled", reason: "killed" };
  for (const move of [APPROVED, denied, killed]) {
    assertEquals(refusal(() => approvalMove(after(move), ALL, IN_TIME)), "wrong_state");
    assertEquals(refusal(() => denialMove(after(move), "no", IN_TIME)), "wrong_state");
  }
});

Deno.test("from the moment that approval_timeout has passed the gate is shut, denial written or not", () => {
  const at = (ms: number) => ({ now_ms: OPENED_MS + ms });
  assertEquals(refusal(() => approvalMove(after(), ALL, at(59_999))), undefined);
  assertEquals(refusal(() => approvalMove(after(), ALL, at(60_000))), "expired");
  assertEquals(refusal(() => denialMove(after(), "no", at(60_000))), "expired");
});

Deno.test("a wall clock that is set back does not hold a gate open", () => {
  const back = { now_ms: OPENED_MS - 86_400_000, waited_ms: 60_000 };
  assertEquals(gateExpiresIn(after(), back), 0);
  assertEquals(refusal(() => approvalMove(after(), ALL, back)), "expired");
});

// conformance: b2.effect.approval_timeout
Deno.test("a gate without a timeout waits without end, and a task elsewhere has none", () => {
  const forever = after();
  forever.gate = { ...forever.gate!, timeout_ms: 0 };
  assertEquals(gateExpiresIn(forever, { now_ms: Number.MAX_SAFE_INTEGER }), undefined);
  assertEquals(refusal(() => approvalMove(forever, ALL, { now_ms: Number.MAX_SAFE_INTEGER })), undefined);
  assertEquals(gateExpiresIn(after(APPROVED), IN_TIME), undefined);
});
