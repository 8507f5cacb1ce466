import { systemClock } from "../../lib/clock.ts";
import { openStore } from "../../lib/store/open.ts";
import { prepare, scenarioArgs, SCENARIOS } from "../sim/scenarios.ts";
import { copyDirectory } from "../sim/template.ts";
import { SeededRandom } from "../support/writers/random.ts";
import { MIN_XFS_MB, whyNotMountable, withMount } from "../support/mounts.ts";
import { Operator } from "./_bench.ts";
import { verify } from "./_verdict.ts";
import { longTest, scaledTest, shortened } from "../support/long.ts";
import { testSeed } from "../support/seed.ts";

/** Kills for each operation: a few at backend calls, a few at any moment. `KILLS=50` runs more. */
const KILLS = Number(Deno.env.get("KILLS") ?? 2);
const SEED = testSeed(5);

const NAME = "an operation killed at any point is finished or undone by the next run";

scaledTest(NAME, async (t) => {
  const directory = await Deno.makeTempDir({ prefix: "kill-" });
  try {
    await killEverywhere(t, directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

const why = await whyNotMountable("xfs");
longTest({
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
  for (const scenario of shortened(SCENARIOS, 4)) {
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
          await verify(location, directory, scenario, heard?.ok === true);
        } catch (error) {
          throw new Error(`${what}: ${(error as Error).message}`, { cause: error });
        }
        await Deno.remove(location, { recursive: true });
      }
    });
  }
}
