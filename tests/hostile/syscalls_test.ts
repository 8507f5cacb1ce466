import { assert } from "@std/assert";
import type { ErrorCode } from "../../lib/errors.ts";
import { openStore } from "../../lib/store/open.ts";
import { makeMemoryDirectory } from "../sim/memory_directory.ts";
import { prepare, type Scenario, scenarioArgs, SCENARIOS } from "../sim/scenarios.ts";
import { copyDirectory } from "../sim/template.ts";
import { MIN_XFS_MB, whyNotMountable, withMount } from "../support/mounts.ts";
import { whyNoStrace } from "../support/strace.ts";
import { SeededRandom } from "../support/writers/random.ts";
import type { Request } from "./_child.ts";
import { runTraced } from "./_strace.ts";
import { verify } from "./_verdict.ts";
import { longTest, scaledTest, shortened } from "../support/long.ts";
import { testSeed } from "../support/seed.ts";

/** Kills for each operation. `SYSCALL_KILLS=all` kills at every call, which takes an hour. */
const KILLS = Deno.env.get("SYSCALL_KILLS") ?? "1";
const SEED = testSeed(7);

/** Calls that change what a directory or a file says; to die at one of these is to die before it. */
const CALLS = "rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,rmdir,ftruncate,utimensat," +
  "fsync,fdatasync,chmod,fchmod,copy_file_range,pwrite64";

/** A call of one thread, as strace counts them. */
interface Call {
  name: string;
  /** From 1. */
  number: number;
  /** With its arguments. */
  text: string;
}

/** What the child is asked. */
function requestOf(scenario: Scenario, directory: string): Request {
  return { op: scenario.op, args: scenarioArgs(scenario, directory) };
}

