import { assert } from "@std/assert";
import type { Clock } from "../../lib/clock.ts";
import { systemClock } from "../../lib/clock.ts";
import { hasCode } from "../../lib/errors.ts";
import { openStore } from "../../lib/store/open.ts";
import type { Store } from "../../lib/store/store.ts";
import { assertAfter, assertBeforeOrAfter, prepare, run, scenarioArgs, SCENARIOS } from "../sim/scenarios.ts";
import { copyDirectory } from "../sim/template.ts";
import { SeededRandom } from "../support/writers/random.ts";
import { MIN_XFS_MB, whyNotMountable, withMount } from "../support/mounts.ts";
import { Operator } from "./_bench.ts";

/** Kills for each operation: a few at backend calls, a few at any moment. `KILLS=50` runs more. */
const KILLS = Number(Deno.env.get("KILLS") ?? 2);
const SEED = Number(Deno.env.get("KILL_SEED") ?? 5);

/** The system's clock, a minute later: every lease and claim of the killed is stale. */
const later: Clock = { ...systemClock, now: () => systemClock.now() + 61_000 };

const NAME = "an operation killed at any point is finished or undone by the next run, and locks nobody out";

Deno.test(NAME, async (t) => {
  const directory = await Deno.makeTempDir({ prefix: "kill-" });
  try {
    await killEverywhere(t, directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

const why = await whyNotMountable("xfs");
Deno.test({
  name: `${NAME}, where blocks can be cloned${why}`,
  ignore: why !== "",
  fn: (t) => withMount("xfs", MIN_XFS_MB, (directory) => killEverywhere(t, directory)),
});

async function killEverywhere(t: Deno.TestContext, directory: string): Promise<void> {
  const template = `${directory}/template`;
  {
    using store = await openStore(template);
    await prepare(store, directory);
  }
  const random = new SeededRandom(SEED);
  let copies = 0;
  for (const scenario of SCENARIOS) {
    const attempts = random.fork();
    await t.step(scenario.name, async () => {
      for (let attempt = 0; attempt < KILLS; attempt++) {
        const location = `${directory}/store-${copies++}`;
        await copyDirectory(template, location);
        const at_call = attempt % 2 === 0;
        const point = `${attempts.between(1, 12)}:${attempts.pick(["before", "after"])}`;
        const delay_ms = attempts.between(0, 60);
        const operator = new Operator(location, at_call ? point : undefined);
        if (!at_call) await operator.ok("databases");
        const answer = operator.run(scenario.op, ...scenarioArgs(scenario, directory));
        if (!at_call) {
          await systemClock.sleep(delay_ms);
          await operator.kill();
        }
        const heard = await answer;
        await operator.kill();
        const what = `${scenario.name} killed at ${at_call ? `call ${point}` : `${delay_ms} ms`}`;
        try {
          await judge(location, directory, scenario, heard?.ok === true);
        } catch (error) {
          throw new Error(`${what}: ${(error as Error).message}`, { cause: error });
        }
        await Deno.remove(location, { recursive: true });
      }
    });
  }
}

async function judge(
  location: string,
  directory: string,
  scenario: typeof SCENARIOS[number],
  acknowledged: boolean,
): Promise<void> {
  using store = await openStore(location);
  await assertBeforeOrAfter(store, scenario, directory);
  if (acknowledged) return await assertAfter(store, scenario, directory);
  // The killed process was one of this workspace: nobody has to wait for its lease, only for its claim.
  const repeated = await repeat(store, scenario, directory);
  assert(repeated !== "lease_held", "a dead process of this workspace still holds the lease");
  if (repeated === "branch_deleting") {
    using patient = await openStore(location, { clock: later });
    assert(await repeat(patient, scenario, directory) !== "branch_deleting", "a claim outlived its process for good");
  }
  await assertAfter(store, scenario, directory);
}

async function repeat(store: Store, scenario: typeof SCENARIOS[number], directory: string): Promise<string> {
  try {
    await run(scenario, store, directory);
    return "ok";
  } catch (error) {
    if (hasCode(error, ...scenario.repeated ?? [])) return error.code;
    assert(hasCode(error, "lease_held", "branch_deleting"), String(error));
    return error.code;
  }
}
