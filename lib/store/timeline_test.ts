import { assert, assertEquals } from "@std/assert";
import * as fc from "../../tests/packages/fast_check.ts";
import { VirtualClock } from "../../tests/support/clock.ts";
import { withStore } from "../../tests/support/garbage.ts";
import { flush } from "../../tests/support/histories.ts";
import { at, withDirectory } from "../../tests/support/stores.ts";
import { scaled, scaledTest } from "../../tests/support/long.ts";
import { testSeed } from "../../tests/support/seed.ts";
import { systemRandom } from "../clock.ts";
import { loggedPoints } from "./point_log.ts";
import { DAY_MS, DEFAULT_LEVELS, HOUR_MS, parseLevels } from "./retention.ts";
import type { Store } from "./store.ts";
import { STEP_MS, Timeline } from "./timeline.ts";
import { Workspace } from "./workspace.ts";

const MAIN = at("app");
const SIDE = at("app@side");
const KEEP = { keep: DEFAULT_LEVELS };

/** A machine with a wall clock that may be wrong, and processes that come and go on it. */
class Machine {
  readonly clock = new VirtualClock();
  readonly #workspace: Workspace;
  #boot = 1;
  #off_ms = 0;
  #timeline: Timeline;

  constructor(directory: string) {
    this.#workspace = new Workspace(directory, systemRandom);
    this.#timeline = this.#open();
  }