/** All calls that the operation makes, each as the nth of its name in its thread. */
async function callsOf(location: string, directory: string, scenario: Scenario): Promise<Call[]> {
  const log = `${directory}/trace`;
  const answer = await runTraced(location, requestOf(scenario, directory), "-o", log, "-e", `trace=${CALLS}`);
  assert(answer?.ok, JSON.stringify(answer));
  const calls = new Map<string, Call>();
  const counted = new Map<string, number>();
  for (const line of (await Deno.readTextFile(log)).split("\n")) {
    const [, thread, text, name] = /^(\d+) +((\w+)\(.*)$/.exec(line) ?? [];
    if (name === undefined) continue;
    const number = (counted.get(`${thread} ${name}`) ?? 0) + 1;
    counted.set(`${thread} ${name}`, number);
    if (!calls.has(`${name} ${number}`)) calls.set(`${name} ${number}`, { name, number, text: text! });
  }
  return [...calls.values()];
}

/** Kills the operation at a call, and verifies what it leaves. */
async function killAt(call: Call, location: string, directory: string, scenario: Scenario): Promise<boolean> {
  const { name, number } = call;
  const inject = ["-o", "/dev/null", "-e", `trace=${name}`, "-e", `inject=${name}:signal=KILL:when=${number}`];
  const answer = await runTraced(location, requestOf(scenario, directory), ...inject);
  try {
    await verify(location, directory, scenario, answer?.ok === true);
  } catch (error) {
    throw new Error(`${scenario.name} killed at ${name} ${number}: ${(error as Error).message}`, { cause: error });
  }
  return answer === undefined;
}

async function withTemplate(
  directory: string,
  work: (copy: () => Promise<string>) => Promise<void>,
): Promise<void> {
  const template = `${directory}/template`;
  {
    using store = await openStore(template);
    await prepare(store, directory);
    // Garbage, for who collects it.
    await store.fork({ db: "app", branch: "side" }, "gone", { materialize: true });
    await store.destroy({ db: "app", branch: "gone" }, { safety: false });
    await store.collectGarbage({ grace_ms: 0 });
  }
  const location = `${directory}/store`;
  await work(async () => {
    await Deno.remove(location, { recursive: true }).catch(() => {});
    await copyDirectory(template, location);
    return location;
  });
}

const COLLECTING: Scenario = { name: "gc", op: "collectGarbage", args: [{ grace_ms: 0 }], changes: {} };

async function killEverywhere(t: Deno.TestContext, directory: string): Promise<void> {
  const random = new SeededRandom(SEED);
  await withTemplate(directory, async (copy) => {
    for (const scenario of shortened([...SCENARIOS, COLLECTING], 3)) {
      const picks = random.fork();
      await t.step(scenario.name, async () => {
        const calls = await callsOf(await copy(), directory, scenario);
        const chosen = KILLS === "all" ? calls : Array.from({ length: Number(KILLS) }, () => picks.pick(calls));
        let killed = 0;
        for (const call of chosen) if (await killAt(call, await copy(), directory, scenario)) killed++;
        // Threads share their work differently each time, so some calls are never reached.
        if (KILLS === "all") assert(killed > chosen.length / 2, `${killed} of ${chosen.length} kills`);
      });
    }
  });
}

/** Lets one call of the operation fail, and verifies answer and store. */
async function failAt(call: Call, errno: string, location: string, directory: string, scenario: Scenario) {
  const { name, number } = call;
  const inject = ["-o", "/dev/null", "-e", `trace=${name}`, "-e", `inject=${name}:error=${errno}:when=${number}`];
  const answer = await runTraced(location, requestOf(scenario, directory), ...inject);
  const what = `${scenario.name}, ${errno} of ${name} ${number}`;
  assert(answer !== undefined, `${what}: no answer`);
  assert(answer.ok || (FAULTS[errno]! as string[]).includes(answer.code), `${what}: ${JSON.stringify(answer)}`);
  try {
    await verify(location, directory, scenario, answer.ok);
  } catch (error) {
    throw new Error(`${what}: ${(error as Error).message}`, { cause: error });
  }
}

/** What a failing call may come out as. SQLite says of a failing fsync no more than that the disk failed. */
const FAULTS: Record<string, ErrorCode[]> = {
  ENOSPC: ["no_space", "ambiguous", "unavailable"],
  EDQUOT: ["no_space", "ambiguous", "unavailable"],
  EIO: ["unavailable", "ambiguous"],
};
/** A removal fails with none of these; what is made beside a file may. */
const NEVER_FULL = /^(unlink|rmdir|utimensat|f?chmod)/;

const no_strace = await whyNoStrace();
const no_xfs = await whyNotMountable("xfs");

scaledTest({
  name:
    `a system call at which an operation is killed leaves it to the next run, edits to their owner, and no garbage${no_strace}`,
  ignore: no_strace !== "",
  fn: async (t) => {
    const directory = await makeMemoryDirectory("syscalls-");
    try {
      await killEverywhere(t, directory);
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  },
});

longTest({
  name: `the same of every operation where blocks can be cloned${no_strace || no_xfs}`,
  ignore: no_strace !== "" || no_xfs !== "",
  fn: (t) => withMount("xfs", MIN_XFS_MB, (directory) => killEverywhere(t, directory)),
});

scaledTest({
  name: `a system call that fails is one clear error, and what it was for is done by the next run${no_strace}`,
  ignore: no_strace !== "",
  fn: async (t) => {
    const directory = await makeMemoryDirectory("syscalls-");
    try {
      const random = new SeededRandom(SEED);
      await withTemplate(directory, async (copy) => {
        for (const scenario of shortened([...SCENARIOS, COLLECTING], 3)) {
          const picks = random.fork();
          await t.step(scenario.name, async () => {
            const calls = await callsOf(await copy(), directory, scenario);
            const chosen = KILLS === "all" ? calls : Array.from({ length: Number(KILLS) }, () => picks.pick(calls));
            for (const call of chosen) {
              const errno = NEVER_FULL.test(call.name) ? "EIO" : picks.pick(Object.keys(FAULTS));
              await failAt(call, errno, await copy(), directory, scenario);
            }
          });
        }
      });
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  },
});

Deno.test({
  name: `a directory of a store that another process makes or removes just then is no failure${no_strace}`,
  ignore: no_strace !== "",
  fn: async () => {
    const directory = await makeMemoryDirectory("syscalls-");
    try {
      await withTemplate(directory, async (copy) => {
        const scenario = SCENARIOS.find(({ name }) => name === "create")!;
        const calls = await callsOf(await copy(), directory, scenario);
        const made = calls.filter(({ name, text }) =>
          name.startsWith("mkdir") && /\/store\/(refs|lineages)\//.test(text)
        );
        assert(made.length > 0, calls.map(({ text }) => text).join("\n"));
        for (const { name, number, text } of made) {
          // It was there, and is gone again; or what it is to be in is gone.
          for (const errno of ["EEXIST", "ENOENT"]) {
            const location = await copy();
            const inject = [
              "-o",
              "/dev/null",
              "-e",
              `trace=${name}`,
              "-e",
              `inject=${name}:error=${errno}:when=${number}`,
            ];
            const answer = await runTraced(location, requestOf(scenario, directory), ...inject);
            assert(answer?.ok, `${errno} of ${text}: ${JSON.stringify(answer)}`);
            await verify(location, directory, scenario, true);
          }
        }
      });
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  },
});

Deno.test({
  name: `a temporary file that cannot be removed costs no answer${no_strace}`,
  ignore: no_strace !== "",
  fn: async (t) => {
    const directory = await makeMemoryDirectory("syscalls-");
    try {
      await withTemplate(directory, async (copy) => {
        for (
          const scenario of SCENARIOS.filter(({ name }) => ["create", "checkpoint", "diff", "verify"].includes(name))
        ) {
          await t.step(scenario.name, async () => {
            const calls = await callsOf(await copy(), directory, scenario);
            const removals = calls.filter(({ name, text }) =>
              name.startsWith("unlink") && text.includes("/store/tmp/.")
            );
            assert(removals.length > 0, "it removes none");
            await failAt(removals[0]!, "EIO", await copy(), directory, scenario);
          });
        }
      });
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  },
});

Deno.test({
  name: `a checkout whose replacement is cut off follows its branch without force${no_strace}`,
  ignore: no_strace !== "",
  fn: async (t) => {
    const directory = await makeMemoryDirectory("syscalls-");
    try {
      await withTemplate(directory, async (copy) => {
        for (const scenario of SCENARIOS.filter(({ name }) => name.startsWith("rollback"))) {
          await t.step(scenario.name, async () => {
            const calls = await callsOf(await copy(), directory, scenario);
            const replacing = calls.find(({ name, text }) =>
              name.startsWith("rename") && text.includes('/checkouts/app/side.db")')
            );
            assert(replacing !== undefined, "the checkout is not replaced");
            assert(await killAt(replacing, await copy(), directory, scenario), "it was not killed");
          });
        }
      });
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  },
});
