import { existsSync } from "@std/fs/exists";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { BrokerClient } from "../../broker/client/client.ts";
import { GitBench, plainGit } from "../broker/git/bench.ts";
import { ModelServer } from "../support/model_server.ts";
import { configure, makeBrokerPlace, startBroker } from "./support/broker_place.ts";
import { textLines } from "../support/text_lines.ts";
import { longTest } from "../support/long.ts";

const SECRET = "sk-endpoint-0123456789abcdef";

/** A place with settings that lead to a model of the test's own, and a repository. */
async function makeWorkshop(held: Promise<void> = Promise.resolve()) {
  const place = await makeBrokerPlace({ MY_ENDPOINT_KEY: SECRET });
  const git = await GitBench.start();
  const model = new ModelServer([
    async () => {
      await held;
      return { calls: [["write", { path: "hello.txt", content: "hello\n" }]] };
    },
    { calls: [["finish", { summary: "done" }]] },
  ]);
  const config = `runtime: deno
default_agent: agent_d
compat:
  base_url: ${model.url}
  model: small
  api_key_env: MY_ENDPOINT_KEY
  prices: { default: { input: 1, output: 1 } }
`;
  await configure(place, config);
  return {
    place,
    git,
    config,
    [Symbol.asyncDispose]: async () => {
      await model[Symbol.asyncDispose]();
      await git[Symbol.asyncDispose]();
      await place[Symbol.asyncDispose]();
    },
  };
}

Deno.test("stop names the tasks that would end, and with --drain waits for them", async () => {
  const held = Promise.withResolvers<void>();
  await using workshop = await makeWorkshop(held.promise);
  const { place, git } = workshop;
  await using broker = await startBroker(place);
  const client = new BrokerClient({ socket: broker.hello.socket });
  const { id } = await client.submit({ repo: git.origin, instruction: "Say hello" });
  await reaches(client, id, "running");
  const stopping = place.start("stop", "--drain");
  const said = textLines(stopping.stderr);
  assertEquals([(await said.next()).value, (await said.next()).value], [
    "Waiting for 1 task to come to the gate or to end:",
    `  ${id.slice(0, 12)}  running  ${git.origin}  Say hello`,
  ]);
  // It holds nothing up: the broker still serves.
  assertEquals((await client.health()).running, 1);
  held.resolve();
  await said.return();
  await stopping.stdout.cancel();
  assertEquals((await stopping.status).code, 0);
  assertEquals((await broker.ended()).code, 0);
  await using next = await startBroker(place);
  const again = new BrokerClient({ socket: next.hello.socket });
  assertEquals((await again.task(id)).stage, "awaiting_approval");
  await place.taskd("stop");
  await next.ended();
});

/** Waits for a stage by the task's own events. */
async function reaches(client: BrokerClient, id: string, stage: string): Promise<void> {
  for await (const event of client.events(id)) {
    if (event.event === "stage" && event.data.stage === stage) return;
    if (event.event === "result" && stage === "done") return;
    if (event.event === "result") throw new Error(JSON.stringify(event.data));
  }
}

longTest("a task at the gate outlives the broker's replacement, and is approved and pushed after it", async () => {
  await using workshop = await makeWorkshop();
  const { place, git, config } = workshop;
  await using first = await startBroker(place);
  const before = new BrokerClient({ socket: first.hello.socket });
  const { id } = await before.submit({ repo: git.origin, instruction: "Say hello" });
  await reaches(before, id, "awaiting_approval");
  await configure(place, `${config}max_concurrent_tasks: 5\n`);
  await using second = await startBroker(place);
  assertEquals((await first.ended()).code, 0);
  assertEquals(second.hello.replaced_pid, first.hello.pid);

  const after = new BrokerClient({ socket: second.hello.socket });
  const [waiting] = await after.pending();
  assertEquals(waiting?.id, id);
  await after.approve(id, { diff_sha256: waiting!.gate.diff_sha256, acknowledge: waiting!.gate.second_look });
  await reaches(after, id, "done");
  assertEquals((await after.task(id)).outcome, "pushed");
  assertEquals(await plainGit(git.origin, "show", `agent/${id}:hello.txt`), "hello");
  await place.taskd("stop");
  const { errors } = await second.ended();
  assert(!errors.includes(SECRET));
});

Deno.test("a task at the gate outlives the broker's sudden death", async () => {
  await using workshop = await makeWorkshop();
  const { place, git } = workshop;
  let id: string;
  {
    await using broker = await startBroker(place);
    const client = new BrokerClient({ socket: broker.hello.socket });
    ({ id } = await client.submit({ repo: git.origin, instruction: "Say hello" }));
    await reaches(client, id, "awaiting_approval");
    broker.child.kill("SIGKILL");
    await broker.child.status;
  }
  await using broker = await startBroker(place);
  const [waiting] = await new BrokerClient({ socket: broker.hello.socket }).pending();
  assertEquals(waiting?.id, id);
  await place.taskd("stop");
  assertEquals((await broker.ended()).code, 0);
});

const podman = existsSync("/usr/bin/podman");

Deno.test({
  name: `start refuses a container runtime without its images${podman ? "" : " (podman is not installed)"}`,
  ignore: !podman,
  async fn() {
    await using workshop = await makeWorkshop();
    const { place, config } = workshop;
    const images = "sandbox_image: localhost/taskd-none:1\nanchor_image: localhost/taskd-none:2\n";
    await configure(place, config.replace("runtime: deno", "runtime: podman") + images);
    const failed = await place.json(["start"], 1);
    assertEquals(failed.code, "sandbox_failed");
    assertStringIncludes(String(failed.error), "localhost/taskd-none:1");
    assertStringIncludes(String(failed.hint), "taskd setup");
  },
});
