import { assert, assertEquals } from "@std/assert";
import fc from "../../packages/fast_check.ts";
import { DAY_MS, HOUR_MS, refusal, Site } from "./site.ts";

const ON = { global_budget_usd: 1_000_000, global_max_tasks: 1_000_000 };

Deno.test("setting the clock back frees nothing early and holds nothing forever", async () => {
  await using site = await Site.make({ global_max_tasks: 2 });
  await site.run(0);
  site.clock.jump(-400 * DAY_MS);
  await site.run(0);
  assertEquals(refusal(site.admission)?.code, "ceiling_reached");
  site.clock.advance(23 * HOUR_MS);
  assertEquals(refusal(site.admission)?.code, "ceiling_reached");
  site.clock.advance(HOUR_MS);
  assertEquals(refusal(site.admission), undefined);
});

Deno.test("a clock that is put right again does not make what ended meanwhile older", async () => {
  await using site = await Site.make({ global_max_tasks: 2 });
  site.clock.jump(-30 * HOUR_MS);
  await site.restart();
  await site.run(0);
  site.clock.jump(30 * HOUR_MS);
  assertEquals(site.admission.ceiling().starts, 1);
  await site.restart();
  assertEquals(site.admission.ceiling().starts, 1);
});

Deno.test("rows of a clock that ran years ahead age out a window after they were found", async () => {
  await using site = await Site.make({ global_max_tasks: 1 });
  site.clock.jump(4_000 * DAY_MS);
  await site.run(0);
  await site.restart(() => site.clock.jump(-4_000 * DAY_MS));
  for (let hours = 0; hours < 24; hours += 6) {
    assertEquals(refusal(site.admission)?.code, "ceiling_reached");
    await site.restart(() => site.clock.advance(6 * HOUR_MS));
  }
  assertEquals(refusal(site.admission), undefined);
  // What comes then is stamped with the time that it is.
  await site.run(0);
  assertEquals(site.admission.ceiling().newest_entry, new Date(site.clock.now()).toISOString());
});

Deno.test("while the machine sleeps time goes on, with a clock that counts it", async () => {
  await using site = await Site.make({ global_max_tasks: 1 });
  await site.admission.close();
  let slept_ms = 0;
  await site.start({ monotonic: () => site.clock.monotonic() + slept_ms });
  await site.run(0);
  slept_ms = DAY_MS;
  site.clock.jump(DAY_MS);
  assertEquals(refusal(site.admission), undefined);
});

const STEP = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("run" as const), usd: fc.integer({ min: 0, max: 5 }) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("pass" as const), ms: fc.integer({ min: 1, max: DAY_MS }) }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("behind" as const), ms: fc.integer({ min: 0, max: 3 * DAY_MS }) }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("restart" as const), off_ms: fc.nat(HOUR_MS) }) },
);

Deno.test("with any windows, restarts and backward steps nothing counts too short or forever", () =>
  fc.assert(
    fc.asyncProperty(
      fc.integer({ min: HOUR_MS, max: 2 * DAY_MS }),
      fc.array(STEP, { maxLength: 25 }),
      async (global_window, steps) => {
        await using site = await Site.make({ ...ON, global_window });
        /** Starts by when they truly ended. */
        const ended: { ms: number; usd: number }[] = [];
        // The clock is behind by this, or right: never ahead.
        let behind_ms = 0;
        let true_ms = 0;
        for (const step of steps) {
          if (step.kind === "run") {
            await site.run(step.usd);
            ended.push({ ms: true_ms, usd: step.usd });
          } else if (step.kind === "pass") {
            site.clock.advance(step.ms);
            true_ms += step.ms;
          } else if (step.kind === "behind") {
            site.clock.jump(behind_ms - step.ms);
            behind_ms = step.ms;
          } else {
            await site.restart(() => site.clock.advance(step.off_ms));
            true_ms += step.off_ms;
          }
          // A minute is tolerated, so that the file is not rewritten for every correction.
          const young = ended.filter(({ ms }) => true_ms - ms < global_window - 61_000);
          const { starts, spent_usd } = site.admission.ceiling();
          assert(starts >= young.length, `${starts} counted of ${young.length}`);
          assert(spent_usd >= young.reduce((sum, { usd }) => sum + usd, 0));
          assert(starts <= ended.length);
        }
        site.clock.jump(behind_ms);
        site.admission.ceiling();
        for (let spell = 0; spell < 6; spell++) {
          await site.restart(() => site.clock.advance(global_window / 4));
        }
        assertEquals(site.admission.ceiling().starts, 0);
      },
    ),
    { numRuns: 100 },
  ));

// conformance: b2.effect.global_window
Deno.test("with a clock that is right, what counts is exactly what ended within the window", () =>
  fc.assert(
    fc.asyncProperty(fc.array(STEP, { maxLength: 25 }), async (steps) => {
      await using site = await Site.make({ ...ON, global_window: DAY_MS });
      const ended: number[] = [];
      for (const step of steps) {
        if (step.kind === "run") {
          await site.run(1);
          ended.push(site.clock.now());
        } else if (step.kind === "pass") site.clock.advance(step.ms);
        else if (step.kind === "restart") await site.restart(() => site.clock.advance(step.off_ms));
        const young = ended.filter((ms) => site.clock.now() - ms < DAY_MS).length;
        assertEquals([site.admission.ceiling().starts, site.admission.ceiling().spent_usd], [young, young]);
      }
    }),
    { numRuns: 100 },
  ));
