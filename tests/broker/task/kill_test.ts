import { assertEquals } from "@std/assert";
import { recoverTask } from "../../../broker/task/recover.ts";
import { TaskStore } from "../../../broker/task/task_store.ts";

/** Where a task may stand once it is recovered: ended, at the gate, or with an approved change that is yet to land. */
const RECOVERED = ["done", "awaiting_approval", "pushing"];

/** Runs the broker until it has reported `count` rows, then kills it; gives the last number reported of each task. */
async function killed(root: string, count: number): Promise<Map<string, number>> {
  await using child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-prompt", new URL("./kill_main.ts", import.meta.url).pathname, root],
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const said = new Map<string, number>();
  let text = "";
  let alive = true;
  for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    // Goes on reading: what was said before the kill counts.
    if (alive && text.split("\n").length > count) {
      child.kill("SIGKILL");
      alive = false;
    }
  }
  for (const line of text.split("\n").slice(0, -1)) {
    const [id, seq] = line.split(" ");
    said.set(id!, Number(seq));
  }
  return said;
}

Deno.test("SIGKILL at any moment: every row that was reported is there, and every task is recovered", async () => {
  const root = await Deno.makeTempDir();
  try {
    const said = new Map<string, number>();
    for (const count of [1, 8, 17, 33]) {
      for (const [id, seq] of await killed(root, count)) said.set(id, seq);
      const store = await TaskStore.open(root);
      // Nor is there a trace of a task that was not yet one: a trace has its first row before its name.
      assertEquals(store.damaged(), []);
      for (const [id, seq] of said) {
        const verdict = await store.verify(id);
        assertEquals(verdict.intact && verdict.head.seq >= seq, true, `${id}: ${JSON.stringify(verdict)}`);
      }
      for (const { id } of store.unfinished()) {
        const task = await store.reopen(id);
        const came_to = await recoverTask(task, { watch_ci: false });
        const { stage } = task.record;
        assertEquals([RECOVERED.includes(stage), came_to === "unpushed"], [true, stage === "pushing"], stage);
      }
      await store.close();
    }
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
