import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Admission } from "../../../broker/admission/admission.ts";
import type { TaskRecord } from "../../../broker/task/schema.ts";
import { hasCode } from "../../../lib/errors.ts";
import { someOrder } from "../task/lives.ts";
import { DAY_MS, figures, HOUR_MS, refusal, settlement, Site, someId, START } from "./site.ts";

const ended_at = "2026-01-01T00:00:00.000Z";

/** A task that an earlier broker left at its gate. */
function atTheGate(id: string, usd: number): TaskRecord {
  return {
    ...someOrder(id),
    stage: "awaiting_approval",
    created_at: ended_at,
    updated_at: ended_at,
    stage_since: ended_at,
    push_attempts: [],
    evidence: {},
    seq: 4,
    spend: figures(usd),
  };
}

// conformance: b2.ceiling.off
Deno.test("with both limbs at 0 no ledger is opened and no file made, also when tasks end", async () => {
  await using site = await Site.make({});
  await site.run(3);
  await site.restart();
  assertEquals([...Deno.readDirSync(site.audit_root)], []);
  const view = site.admission.ceiling();
  assertEquals([view.enabled, view.headroom_usd, view.headroom_starts, view.starts], [false, null, null, 0]);
});

Deno.test("with both limbs at 0 an audit directory that cannot hold a ledger prevents no start", async () => {
  await using site = await Site.make({});
  Deno.writeTextFileSync(`${site.audit_root}/global`, "a file");
  await site.restart();
  assertEquals(refusal(site.admission), undefined);
  assertEquals(site.admission.warnings, []);
});

// conformance: b2.effect.max_concurrent_tasks
Deno.test("200 concurrent submissions get as many slots as there are", async () => {
  await using site = await Site.make({ max_concurrent_tasks: 7 });
  const results = await Promise.allSettled(
    Array.from({ length: 200 }, async () => {
      await Promise.resolve();
      return site.admission.claim(START);
    }),
  );
  const refused = results.filter((result) => result.status === "rejected");
  assertEquals(refused.length, 193);
  assert(refused.every(({ reason }) => hasCode(reason, "at_capacity")));
});

// conformance: b2.effect.global_max_tasks
Deno.test("200 concurrent submissions never overshoot the task limb", async () => {
  await using site = await Site.make({ max_concurrent_tasks: 1_000, global_max_tasks: 1_000 });
  site.settings = { ...site.settings, global_max_tasks: 50, max_concurrent_tasks: 1_000 };
  await site.restart();
  const results = await Promise.allSettled(
    Array.from({ length: 200 }, async (_, n) => {
      if (n % 3 === 0) await Promise.resolve();
      const { claim } = site.begin();
      if (n % 2 === 0) await claim.end({ outcome: "no_diff", ended_at, spend: figures(0) });
    }),
  );
  assertEquals(results.filter(({ status }) => status === "fulfilled").length, 50);
  assertEquals(site.admission.ceiling().starts, 50);
});

// conformance: b2.ceiling.in_flight
Deno.test("a task that waits for a person holds no slot and still counts as a start", async () => {
  await using site = await Site.make({ max_concurrent_tasks: 1, global_max_tasks: 3 });
  const { claim } = site.begin();
  assertEquals(refusal(site.admission)?.code, "at_capacity");
  claim.releaseSlot();
  claim.releaseSlot();
  assertEquals(refusal(site.admission), undefined);
  const view = site.admission.ceiling();
  assertEquals([view.recorded_starts, view.in_flight_starts, view.starts, view.headroom_starts], [0, 1, 1, 2]);
});

Deno.test("an abandoned start is released; one that has ended is recorded once", async () => {
  await using site = await Site.make({ max_concurrent_tasks: 1, global_max_tasks: 5 });
  site.admission.claim(START).abandon();
  const { claim } = site.begin();
  await claim.end({ outcome: "cancelled", ended_at });
  await claim.end({ outcome: "pushed", ended_at });
  claim.abandon();
  assertEquals(site.admission.ceiling().starts, 1);
  assertEquals(site.lines().map(({ kind }) => kind), ["opened", "start"]);
});

