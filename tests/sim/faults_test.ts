import { assert, assertEquals } from "@std/assert";
import type { Backend } from "../../lib/backend/backend.ts";
import { type BackendCall, type Fault, FaultyBackend, seededFaults } from "../support/faulty_backend.ts";
import { type ErrorCode, hasCode, TaskdError } from "../../lib/errors.ts";
import { Store } from "../../lib/store/store.ts";
import { SeededRandom } from "../support/writers/random.ts";
import { VirtualClock } from "../support/clock.ts";
import { Actor, TurnBackend } from "./_scheduler.ts";
import {
  assertAfter,
  assertBeforeOrAfter,
  contentAt,
  insertValue,
  run,
  type Scenario,
  SCENARIOS,
} from "./scenarios.ts";
import { makeMemoryDirectory } from "./memory_directory.ts";
import { copyDirectory, Template } from "./template.ts";
import { scaledTest, shortened } from "../support/long.ts";
import { testSeeds } from "../support/seed.ts";

/** Longer than any lease and any claim. */
const WAIT_MS = 120_000;

const WRITES = ["create", "replace", "put", "delete", "copy"];
/** What a fault may come out as; anything else hides it or blames the wrong thing. */
const FAULT_CODES: ErrorCode[] = ["unavailable", "ambiguous", "stalled", "corrupt", "fenced"];
/** What a try may meet of the one before it that was interrupted: its lease, its claim, or a ref that has changed. */
const INTERRUPTED: ErrorCode[] = ["lease_held", "branch_deleting", "conflict"];

/** Opens a store on a fresh copy of the template; faults begin after the opening. */
async function setUp(template: Template, clock: VirtualClock, plan: (call: BackendCall) => Fault | undefined) {
  const { backend, workspace } = await template.copy();
  let armed = false;
  let before = 0;
  const faulty = new FaultyBackend(backend, (call) => {
    if (armed) return plan({ ...call, count: call.count - before });
    before = call.count;
    return undefined;
  }, { clock });
  const open = (through: Backend) => Store.open({ backend: through, workspace, clock, holder: "cli" });
  const store = await open(faulty);
  armed = true;
  return { store, faulty, disarm: () => armed = false, reopen: () => open(backend), backend, workspace };
}

async function attempt(scenario: Scenario, store: Store, directory: string, codes: ErrorCode[]): Promise<boolean> {
  try {
    await run(scenario, store, directory);
    return true;
  } catch (error) {
    if (!(error instanceof TaskdError)) throw error;
    assert(hasCode(error, ...codes), `${error.code}: ${error.message}`);
    return false;
  }
}