  #open(): Timeline {
    const { clock } = this;
    const [boot, started_ms] = [`${this.#boot}`, this.#off_ms];
    const uptime = () => Promise.resolve({ boot, ms: clock.monotonic() - started_ms });
    return new Timeline({ workspace: this.#workspace, clock, uptime });
  }

  look() {
    return this.#timeline.look();
  }

  /** Another process, in the same start of the machine. */
  restart(): void {
    this.#timeline = this.#open();
  }

  /** It is off for a while, and comes up with a clock that is so wrong. */
  reboot(off_ms: number, wrong_ms: number): void {
    this.clock.advance(off_ms);
    this.clock.jump(wrong_ms);
    this.#boot++;
    this.#off_ms = this.clock.monotonic();
    this.restart();
  }
}

const wait = fc.record({ wait_ms: fc.integer({ min: 0, max: 3 * DAY_MS }) });
const step = fc.record({ step_ms: fc.integer({ min: -40 * DAY_MS, max: 40 * DAY_MS }) });
const reboot = fc.record({
  off_ms: fc.integer({ min: 0, max: 9 * DAY_MS }),
  wrong_ms: fc.integer({ min: -9 * DAY_MS, max: 9 * DAY_MS }),
});
const events = fc.array(fc.oneof(wait, wait, step, reboot, fc.constant({ restart: true } as const)), { maxLength: 30 });

scaledTest("whatever the wall clock does, nothing is older than it is", () =>
  withDirectory(async (directory) => {
    let run = 0;
    await fc.assert(
      fc.asyncProperty(events, async (events) => {
        const machine = new Machine(`${directory}/${run++}`);
        const { clock } = machine;
        const written: { at_ms: number; true_ms: number }[] = [];
        for (const event of events) {
          if ("wait_ms" in event) clock.advance(event.wait_ms);
          else if ("step_ms" in event) clock.jump(event.step_ms);
          else if ("off_ms" in event) machine.reboot(event.off_ms, event.wrong_ms);
          else machine.restart();
          await machine.look();
          written.unshift({ at_ms: clock.now(), true_ms: clock.monotonic() });
          const ages = await machine.look();
          const of_points = ages.ofPoints(written);
          for (const [index, { at_ms, true_ms }] of written.entries()) {
            const true_age_ms = clock.monotonic() - true_ms + STEP_MS + 1;
            assert(ages.since(at_ms) <= true_age_ms, `${ages.since(at_ms)} of ${true_age_ms}`);
            assert(of_points[index]! <= true_age_ms, `${of_points[index]} of ${true_age_ms}`);
          }
        }
      }),
      { numRuns: scaled({ short: 50, long: 2000 }), seed: testSeed(1) },
    );
  }));

Deno.test("what a right clock wrote is as old as it is, through steps, restarts and starts", () =>
  withDirectory(async (directory) => {
    const machine = new Machine(directory);
    const { clock } = machine;
    clock.advance(HOUR_MS);
    const written_ms = clock.now();
    assertEquals((await machine.look()).since(written_ms), 0);
    clock.jump(60 * DAY_MS);
    clock.advance(HOUR_MS);
    assertEquals((await machine.look()).since(written_ms), HOUR_MS);
    clock.jump(-60 * DAY_MS);
    machine.restart();
    clock.advance(HOUR_MS);
    assertEquals((await machine.look()).since(written_ms), 2 * HOUR_MS);
    // Off for a day, which does not count, and on for two hours.
    machine.reboot(DAY_MS, 0);
    clock.advance(2 * HOUR_MS);
    assertEquals((await machine.look()).since(written_ms), 4 * HOUR_MS);
    // Written by another host meanwhile: once this one has been on for a day, it is that old less a day.
    const meanwhile_ms = written_ms + 3 * HOUR_MS;
    clock.advance(3 * DAY_MS);
    assertEquals((await machine.look()).since(meanwhile_ms), 2 * DAY_MS + 2 * HOUR_MS);
  }));

Deno.test("a workspace that cannot be written, and a record that is lost or damaged, age nothing", () =>
  withDirectory(async (directory) => {
    const machine = new Machine(directory);
    const written_ms = machine.clock.now();
    machine.clock.advance(DAY_MS);
    assertEquals((await machine.look()).since(written_ms), DAY_MS);
    Deno.writeTextFileSync(`${directory}/clock.json`, "{}");
    machine.restart();
    assertEquals((await machine.look()).since(written_ms), 0);
    Deno.removeSync(`${directory}/clock.json`);
    Deno.mkdirSync(`${directory}/clock.json`);
    machine.clock.advance(3 * DAY_MS);
    assertEquals((await machine.look()).since(written_ms), 2 * DAY_MS);
  }));

for (const step_ms of [60 * DAY_MS, -60 * DAY_MS]) {
  Deno.test(`a clock that steps by ${step_ms / DAY_MS} days drops no point, no branch and no garbage early`, () =>
    withStore(async ({ store, clock, backend }) => {
      await store.fork(MAIN, "side", { ttl_ms: 7 * DAY_MS });
      for (let i = 0; i < 6; i++) {
        clock.advance(HOUR_MS);
        await flush(store, MAIN, i, { snapshot: i % 3 === 2 });
      }
      const points = async () => (await store.log(MAIN)).points.length;
      const tend = async () => {
        const { reaped } = await store.reapExpired();
        await store.foldHistory(KEEP);
        for (let pass = 0; pass < 2; pass++) await store.collectGarbage({ grace_ms: HOUR_MS, ...KEEP });
        return reaped.length;
      };
      await tend();
      const all = await points();
      await store.fork(MAIN, "old", { materialize: true });
      await store.destroy(at("app@old"), { safety: false, confirm: true });
      await tend();
      const keys = async () => (await Array.fromAsync(backend.list("data/"))).length;
      const before = await keys();
      clock.jump(step_ms);
      clock.advance(60_000);
      assertEquals([await tend(), await points(), await keys()], [0, all, before]);
      await flush(store, MAIN, 7);
      clock.advance(60_000);
      assertEquals([await tend(), await points()], [0, all + 1], "with a point of the time after the step");
      // It is put right.
      clock.jump(-step_ms);
      clock.advance(60_000);
      assertEquals([await tend(), await points()], [0, all + 1]);
      clock.advance(HOUR_MS);
      await tend();
      assert(await keys() < before, "what no branch reaches has gone after its grace");
      clock.advance(8 * DAY_MS);
      assertEquals(await tend(), 1, "the branch whose time is over");
      clock.advance(31 * DAY_MS);
      await tend();
      assertEquals(loggedPoints((await store.context.refs.read("app", "main")).ref).length, all + 1);
      await flush(store, MAIN, 8);
      assert(await points() < all, "the past of a branch at rest expires");
    }));
}

Deno.test("a branch that lives for a minute outlives a clock that steps by a day", () =>
  withStore(async ({ store, clock }) => {
    await store.fork(MAIN, "side", { ttl_ms: 60_000 });
    clock.advance(1000);
    clock.jump(DAY_MS);
    assertEquals((await store.reapExpired()).reaped, []);
    clock.advance(59_000);
    assertEquals((await store.reapExpired()).reaped.map(({ branch }) => branch), ["side"]);
    await store.fork(MAIN, "side");
    await store.destroy(SIDE, { safety: false });
  }));

scaledTest("for a day and by the hour nothing is missing, however often the clock is set", async () => {
  const [days, long] = [scaled({ short: 3, long: 6 }), scaled({ short: 2, long: 4 })];
  const levels = parseLevels(`1d,1h:${long}d`);
  for (let seed = 1; seed <= scaled({ short: 1, long: 40 }); seed++) {
    await withStore(async (bench) => {
      const { clock, backend } = bench;
      const random = fc.sample(fc.integer({ min: 0, max: 1 << 30 }), { numRuns: 4000, seed: testSeed(seed) });
      const chance = (one_in: number) => random.pop()! % one_in === 0;
      let store: Store = bench.store;
      /** By when it was written, in truth. */
      const written: { true_ms: number; txid: number }[] = [];
      let last = 0;
      for (let quarter = 0; quarter < days * 24 * 4; quarter++) {
        clock.advance(HOUR_MS / 4);
        if (chance(60)) clock.jump((random.pop()! % 41 - 20) * DAY_MS + random.pop()! % DAY_MS);
        const txid = await flush(store, MAIN, quarter, { snapshot: quarter % 8 === 7 });
        written.push({ true_ms: clock.monotonic(), txid });
        if (quarter % 4 === 3) {
          await store.foldHistory({ keep: levels });
          for (let pass = 0; pass < 2; pass++) await store.collectGarbage({ grace_ms: 0, keep: levels });
        }
        if (chance(200)) store = await bench.open(backend);
        if (quarter % 48 !== 47) continue;
        const kept = new Set((await store.log(MAIN, { limit: 1000 })).points.map(({ txid }) => txid));
        last = kept.size;
        const now_ms = clock.monotonic();
        let before_ms = now_ms - long * DAY_MS;
        for (const { true_ms, txid } of written) {
          const there = kept.has(txid);
          if (now_ms - true_ms < DAY_MS) assert(there, `${txid} is missing after ${(now_ms - true_ms) / HOUR_MS} h`);
          if (true_ms < before_ms || !there) continue;
          assert(written[0]!.true_ms > before_ms || true_ms - before_ms <= 2.5 * HOUR_MS, `a gap before ${txid}`);
          before_ms = true_ms;
        }
      }
      assert(last < days * 24 * 4 * 0.8, `${last} of ${written.length}`);
    });
  }
});
