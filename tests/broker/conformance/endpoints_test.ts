/**
 * What a whole broker answers on its socket: capacity, the ceiling's object, and queue items whose watch was switched off.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { BrokerClient } from "../../../broker/client/client.ts";
import type { TaskEvent } from "../../../broker/task/rows.ts";
import { VirtualClock } from "../../support/clock.ts";
import { BrokerBench, until } from "../engine/bench.ts";
import { serveGit } from "../git/git_server.ts";
import { plainGit } from "../git/bench.ts";
import { APPROVED, plantTrace, someOrder, staged, START_MS, TO_THE_GATE } from "../task/lives.ts";
import { writeProgram } from "../../support/programs.ts";
import { longTest } from "../../support/long.ts";

/** Asks over the socket, as any client can. */
async function ask(bench: BrokerBench, path: string, body?: unknown): Promise<Response> {
  using client = Deno.createHttpClient({ proxy: { transport: "unix", path: bench.broker.socket } });
  const response = await fetch(`http://localhost${path}`, {
    client,
    ...(body === undefined
      ? {}
      : { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
  });
  return new Response(await response.text(), response);
}

// conformance: b2.effect.max_concurrent_tasks b4.post_tasks b7.capacity
Deno.test("POST /tasks is 202 for max_concurrent_tasks tasks, and 503 for the next one", async () => {
  for (const [config, slots] of [["", 2], ["max_concurrent_tasks: 1\n", 1]] as const) {
    await using bench = await BrokerBench.start({ config, script: ["hang"] });
    const order = { repo: bench.git.origin, instruction: "Say hello" };
    const ids: string[] = [];
    for (let n = 0; n < slots; n++) {
      const accepted = await ask(bench, "/tasks", order);
      assertEquals(accepted.status, 202);
      ids.push((await accepted.json()).id);
    }
    const refused = await ask(bench, "/tasks", order);
    assertEquals([refused.status, (await refused.json()).code], [503, "at_capacity"]);
    assertEquals(bench.engine.tasks.size, slots);
    for (const id of ids) await bench.engine.kill(id, "enough");
  }
});

// conformance: b4.post_tasks
Deno.test("POST /tasks for an agent without a key is refused by name, and is no defect", async () => {
  await using bench = await BrokerBench.start({ env: { ENDPOINT_KEY: "" } });
  const refused = await ask(bench, "/tasks", { repo: bench.git.origin, instruction: "Say hello" });
  const { code, detail } = await refused.json();
  assertEquals([refused.status, code], [409, "auth_failed"]);
  assertStringIncludes(detail, "ENDPOINT_KEY");
  assertEquals(bench.lines.filter((line) => line.includes("defect")), []);
});

// conformance: b2.ceiling.in_flight b4.admin_ceiling b4.admin_listener
Deno.test("GET /admin/ceiling is the whole object, with figures of what is under way", async () => {
  await using bench = await BrokerBench.start({ config: "global_budget_usd: 10\nglobal_max_tasks: 5\n" });
  const { id } = await bench.submit();
  const { spend, created_at } = await bench.reaches(id, "awaiting_approval");
  const { usd } = spend!;
  const response = await ask(bench, "/admin/ceiling");
  assertEquals([response.status, response.headers.get("content-type")], [200, "application/json"]);
  const expected = {
    enabled: true,
    window: "24h",
    window_ms: 86_400_000,
    budget_usd: 10,
    spent_usd: usd,
    headroom_usd: 10 - usd,
    max_tasks: 5,
    recorded_starts: 0,
    in_flight_starts: 1,
    starts: 1,
    headroom_starts: 4,
    usd: { blocked: false, reason: "" },
    tasks: { blocked: false, reason: "" },
    damaged: 0,
    oldest_entry: null,
    newest_entry: null,
  };
  assertEquals(await response.json(), expected);
  assertEquals((await (await ask(bench, "/admin/stats")).json()).global_ceiling, expected);
  await bench.engine.deny(id, "no");
  await bench.reaches(id);
  await bench.broker.stop();
  await bench.serve();
  const { oldest_entry, newest_entry, ...after } = await (await ask(bench, "/admin/ceiling")).json();
  assert(oldest_entry === newest_entry && oldest_entry >= created_at);
  assertEquals([after.recorded_starts, after.in_flight_starts, after.spent_usd], [1, 0, usd]);
});

// conformance: b2.ceiling.off
Deno.test("without a ceiling a broker's records have no folder of one", async () => {
  await using bench = await BrokerBench.start();
  assertEquals((await bench.pushed()).outcome, "pushed");
  const names = [...Deno.readDirSync(`${bench.home}/.taskd/audit`)].filter(({ isDirectory }) => isDirectory);
  assertEquals(names, []);
  const { enabled, headroom_usd, headroom_starts } = await (await ask(bench, "/admin/ceiling")).json();
  assertEquals([enabled, headroom_usd, headroom_starts], [false, null, null]);
});

const TASK = "a1".repeat(16);
const ITEM = "b2".repeat(16);
const COMMIT = "c".repeat(40);
const PULL_REQUEST = "https://git.example.com/acme/app/pull/7";

/** What a broker left that watched the checks of a pull request of the queue's. */
function plantWatch(home: string): void {
  const repo = "https://git.example.com/acme/app";
  const pushed = { branch: `agent/${TASK}`, commit: COMMIT, pull_request: PULL_REQUEST };
  const events: TaskEvent[] = [
    { type: "created", task: someOrder(TASK, { repo, queue_id: ITEM }) },
    ...TO_THE_GATE.map(staged),
    staged(APPROVED),
    { type: "push_attempt", remote: repo, branch: pushed.branch, commit: COMMIT },
    staged({ from: "pushing", to: "awaiting_ci", pushed }),
  ];
  const taskd = `${home}/.taskd`;
  for (const name of ["audit", "queue"]) Deno.mkdirSync(`${taskd}/${name}`, { mode: 0o700 });
  plantTrace(`${taskd}/audit`, events);
  const at = new Date(START_MS).toISOString();
  const item = { v: 1, id: ITEM, number: 1, request: { repo, instruction: "Fix" }, state: "awaiting_ci" };
  Deno.writeTextFileSync(
    `${taskd}/queue/${ITEM}.json`,
    JSON.stringify({ ...item, queued_at: at, updated_at: at, task_id: TASK }),
    { mode: 0o600 },
  );
}

/** A broker that finds such a watch, and what it asks of gh. */
async function withWatch(
  config: string,
  test: (bench: BrokerBench, clock: VirtualClock, calls: () => string[]) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    const clock = new VirtualClock(START_MS + 10_000);
    const view = JSON.stringify({ headRefOid: COMMIT, state: "OPEN", statusCheckRollup: [] });
    const gh = `${folder}/gh`;
    await writeProgram(
      gh,
      `#!/bin/bash
echo "$@" >> ${folder}/calls
[ "$1" = --version ] && echo 'gh version 2.60.0' || echo '${view}'
`,
    );
    await using bench = await BrokerBench.prepare({ config, clock, programs: { gh: [gh] } });
    plantWatch(bench.home);
    await bench.serve();
    const calls = () => {
      try {
        return Deno.readTextFileSync(`${folder}/calls`).trimEnd().split("\n");
      } catch {
        return [];
      }
    };
    await test(bench, clock, calls);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const queueItem = async (bench: BrokerBench) => {
  const [item] = await new BrokerClient({ socket: bench.broker.socket }).queue();
  return [item?.state, item?.reason];
};

// conformance: b2.ci.watch b2.ci.turn_off b3.dead_letter
Deno.test("a queue item in awaiting_ci is a dead letter at a boot with the watch off", () =>
  withWatch("", async (bench, clock, calls) => {
    assertEquals(await queueItem(bench), ["dead_letter", "no CI conclusion was observed"]);
    clock.advance(3_600_000);
    const { stage, outcome, ci } = await bench.engine.view(TASK);
    assertEquals([stage, outcome, ci?.state], ["done", "pushed", "no_conclusion"]);
    assertEquals(calls(), []);
  }));

// conformance: b2.ci.watch b2.ci.poll_interval b2.ci.read_only
Deno.test("ci.watch goes on after a restart, with one read-only call to the pinned host per tick", () =>
  withWatch("ci:\n  watch: true\n  poll_interval: 70s\n", async (bench, clock, calls) => {
    assertEquals(await queueItem(bench), ["awaiting_ci", undefined]);
    assertEquals(calls(), []);
    for (let tick = 1; tick <= 3; tick++) {
      // Nothing else in a broker waits for so long.
      await until(() => clock.sleeping.includes(70_000));
      clock.advance(70_000);
      await until(() => clock.sleeping.includes(70_000));
      assertEquals(calls().length, tick);
    }
    const one = "pr view --repo=git.example.com/acme/app 7 --json=headRefOid,state,statusCheckRollup";
    assertEquals(calls(), [one, one, one]);
  }));

// conformance: b2.effect.push_max_retries b2.effect.push_retry_backoff
longTest("a push that meets a fault of the network is tried again, unless push_max_retries is 0", async () => {
  for (const [retries, outcome] of [["3", "pushed"], ["0", "push_failed"]] as const) {
    await using bench = await BrokerBench.start({ env: { TASKD_PUSH_MAX_RETRIES: retries } });
    let faults = 0;
    await using server = await serveGit(
      bench.git.root,
      ({ url }) => url.includes("service=git-receive-pack") && faults++ < 2 ? { status: 503 } : "pass",
    );
    const done = await bench.pushed({ repo: `${server.origin}/acme/app` });
    assertEquals(done.outcome ?? done.stage, outcome, done.reason);
  }
});

// conformance: b2.effect.push_fresh_branch_tries b7.collision
longTest("a taken branch name fails the push after push_fresh_branch_tries others", async () => {
  for (const [tries, ended] of [["2", ["pushed", "-3"]], ["1", ["push_failed", undefined]]] as const) {
    await using bench = await BrokerBench.start({ env: { TASKD_PUSH_FRESH_BRANCH_TRIES: tries } });
    const { id } = await bench.submit();
    const { gate } = await bench.reaches(id, "awaiting_approval");
    for (const suffix of ["", "-2"]) await plainGit(bench.git.origin, "branch", `agent/${id}${suffix}`, "main");
    await bench.engine.approve(id, { diff_sha256: gate!.diff_sha256, acknowledge: [] });
    const { outcome, stage, pushed } = await bench.reaches(id);
    assertEquals([outcome ?? stage, pushed?.branch.replace(`agent/${id}`, "")], [...ended]);
  }
});