async function withTemplate(work: (template: Template, clock: VirtualClock, directory: string) => Promise<void>) {
  const directory = await makeMemoryDirectory("faults-");
  try {
    const clock = new VirtualClock();
    await work(await Template.make(directory, clock), clock, directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

/** Runs `work` for call 1, 2, 3 ... until it says that there were no more. */
async function atEveryCall(what: string, work: (count: number) => Promise<boolean>): Promise<number> {
  for (let count = 1; count < 500; count++) {
    try {
      if (!await work(count)) return count - 1;
    } catch (error) {
      throw new Error(`${what}, call ${count}: ${(error as Error).message}`, { cause: error });
    }
  }
  throw new Error(`${what} makes too many calls`);
}

scaledTest("a fault at any backend call leaves before or after, and a repetition succeeds", async (t) => {
  await withTemplate(async (template, clock, directory) => {
    for (const scenario of shortened(SCENARIOS, 4)) {
      await t.step(scenario.name, async () => {
        for (const kind of ["before", "after"] as const) {
          await atEveryCall(`${scenario.name}, fault ${kind}`, async (count) => {
            let hit = false;
            const { store, disarm } = await setUp(template, clock, (call) => {
              if (call.count !== count) return undefined;
              hit = true;
              return { kind, code: kind === "after" && WRITES.includes(call.method) ? "ambiguous" : "unavailable" };
            });
            const done = await attempt(scenario, store, directory, FAULT_CODES);
            disarm();
            if (!hit) {
              assert(done);
              return false;
            }
            await assertBeforeOrAfter(store, scenario, directory);
            if (!done) {
              clock.advance(WAIT_MS);
              await attempt(scenario, store, directory, scenario.repeated ?? []);
            }
            await assertAfter(store, scenario, directory);
            return true;
          });
        }
      });
    }
  });
});

scaledTest(
  "a process that vanishes at any backend call leaves before or after, and the next goes on",
  async (t) => {
    await withTemplate(async (template, clock, directory) => {
      for (const scenario of shortened(SCENARIOS, 4)) {
        await t.step(scenario.name, async () => {
          await atEveryCall(`${scenario.name}, gone`, async (count) => {
            const { backend, workspace } = await template.copy();
            const actor = new Actor("gone");
            const opening = Store.open({ backend: new TurnBackend(backend, actor), workspace, clock, holder: "cli" });
            const store = await drive(actor, opening);
            const outcome = run(scenario, store!, directory);
            outcome.catch(() => {});
            if (await drive(actor, outcome, count) !== undefined) return false;
            // The vanished one lives on in this process, and so do its locks; a copy of the files has none, as after a death.
            const left = `${workspace}-left`;
            await copyDirectory(workspace, left);
            const next = await Store.open({ backend, workspace: left, clock, holder: "cli" });
            await assertBeforeOrAfter(next, scenario, directory);
            clock.advance(WAIT_MS);
            await attempt(scenario, next, directory, scenario.repeated ?? []);
            await assertAfter(next, scenario, directory);
            return true;
          });
        });
      }
    });
  },
);

Deno.test("edits after an interrupted operation belong to the branch and its next checkpoint", async (t) => {
  await withTemplate(async (template, clock, directory) => {
    const main = { db: "app", branch: "main" };
    for (const scenario of SCENARIOS.filter(({ args: [address] }) => isDeepEqual(address, main))) {
      await t.step(scenario.name, async () => {
        await atEveryCall(`${scenario.name}, gone`, async (count) => {
          const { backend, workspace } = await template.copy();
          const actor = new Actor("gone");
          const opening = Store.open({ backend: new TurnBackend(backend, actor), workspace, clock, holder: "cli" });
          const store = await drive(actor, opening);
          const outcome = run(scenario, store!, directory);
          outcome.catch(() => {});
          if (await drive(actor, outcome, count) !== undefined) return false;
          const left = `${workspace}-left`;
          await copyDirectory(workspace, left);
          insertValue(`${left}/checkouts/app/main.db`, "late");
          clock.advance(WAIT_MS);
          using next = await Store.open({ backend, workspace: left, clock, holder: "cli" });
          await next.checkpoint(main, "late");
          assertEquals(await contentAt(next, "app@main", directory), "1,2,3,4,late");
          return true;
        });
      });
    }
  });
});

function isDeepEqual(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** Lets an actor make its calls until `work` is done; drops it for good while call number `last` is under way. */
async function drive<T>(actor: Actor, work: Promise<T>, last = Infinity): Promise<T | undefined> {
  let done = false;
  const finished = work.finally(() => {
    done = true;
    actor.settle();
  });
  for (let count = 1;; count++) {
    while (!done && actor.parked.length === 0) await actor.quiet();
    if (done) return await finished;
    const go = actor.parked.shift()!;
    if (count === last) actor.dropped = true;
    go();
    if (count === last) {
      // The call takes effect and its answer is lost.
      await new Promise((resolve) => setTimeout(resolve, 0));
      return undefined;
    }
  }
}

Deno.test("random faults in every operation, from a seed, never show another content", async (t) => {
  await withTemplate(async (template, clock, directory) => {
    for (const seed of testSeeds(Number(Deno.env.get("SIM_SEEDS") ?? 2))) {
      await t.step(`seed ${seed}`, async () => {
        for (const scenario of SCENARIOS) {
          const plan = seededFaults(new SeededRandom(seed).bytes, 0.2);
          const { store, disarm, reopen } = await setUp(template, clock, (call) => {
            const fault = plan(call);
            return fault?.kind === "delay" ? undefined : fault;
          });
          for (let tries = 0; tries < 3; tries++) {
            await attempt(scenario, store, directory, [...FAULT_CODES, ...INTERRUPTED, ...scenario.repeated ?? []]);
          }
          disarm();
          clock.advance(WAIT_MS);
          const next = await reopen();
          await attempt(scenario, next, directory, scenario.repeated ?? []);
          await assertAfter(next, scenario, directory);
        }
      });
    }
  });
});
