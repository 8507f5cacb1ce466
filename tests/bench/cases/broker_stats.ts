/**
 * What `taskd stats` costs over many finished tasks, with the index that a broker leaves and without.
 */

import { join } from "@std/path/join";
import { newTaskId } from "../../../broker/task/ids.ts";
import { indexPath } from "../../../broker/task/task_index.ts";
import { TaskStore } from "../../../broker/task/task_store.ts";
import { ownCommand } from "../../../cli/table/own_command.ts";
import { anyLife, plantTrace, START_MS } from "../../broker/task/lives.ts";
import { SeededRandom } from "../../support/writers/random.ts";
import { type Bench, type BenchCase, settle } from "../bench.ts";
import type { Target } from "../figures.ts";
import type { Place } from "../file_systems.ts";
import { run, TASKD_ENTRY } from "../process.ts";
import { elapsed, interleave } from "../stats.ts";

/** Between two tasks: a hundred thousand are 69 days. */
const APART_MS = 60_000;

/** The case. */
export const stats: BenchCase = {
  name: "stats",
  title: "Add up finished tasks",
  method:
    "`taskd stats --json` as the program a person runs, start included, with no broker. Traces are 1 KB in five rows on average. `no index` reads and checks every row of " +
    "every trace, which a broker that starts does once and notes in the index; beside it, `cat` reads the same files. `taskd version` is what starting the program takes.",
  places: "plain",
  async run(bench, place) {
    for (const tasks of bench.pick([1_000, 100_000], [200])) await measure(bench, place, tasks);
  },
};

/** What was promised of so many tasks, in milliseconds. */
const TARGETS: Readonly<Record<number, { indexed: Target; no_index: Target }>> = {
  1_000: { indexed: { value: 300, is: "at_most" }, no_index: { value: 300, is: "at_most" } },
  100_000: { indexed: { value: 5_000, is: "at_most" }, no_index: { value: 5_000, is: "at_most" } },
};

async function measure(bench: Bench, place: Place, tasks: number): Promise<void> {
  const home = join(place.dir, `home-${tasks}`);
  const audit_root = join(home, ".taskd", "audit");
  await Deno.mkdir(audit_root, { recursive: true, mode: 0o700 });
  const random = new SeededRandom(1);
  for (let index = 0; index < tasks; index++) {
    plantTrace(audit_root, anyLife(newTaskId(random.bytes), random), START_MS + index * APART_MS);
  }
  await Deno.writeTextFile(
    join(home, ".taskd", "config.yaml"),
    `runtime: deno\nbroker:\n  socket: ${home}/none.sock\n`,
    { mode: 0o600 },
  );
  await (await TaskStore.open(audit_root)).close();
  await settle(place);
  const index = indexPath(audit_root);
  const [program, args] = ownCommand(TASKD_ENTRY, ["stats", "--json"]);
  // Deno would look for its cache below HOME.
  const { denoDir } = JSON.parse(await run(Deno.execPath(), ["info", "--json"])) as { denoDir: string };
  const taskd = async () => {
    const { success, stdout, stderr } = await new Deno.Command(program, {
      args,
      stdin: "null",
      env: { HOME: home, DENO_DIR: denoDir },
    }).output();
    if (!success) throw new Error(new TextDecoder().decode(stderr));
    const said = JSON.parse(new TextDecoder().decode(stdout)) as { tasks: number; damaged: number };
    if (said.tasks !== tasks || said.damaged !== 0) throw new Error(`taskd stats counts ${said.tasks} tasks`);
  };
  const taken = await interleave({
    version: () => elapsed(() => run(...ownCommand(TASKD_ENTRY, ["version"]))),
    indexed: () => elapsed(taskd),
    no_index: async () => {
      await Deno.rename(index, `${index}.aside`);
      try {
        return await elapsed(taskd);
      } finally {
        await Deno.rename(`${index}.aside`, index);
      }
    },
    cat: () => elapsed(() => run("sh", ["-c", `find '${audit_root}' -name '*.jsonl' -exec cat {} + | wc -c`])),
  }, { samples: bench.pick(tasks > 10_000 ? 5 : 15, 3) });
  const of = tasks.toLocaleString("en");
  bench.add(place, `taskd version, ${of}`, "ms", taken.version!);
  bench.add(place, `${of} tasks`, "ms", taken.indexed!, { ...targetOf(tasks, "indexed") });
  bench.add(place, `${of} tasks, no index`, "ms", taken.no_index!, { ...targetOf(tasks, "no_index") });
  bench.add(place, `cat of ${of} traces`, "ms", taken.cat!, { beside: `${of} tasks, no index` });
  await Deno.remove(home, { recursive: true });
}

function targetOf(tasks: number, kind: "indexed" | "no_index"): { target?: Target } {
  const target = TARGETS[tasks]?.[kind];
  return target === undefined ? {} : { target };
}
