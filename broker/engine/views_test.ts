import { assert, assertEquals } from "@std/assert";
import { plantTrace, someOrder, staged } from "../../tests/broker/task/lives.ts";
import { nextTurn } from "../../lib/clock.ts";
import type { TaskEvent } from "../task/rows.ts";
import { TaskStore } from "../task/task_store.ts";
import { tracePath } from "../task/trace.ts";
import { taskView } from "./views.ts";

const ID = "a".repeat(32);
const ROWS = 3_000;
/** More than is read of a trace in one turn. */
const PIECE_BYTES = 150_000;

Deno.test("taskView() of a long trace does not block the event loop, and finds damage", async () => {
  const root = await Deno.makeTempDir();
  try {
    const text = "x".repeat(1_000);
    const output = Array.from({ length: ROWS }, (): TaskEvent => ({ type: "output", channel: "stdout", text }));
    const end = staged({ from: "admission", to: "done", outcome: "cancelled", reason: "enough" });
    plantTrace(root, [{ type: "created", task: someOrder(ID) }, ...output, end]);
    const store = await TaskStore.open(root);
    const { size } = Deno.statSync(tracePath(root, ID));
    let turns = 0;
    let seen = false;
    const others = (async () => {
      for (; !seen; turns++) await nextTurn();
    })();
    const view = await taskView(store, ID, () => undefined);
    seen = true;
    await others;
    assertEquals([view.stage, view.outcome, view.trace], ["done", "cancelled", { intact: true, rows: ROWS + 2 }]);
    // Its chain and its moves are verified in one pass, its record is read in another.
    assert(turns >= 2 * Math.floor(size / PIECE_BYTES), `${turns} turns in ${size} bytes`);

    const path = tracePath(root, ID);
    const live = await store.reopen(ID);
    Deno.writeTextFileSync(path, Deno.readTextFileSync(path).replace(/x(?="[^\n]*\n[^\n]*"done")/, "y"));
    const altered = await taskView(store, ID, () => undefined);
    assertEquals(altered.stage, "done");
    assert(!altered.trace.intact && altered.trace.fault.startsWith(`row ${ROWS + 1} is altered`));
    await live.close();
    await store.close();
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
