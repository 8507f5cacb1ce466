import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { QueueItemView } from "../../../broker/api/wire.ts";
import { BrokerClient } from "../../../broker/client/client.ts";
import { configure, makeBrokerPlace, startBroker } from "../../cli/support/broker_place.ts";
import type { Place } from "../../cli/support/taskd.ts";
import { type Asked, ModelServer, type Scripted } from "../../support/model_server.ts";
import { oneChange, until } from "../engine/bench.ts";
import { GitBench } from "../git/bench.ts";
import { longTest } from "../../support/long.ts";

/** A model that does not go on with a task whose instruction says `hold` before the test lets it. */
class HoldingModel {
  readonly held: string[] = [];
  #release = Promise.withResolvers<void>();
  readonly server = new ModelServer([(asked) => this.#answer(asked)]);

  /** First requests that had this text. */
  begun(text: string): number {
    return this.server.asked.filter(({ body }) => body.messages.length === 2 && said(body.messages).includes(text))
      .length;
  }

  release(): void {
    this.#release.resolve();
    this.#release = Promise.withResolvers();
  }

  #answer(asked: Asked): Scripted {
    const instruction = said(asked.body.messages);
    if (!instruction.includes("hold") || asked.body.messages.length > 2) return oneChange(asked);
    this.held.push(instruction);
    const released = this.#release.promise;
    const body = new ReadableStream({
      async start(controller) {
        await released;
        controller.enqueue(new TextEncoder().encode(JSON.stringify(FINISHED)));
        controller.close();
      },
    });
    return new Response(body, { headers: { "content-type": "application/json" } });
  }
}

const CALL = {
  id: "call_1",
  type: "function",
  function: { name: "write", arguments: '{"path":"held.txt","content":"x\\n"}' },
};
/** A turn of a model that writes a file. */
const FINISHED = {
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1_760_000_000,
  model: "small",
  choices: [{
    index: 0,
    message: { role: "assistant", content: null, tool_calls: [CALL] },
    finish_reason: "tool_calls",
  }],
  usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 },
};

function said(messages: Asked["body"]["messages"]): string {
  return messages.find(({ role }) => role === "user")?.content ?? "";
}

interface Queued {
  place: Place & { home: string };
  model: HoldingModel;
  /** The repository. */
  repo: string;
  config(more?: string): Promise<void>;
  /** Starts the broker, or the next one. */
  start(): Promise<Awaited<ReturnType<typeof startBroker>> & { client: BrokerClient }>;
  /** `queue add`; the item's id. */
  add(...words: string[]): Promise<string>;
  /** `queue list --json`. */
  items(): Promise<QueueItemView[]>;
  /** Waits until the items are in these states, one after the other. */
  states(client: BrokerClient, ...states: string[]): Promise<void>;
}

async function withQueue(test: (queued: Queued) => Promise<void>): Promise<void> {
  await using git = await GitBench.start();
  await using place = await makeBrokerPlace();
  const model = new HoldingModel();
  await using _ = model.server;
  const config = (more = "max_concurrent_tasks: 1\n") =>
    configure(
      place,
      `runtime: deno\ndefault_agent: agent_d\ncompat:\n  base_url: ${model.server.url}\n  model: small\n${more}`,
    );
  await config();
  const items = async () => (await place.json(["queue", "list"])).items as QueueItemView[];
  try {
    await test({
      place,
      model,
      repo: git.origin,
      config,
      start: async () => {
        const broker = await startBroker(place);
        return Object.assign(broker, { client: new BrokerClient({ socket: broker.hello.socket }) });
      },
      add: async (...words) => {
        const { code, stdout, stderr } = await place.taskd("queue", "add", git.origin, ...words);
        assertEquals([code, stderr], [0, ""]);
        return stdout.trim();
      },
      items,
      states: (client, ...states) =>
        until(async () => (await client.queue()).map(({ state }) => state).join() === states.join()),
    });
  } finally {
    model.release();
  }
}

async function approve(client: BrokerClient, item: QueueItemView): Promise<void> {
  const { id, gate } = await client.task(item.task_id!);
  await client.approve(id, { diff_sha256: gate!.diff_sha256, acknowledge: gate!.second_look });
}

