/**
 * A broker that is about to be killed: moves tasks on as fast as it can and says, for
 * each row that was reported as written, its task and number.
 */

import type { Task } from "../../../broker/task/task.ts";
import { TaskStore } from "../../../broker/task/task_store.ts";
import { someOrder, TO_THE_GATE } from "./lives.ts";

const store = await TaskStore.open(Deno.args[0]!);
const encoder = new TextEncoder();
const { id: _, ...order } = someOrder("");

function say(task: Task): void {
  Deno.stdout.writeSync(encoder.encode(`${task.id} ${task.record.seq}\n`));
}

while (true) {
  const task = await store.create(order);
  say(task);
  for (const move of TO_THE_GATE) {
    await Promise.all([
      task.append({ type: "output", channel: "stdout", text: "x".repeat(5_000) }),
      task.append({ type: "note", text: "n" }),
      task.move(move),
    ]);
    say(task);
  }
}
