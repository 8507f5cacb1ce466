import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { systemRandom } from "../../lib/clock.ts";
import { type Claim, type LeaseOptions, type Settlement, TaskLease } from "./lease.ts";
import { Refusal } from "./refusal.ts";

const OPTIONS: LeaseOptions = {
  task_id: "t",
  lane: "vendor_a",
  auth: "api_key",
  budget_usd: 2,
  max_inflight: 3,
  max_request_cost_usd: 0.5,
  max_requests: 20,
};

function settlement(usd: number): Settlement {
  return {
    task_id: "t",
    lane: "vendor_a",
    auth: "api_key",
    route: "messages",
    model: "m",
    status: 200,
    ending: "complete",
    usd,
    unmetered: false,
    held_usd: 0,
    metered: undefined,
    duration_ms: 1,
  };
}

Deno.test("whatever order requests begin and end in, no cap is passed and every claim is settled once", () => {
  const step = fc.record({
    act: fc.constantFrom("begin", "settle", "settle twice", "withdraw"),
    usd: fc.double({ min: 0, max: 0.5, noNaN: true }),
  });
  fc.assert(fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
    const { lease } = TaskLease.create(OPTIONS, systemRandom);
    const running: Claim[] = [];
    let spent = 0;
    let sent = 0;
    for (const { act, usd } of steps) {
      if (act === "begin") {
        try {
          const claim = lease.claim();
          try {
            claim.reserve(0.5);
            running.push(claim);
          } catch (error) {
            claim.withdraw();
            throw error;
          }
        } catch (error) {
          assert(error instanceof Refusal);
        }
      } else {
        const claim = running.shift();
        if (!claim) continue;
        if (act === "withdraw") claim.withdraw();
        else {
          claim.markSent();
          sent++;
          claim.settle(settlement(usd));
          spent += usd;
          if (act === "settle twice") claim.settle(settlement(1));
          claim.withdraw();
        }
      }
      const { in_flight, requests, usd: total } = lease.spend();
      assertEquals([in_flight, requests], [running.length, running.length + sent]);
      assert(in_flight <= OPTIONS.max_inflight && requests <= OPTIONS.max_requests);
      assert(Math.abs(total - spent) < 1e-9);
      // No request cost more than was reserved for it, so the budget holds exactly.
      assert(total <= OPTIONS.budget_usd + 1e-9);
    }
  }));
});

// conformance: b2.effect.task_budget_usd b2.effect.max_request_cost_usd
Deno.test("a budget has room for what adds up to it, and is spent by it, in any fractions", () => {
  const dime = 0.1;
  for (const requests of [3, 8, 10, 30]) {
    // Eight times 0.1 is a hair less than 0.8, three times is a hair more than 0.3.
    const budget_usd = requests / 10;
    for (const max_request_cost_usd of [0, dime]) {
      const { lease } = TaskLease.create(
        { ...OPTIONS, max_requests: 99, budget_usd, max_request_cost_usd },
        systemRandom,
      );
      for (let n = 0; n < requests; n++) {
        const claim = lease.claim();
        claim.reserve(0.5);
        claim.settle(settlement(dime));
      }
      assertEquals(assertThrows(() => lease.claim(), Refusal).code, "budget_exhausted", `${requests}`);
    }
  }
});

Deno.test("a figure that is no amount leaves the sum as it is and marks the request", () => {
  const { lease } = TaskLease.create(OPTIONS, systemRandom);
  for (const usd of [0.5, NaN, Infinity, -1, 1.5]) lease.claim().settle(settlement(usd));
  assertEquals([lease.spend().usd, lease.spend().unmetered_requests], [2, 3]);
  assertThrows(() => lease.claim(), Refusal, "raise task_budget_usd");
});

Deno.test("a lease that ends admits nothing, and is idle once what runs has settled", async () => {
  const { lease, token } = TaskLease.create(OPTIONS, systemRandom);
  assert(/^taskd-[0-9a-f]{64}$/.test(token) && !Deno.inspect(lease).includes(token));
  const claim = lease.claim();
  lease.ending.abort();
  assertEquals(assertThrows(() => lease.claim(), Refusal).answer().status, 401);
  let idle = false;
  const waiting = lease.idle().then(() => idle = true);
  assertEquals(idle, false);
  claim.settle(settlement(0.1));
  await waiting;
  assertEquals([lease.spend().usd, lease.spend().in_flight], [0.1, 0]);
});

Deno.test("with strict, what requests may cost never exceeds the budget or a ceiling", () => {
  const step = fc.record({
    act: fc.constantFrom("begin", "settle", "withdraw"),
    usd: fc.double({ min: 0.01, max: 1.5, noNaN: true }),
    part: fc.double({ min: 0, max: 1, noNaN: true }),
  });
  fc.assert(fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
    let held = 0;
    const strict = {
      hold: (usd: number) => held + usd > 1.6 ? "no room" : void (held += usd),
      release: (usd: number) => void (held -= usd),
    };
    const { lease } = TaskLease.create({ ...OPTIONS, max_request_cost_usd: 0, strict }, systemRandom);
    const running: { claim: Claim; usd: number }[] = [];
    for (const { act, usd, part } of steps) {
      const first = act === "begin" ? undefined : running.shift();
      if (first === undefined) {
        if (act !== "begin") continue;
        let claim: Claim | undefined;
        try {
          claim = lease.claim();
          claim.reserve(usd);
          running.push({ claim, usd });
        } catch (error) {
          assert(error instanceof Refusal);
          claim?.withdraw();
        }
      } else if (act === "settle") {
        first.claim.settle({ ...settlement(first.usd * part), held_usd: first.claim.held_usd });
        held -= first.claim.held_usd;
      } else first.claim.withdraw();
      const may_cost = running.reduce((sum, each) => sum + each.usd, 0);
      assert(lease.spend().usd + may_cost <= OPTIONS.budget_usd + 1e-6, "the budget holds, whatever they cost");
      assertAlmostEquals(held, may_cost, 1e-6);
      assert(held <= 1.6 + 1e-6);
    }
    for (const { claim } of running) claim.withdraw();
    assertAlmostEquals(held, 0, 1e-6);
  }));
});

Deno.test("what an endpoint says that requests cost is summed beside what the same ones were charged", () => {
  const { lease } = TaskLease.create(OPTIONS, systemRandom);
  assertEquals(lease.reported(), undefined);
  const settle = (usd: number, reported_usd?: number) => {
    const metered = { used: [], complete: true, ...(reported_usd === undefined ? {} : { reported_usd }) };
    lease.claim().settle({ ...settlement(usd), metered });
  };
  settle(0.25, 0.5);
  settle(0.125);
  settle(0.5, 0.25);
  assertEquals(lease.reported(), { requests: 2, usd: 0.75, metered_usd: 0.75 });
  assertEquals(lease.spend().usd, 0.875);
});