// conformance: b2.effect.global_budget_usd b2.ceiling.scope b2.ceiling.in_flight b7.refusal
Deno.test("the USD limb counts what is under way, and refuses from the budget on", async () => {
  await using site = await Site.make({ max_concurrent_tasks: 9, global_budget_usd: 5 });
  await site.run(3);
  const { id, claim } = site.begin({ lane: "vendor_b", auth: "subscription", agent: "agent_b" });
  site.admission.settled(settlement(id, 1.99, { lane: "vendor_b", auth: "subscription" }));
  assertEquals(refusal(site.admission), undefined);
  site.admission.settled(settlement(id, 0.01, { lane: "vendor_b", auth: "subscription" }));
  const refused = refusal(site.admission);
  assertEquals(refused?.code, "ceiling_reached");
  for (const part of ["USD limb", "global_budget_usd", "$5.00 of $5.00", "24h", "$2.00 of it by tasks under way"]) {
    assertStringIncludes(refused!.message, part);
  }
  assertStringIncludes(refused!.message, "raise global_budget_usd");
  assertStringIncludes(refused!.message, `remove ${site.ledger}`);
  assertStringIncludes(refused!.message, "ages out in 1d");
  // Ending it changes nothing: what it cost counts on.
  await claim.end({ outcome: "pushed", ended_at, spend: figures(2) });
  assertEquals(refusal(site.admission)?.code, "ceiling_reached");
  site.clock.advance(DAY_MS);
  assertEquals(refusal(site.admission), undefined);
});

// conformance: b7.refusal
Deno.test("a refusal of the task limb names it, its figures and what clears it", async () => {
  await using site = await Site.make({ max_concurrent_tasks: 3, global_max_tasks: 3 });
  await site.run(0);
  await site.run(0);
  site.begin();
  const text = refusal(site.admission)!.message;
  for (const part of ["task limb", "3 of 3 task starts in the last 24h (2 recorded, 1 in flight)"]) {
    assertStringIncludes(text, part);
  }
  assertStringIncludes(text, "raise global_max_tasks");
});

// conformance: b7.refusal
Deno.test("a refusal for tasks under way alone names their end as the remedy", async () => {
  for (const [limb, usd] of [[{ global_max_tasks: 1 }, 0], [{ global_budget_usd: 1 }, 1]] as const) {
    for (const global_window of [DAY_MS, 0]) {
      await using site = await Site.make({ ...limb, global_window });
      const adopted = site.admission.adopt(atTheGate(someId(), usd));
      const { message } = refusal(site.admission)!;
      assertStringIncludes(message, `let tasks under way end, then stop the broker, remove ${site.ledger}`);
      assertEquals(message.includes("wait until a task has ended"), global_window > 0);
      await adopted.end({ outcome: "denied", ended_at });
      assert(!refusal(site.admission)!.message.includes("let tasks under way end"));
      await site.restart(() => Deno.removeSync(site.ledger));
      assertEquals(refusal(site.admission), undefined);
    }
  }
});

// conformance: b2.ceiling.total b8.total_mode b7.refusal
Deno.test("in total mode nothing ages out, across restarts either, and refusals say so", async () => {
  await using site = await Site.make({ global_budget_usd: 1, global_max_tasks: 9, global_window: 0 });
  await site.run(1);
  site.clock.advance(4_000 * DAY_MS);
  await site.restart(() => site.clock.advance(400 * DAY_MS));
  const text = refusal(site.admission)!.message;
  assertStringIncludes(text, "does not age out");
  assertStringIncludes(text, "$1.00 of $1.00 spent in all");
  assert(!text.includes("wait"), text);
  assertEquals(site.admission.warnings.length, 1);
});

