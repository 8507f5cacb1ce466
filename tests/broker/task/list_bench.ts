/**
 * How long it takes to find the tasks of an audit directory, with the index and without:
 * `deno run -A --no-prompt tests/broker/task/list_bench.ts [tasks]`.
 *
 * @module
 */

import { newTaskId } from "../../../broker/task/ids.ts";
import { indexPath, surveyTraces } from "../../../broker/task/task_index.ts";
import { TaskStore } from "../../../broker/task/task_store.ts";
import { SeededRandom } from "../../support/writers/random.ts";
import { anyLife, plantTrace, START_MS } from "./lives.ts";

const count = Number(Deno.args[0] ?? 1_000);
const random = new SeededRandom(1);
const root = await Deno.makeTempDir();
try {
  for (let n = 0; n < count; n++) plantTrace(root, anyLife(newTaskId(random.bytes), random), START_MS + n * 60_000);
  const timed = async (what: string, work: () => Promise<unknown>) => {
    const start = performance.now();
    await work();
    console.log(`${what}: ${(performance.now() - start).toFixed(0)} ms`);
  };
  console.log(`${count} finished tasks`);
  await timed("first start, every trace read and the index written", () => TaskStore.open(root));
  await timed("survey with the index", () => surveyTraces(root));
  const store = await TaskStore.open(root);
  await timed("list of 100", () => Promise.resolve(store.list()));
  await timed("the next list of 100", () => Promise.resolve(store.list()));
  console.log(`index: ${Deno.statSync(indexPath(root)).size} bytes, RSS ${Deno.memoryUsage().rss >> 20} MiB`);
} finally {
  await Deno.remove(root, { recursive: true });
}