longTest(
  "items begin in order as slots become free, and are cancelled by a prefix of the id",
  () =>
    withQueue(async ({ place, model, add, items, start, states }) => {
      await using broker = await start();
      const { client } = broker;
      const ids = [await add("hold one"), await add("two"), await add("three \u001b[2J"), await add("four")];
      for (const id of ids) assertMatch(id, /^[0-9a-f]{32}$/);
      await until(() => model.held.length === 1);
      await states(client, "running", "queued", "queued", "queued");
      const listed = await items();
      assertEquals(listed.map(({ id }) => id), ids);
      assertStringIncludes(listed[1]!.reason!, "max_concurrent_tasks");
      const table = (await place.taskd("queue", "list")).stdout;
      assertMatch(table, /^ID +AGE +STATE +TASK +AGENT +REPO +INSTRUCTION +REASON\n/);
      assertEquals(table.includes("\u001b"), false);

      assertEquals((await place.taskd("queue", "cancel", ids[2]!.slice(0, 8))).code, 0);
      assertEquals((await place.json(["queue", "cancel", ids[2]!], 1)).code, "wrong_state");
      assertEquals((await place.json(["queue", "cancel", "0".repeat(32)], 1)).code, "not_found");
      model.release();
      await states(client, "awaiting_approval", "awaiting_approval", "cancelled", "awaiting_approval");
      const [one, two, three, four] = await items() as [QueueItemView, QueueItemView, QueueItemView, QueueItemView];
      assertEquals([three.task_id, three.reason], [undefined, "cancelled before it began"]);
      const begun = await Promise.all([one, two, four].map(({ task_id }) => client.task(task_id!)));
      assertEquals(begun.map(({ queue_id }) => queue_id), [ids[0], ids[1], ids[3]]);
      assertEquals(begun.map(({ created_at }) => created_at), begun.map(({ created_at }) => created_at).sort());

      await approve(client, one);
      assertEquals((await place.taskd("queue", "cancel", ids[1]!.slice(0, 8))).code, 0);
      await states(client, "completed", "cancelled", "cancelled", "awaiting_approval");
      assertEquals((await client.task(two.task_id!)).outcome, "cancelled");
      assertEquals((await place.taskd("stop")).code, 0);
    }),
);

for (const how of ["stopped", "killed"] as const) {
  const test = how === "killed" ? Deno.test : longTest;
  test(`a broker that is ${how} leaves items in flight as dead letters; the rest goes on`, () =>
    withQueue(async ({ place, model, add, items, start, states }) => {
      const ids: string[] = [];
      {
        await using broker = await start();
        for (const words of ["hold one", "two", "three"]) ids.push(await add(words));
        await until(() => model.held.length === 1);
        await states(broker.client, "running", "queued", "queued");
        if (how === "stopped") {
          const stopping = place.taskd("stop");
          await until(() => broker.client.health().then(() => false, () => true));
          // The gateway waits for an answer that the vendor bills.
          model.release();
          assertEquals((await stopping).code, 0);
        } else broker.child.kill("SIGKILL");
        await broker.ended();
      }
      await using broker = await start();
      const { client } = broker;
      await until(async () => (await client.queue()).slice(1).every(({ state }) => state === "awaiting_approval"));
      const listed = await items();
      assertEquals(listed.map(({ id }) => id), ids);
      const [one, two, three] = listed as [QueueItemView, QueueItemView, QueueItemView];
      const task = await client.task(one.task_id!);
      assertEquals([one.state, task.outcome], ["dead_letter", "agent_failed"]);
      const stopped = how === "stopped" ? "the broker was stopped" : "the broker stopped";
      assertStringIncludes(one.reason!, `agent_failed: ${stopped} while the task was in running`);
      assertEquals([model.begun("hold one"), model.begun("two"), model.begun("three")], [1, 1, 1]);
      assertEquals((await client.tasks({})).tasks.length, 3);
      const [second, third] = await Promise.all([two, three].map(({ task_id }) => client.task(task_id!)));
      assert(second!.created_at <= third!.created_at);
      assertEquals((await place.taskd("stop")).code, 0);
    }));
}

longTest(
  "a ceiling that refuses leaves items in the queue and says why; with more room they begin",
  () =>
    withQueue(async ({ place, add, items, start, states, config }) => {
      await config("max_concurrent_tasks: 1\nglobal_max_tasks: 1\nglobal_window: 0s\n");
      {
        await using broker = await start();
        await add("one");
        await add("two");
        await states(broker.client, "awaiting_approval", "queued");
        await until(async () => (await broker.client.queue())[1]!.reason?.includes("global_max_tasks") === true);
        assertStringIncludes((await place.taskd("queue", "list")).stdout, "global_max_tasks");
        assertEquals((await place.taskd("stop")).code, 0);
        await broker.ended();
      }
      await config("max_concurrent_tasks: 1\nglobal_max_tasks: 2\nglobal_window: 0s\n");
      await using broker = await start();
      await states(broker.client, "awaiting_approval", "awaiting_approval");
      assertEquals((await items()).map(({ reason }) => reason), [undefined, undefined]);
      assertEquals((await place.taskd("stop")).code, 0);
    }),
);

// conformance: b3.dead_letter
Deno.test("an impossible item is refused at once, and one that fails is a dead letter with its reason", () =>
  withQueue(async ({ place, repo, add, items, start, states }) => {
    await using broker = await start();
    assertEquals((await place.json(["queue", "add", repo, "no", "--agent", "agent_x"], 2)).code, "usage");
    for (const words of [["--agent", "agent_a"], ["--base=--upload-pack=x"]]) {
      const refused = await place.json(["queue", "add", repo, "no", ...words], 1);
      assertEquals(refused.code, "invalid_request", words.join(" "));
    }
    assertEquals(await items(), []);
    await add("one", "--base", "no-such-branch");
    await states(broker.client, "dead_letter");
    const [{ reason, task_id }] = await items() as [QueueItemView];
    assertMatch(reason!, /^setup_failed: .*no-such-branch/);
    assertEquals((await broker.client.task(task_id!)).outcome, "setup_failed");
    assertStringIncludes((await place.taskd("queue", "list")).stdout, "setup_failed: Cannot clone");
    assertEquals((await place.taskd("stop")).code, 0);
  }));
