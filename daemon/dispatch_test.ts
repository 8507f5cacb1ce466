import { assertEquals } from "@std/assert";
import { nextTurn } from "../lib/clock.ts";
import { Dispatcher, type Handlers } from "./dispatch.ts";

const request = (op: string) => ({ id: op, request: { op, fields: {} } });

/** A dispatcher whose `databases` waits until it is released, once for each call. */
function waiting(): { dispatcher: Dispatcher; release: () => void } {
  const calls: (() => void)[] = [];
  const handlers: Pick<Handlers, "databases"> = {
    databases: () => new Promise((resolve) => calls.push(() => resolve({ databases: [] }))),
  };
  return { dispatcher: new Dispatcher(handlers as Handlers, () => {}), release: () => calls.shift()!() };
}

Deno.test("a stop waits for everything that runs, and for nothing where nothing does", async () => {
  const { dispatcher, release } = waiting();
  const answers = [dispatcher.run(request("databases")), dispatcher.run(request("databases"))];
  let stopped = false;
  const stopping = dispatcher.stop().then(() => stopped = true);
  for (const expected of [false, false]) {
    await nextTurn();
    assertEquals(stopped, expected);
    release();
  }
  await stopping;
  for (const answer of answers) assertEquals(await answer, { ok: true, id: "databases", databases: [] });
  await waiting().dispatcher.stop();
});

Deno.test("a request after stop() is refused and does not run", async () => {
  const { dispatcher } = waiting();
  await dispatcher.stop();
  const { ok, code } = await dispatcher.run(request("databases")) as { ok: boolean; code: string };
  assertEquals([ok, code], [false, "stopping"]);
  assertEquals(dispatcher.subscription(request("subscribe")), undefined);
});