// conformance: b2.ceiling.starts
Deno.test("retries and their parents are starts alike", async () => {
  await using site = await Site.make({ global_max_tasks: 2 });
  const parent = await site.run(0);
  await site.run(0, { ...START, retry_of: parent });
  assertEquals(refusal(site.admission)?.code, "ceiling_reached");
  assertEquals(site.lines().map(({ retry_of }) => retry_of), [undefined, null, parent]);
});

// conformance: b2.ceiling.usd_source
Deno.test("what a task spent is the gateway's figure, also where its end reports less", async () => {
  await using site = await Site.make({ global_budget_usd: 5 });
  const { id, claim } = site.begin();
  site.admission.settled(settlement(id, 2));
  site.admission.settled(settlement(id, Number.NaN));
  site.admission.settled(settlement(id, -9));
  site.admission.settled(settlement(someId(), 100));
  await claim.end({ outcome: "agent_failed", ended_at, spend: figures(0) });
  assertEquals(site.admission.ceiling().spent_usd, 2);
});

// conformance: b8.undercount
Deno.test("a figure that does not cover every request is not trusted, and still counts", async () => {
  await using site = await Site.make({ global_budget_usd: 5 });
  const { id, claim } = site.begin();
  site.admission.settled(settlement(id, 1, { unmetered: true }));
  await claim.end({ outcome: "pushed", ended_at, spend: figures(1, false) });
  const line = site.lines().at(-1)!;
  assertEquals([line.usd, line.usd_trusted], [1, false]);
  assertEquals(site.admission.ceiling().spent_usd, 1);
});

// conformance: b2.ceiling.ledger b8.modes
Deno.test("a ledger row has every field of the contract, in a file that is the owner's alone", async () => {
  await using site = await Site.make({ global_budget_usd: 5 });
  const task_id = await site.run(1.25);
  const { sum, ...row } = site.lines().at(-1) as Record<string, unknown>;
  assertEquals(typeof sum, "string");
  assertEquals(row, {
    kind: "start",
    task_id,
    started_at: "2026-01-01T00:00:00.000Z",
    ended_at: "2026-01-01T00:00:00.000Z",
    vendor: "vendor_a",
    agent: "agent_a",
    auth: "api_key",
    usd: 1.25,
    usd_trusted: true,
    outcome: "pushed",
    retry_of: null,
  });
  Deno.chmodSync(site.ledger, 0o644);
  Deno.chmodSync(`${site.audit_root}/global`, 0o755);
  await site.restart();
  assertEquals(Deno.statSync(site.ledger).mode! & 0o777, 0o600);
  assertEquals(Deno.statSync(`${site.audit_root}/global`).mode! & 0o777, 0o700);
});

Deno.test("a second broker on the same audit directory is refused and learns of the first", async () => {
  await using site = await Site.make({ global_budget_usd: 5 });
  try {
    await Admission.open({ audit_root: site.audit_root, settings: site.settings });
    throw new Error("it was opened");
  } catch (error) {
    assert(hasCode(error, "busy"), String(error));
  }
});

// conformance: b2.effect.aggregate_budget_usd b2.ceiling.aggregate
Deno.test("the aggregate ceiling counts each vendor's key alone, and no subscription", async () => {
  await using site = await Site.make({ max_concurrent_tasks: 9, aggregate_budget_usd: 2 });
  await site.run(2);
  await site.run(9, { lane: "vendor_b", auth: "subscription", agent: "agent_b" });
  const text = refusal(site.admission)!.message;
  for (const part of ["vendor_a", "aggregate_budget_usd", "$2.00 of $2.00", "24h"]) assertStringIncludes(text, part);
  assertEquals(refusal(site.admission, { ...START, auth: "subscription" }), undefined);
  assertEquals(refusal(site.admission, { ...START, lane: "vendor_b" }), undefined);
});

