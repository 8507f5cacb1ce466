import { assertEquals } from "@std/assert";
import { isWaiting, OUTCOMES, STAGES } from "../../broker/task/stages.ts";
import type { Outcome, Stage } from "../../broker/task/stages.ts";
import { age, approveCommand, isSuccess, nextSteps, spendWord, spendWords } from "./_task_text.ts";

const METERED = { usd: 0.01234, requests: 1, unmetered_requests: 0, input_tokens: 7, output_tokens: 3, priced: true };

// conformance: b2.spend.agent
Deno.test("spendWord() marks what is unmetered, what is a lower bound, and what only the agent says", () => {
  const table = [
    [{}, "-"],
    [{ spend: METERED }, "$0.0123"],
    [{ spend: METERED, live: { ...METERED, usd: 0.5 } }, "$0.5000"],
    [{ spend: { ...METERED, priced: false } }, "$0.0123+"],
    [{ spend: { ...METERED, usd: 0, priced: false } }, "unmetered"],
    [{ claimed_usd: 0.5 }, "$0.50 agent-reported"],
    [{ spend: METERED, claimed_usd: 0.5 }, "$0.0123"],
    [{ spend: { ...METERED, usd: 0, requests: 0 }, claimed_usd: 0.5 }, "$0.0000"],
    [{ live: METERED, claimed_usd: 0.5 }, "$0.0123"],
  ] as const;
  for (const [spent, word] of table) assertEquals(spendWord(spent), word);
});

Deno.test("spendWords() counts the requests", () => {
  assertEquals(spendWords({ spend: METERED }), "$0.0123 (1 request)");
  const mixed = { ...METERED, requests: 3, unmetered_requests: 2, priced: false };
  assertEquals(spendWords({ spend: mixed }), "$0.0123+ (3 requests, 2 unmetered)");
  assertEquals(spendWords({ claimed_usd: 1 }), "$1.00 agent-reported");
});

Deno.test("age() counts whole seconds, and nothing below or before", () => {
  const now_ms = Date.UTC(2026, 0, 1);
  const table: [number, string][] = [[-5_000, "0s"], [999, "0s"], [59_999, "59s"], [61_000, "1m 1s"], [
    7_200_000,
    "2h",
  ]];
  for (const [ms, word] of table) assertEquals(age(new Date(now_ms - ms).toISOString(), now_ms), word);
});

Deno.test("approveCommand() quotes for a shell what no category should hold", () => {
  const gate = { diff_sha256: "ab".repeat(32), second_look: ["lockfile", "it's; rm -rf /"] };
  assertEquals(
    approveCommand("0123456789abcdef".repeat(2), gate),
    `taskd approve 0123456789ab --diff abababababababab --acknowledge lockfile --acknowledge 'it'\\''s; rm -rf /'`,
  );
});

Deno.test("every stage and outcome has its next step, and only three outcomes are successes", () => {
  const id = "0123456789abcdef".repeat(2);
  for (const stage of Object.keys(STAGES) as Stage[]) {
    if (stage === "done") continue;
    const command = stage === "awaiting_approval"
      ? "taskd review 0123456789ab"
      : isWaiting(stage)
      ? "taskd push 0123456789ab"
      : "taskd logs 0123456789ab -f";
    assertEquals(nextSteps(id, { stage })[0], command);
    const good = stage === "awaiting_approval" || stage === "awaiting_ci";
    assertEquals(isSuccess({ stage }), good, stage);
  }
  const successes = (Object.keys(OUTCOMES) as Outcome[]).filter((outcome) => isSuccess({ stage: "done", outcome }));
  assertEquals(successes.toSorted(), ["no_diff", "promoted", "pushed"]);
  for (const outcome of Object.keys(OUTCOMES) as Outcome[]) {
    assertEquals(nextSteps(id, { stage: "done", outcome }).length > 0, !successes.includes(outcome), outcome);
  }
});