// conformance: b2.effect.aggregate_window b2.ceiling.total b2.ceiling.aggregate b7.refusal
Deno.test("the aggregate ceiling ages out, and in total mode ends with the broker", async () => {
  await using site = await Site.make({ aggregate_budget_usd: 2 });
  await site.run(1.5);
  site.clock.advance(12 * HOUR_MS);
  await site.run(1);
  assertEquals(refusal(site.admission)?.code, "ceiling_reached");
  site.clock.advance(12 * HOUR_MS - DAY_MS / 512);
  assertEquals(refusal(site.admission)?.code, "ceiling_reached");
  site.clock.advance(DAY_MS / 256);
  assertEquals(refusal(site.admission), undefined);
  site.settings = { ...site.settings, aggregate_window: 0 };
  await site.restart();
  await site.run(2);
  site.clock.advance(999 * DAY_MS);
  const { message, hint } = refusal(site.admission)!;
  for (
    const part of ["vendor_a", "aggregate_budget_usd", "does not age out", "start the broker again", "begins anew"]
  ) {
    assertStringIncludes(message, part);
  }
  // They show the global ceiling alone.
  assert(!hint!.includes("taskd stats"), hint);
  await site.restart();
  assertEquals(refusal(site.admission), undefined);
});

// conformance: b2.ceiling.both
Deno.test("when both ceilings are set the one that refuses wins", async () => {
  await using site = await Site.make({ max_concurrent_tasks: 9, aggregate_budget_usd: 2, global_budget_usd: 3 });
  await site.run(2);
  assertStringIncludes(refusal(site.admission)!.message, "aggregate");
  await site.run(1, { ...START, lane: "compat" });
  assertStringIncludes(refusal(site.admission, { ...START, lane: "vendor_c" })!.message, "global");
});

Deno.test("a task found at the gate counts once, in flight, and keeps what it has spent", async () => {
  await using site = await Site.make({ max_concurrent_tasks: 1, global_max_tasks: 5, global_budget_usd: 5 });
  const { id } = site.begin();
  site.plantTrace(id, site.clock.now());
  await site.restart();
  assertEquals(site.admission.ceiling().recorded_starts, 1);
  const claim = site.admission.adopt(atTheGate(id, 2));
  const view = site.admission.ceiling();
  assertEquals([view.recorded_starts, view.in_flight_starts, view.spent_usd], [0, 1, 2]);
  assertEquals(refusal(site.admission), undefined, "it holds no slot");
  await claim.end({ outcome: "denied", ended_at, spend: figures(2) });
  await site.restart();
  const after = site.admission.ceiling();
  assertEquals([after.recorded_starts, after.spent_usd, after.damaged], [1, 2, 0]);
  const line = site.lines().findLast((line) => line.task_id === id)!;
  assertEquals([line.usd, line.usd_trusted, line.outcome], [2, false, "denied"]);
});

Deno.test("what running requests may cost is held against both ceilings until its figures are known", async () => {
  await using site = await Site.make({ max_concurrent_tasks: 9, aggregate_budget_usd: 2, global_budget_usd: 3 });
  const [a, b] = [START, { ...START, lane: "vendor_b" as const }];
  const { id } = site.begin();
  assertEquals(site.admission.hold(a, 1.5), undefined);
  assertStringIncludes(site.admission.hold(a, 0.6)!, "aggregate_budget_usd");
  assertEquals(site.admission.hold(b, 1.5), undefined);
  const full = site.admission.hold(b, 0.1)!;
  for (const part of ["$0.00 spent", "$3.00 held", "$0.10", "exceed $3.00", "global_budget_usd"]) {
    assertStringIncludes(full, part);
  }
  // It cost less: the rest is free again.
  site.admission.settled(settlement(id, 0.25, { held_usd: 1.5 }));
  assertEquals(site.admission.hold(a, 1.2), undefined);
  assertStringIncludes(site.admission.hold(a, 0.6)!, "$0.25 spent");
  site.admission.release(a, 1.2);
  site.admission.release(b, 1.5);
  assertEquals(site.admission.hold(a, 1.75), undefined);
  // A subscription counts under the global ceiling alone.
  assertEquals(site.admission.hold({ ...a, auth: "subscription" }, 1), undefined);
  assertStringIncludes(site.admission.hold({ ...a, auth: "subscription" }, 0.1)!, "global_budget_usd");
});
