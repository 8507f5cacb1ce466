import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { TaskdError } from "../../../lib/errors.ts";
import { configure, EMBEDDED, makeBrokerPlace, startBroker } from "../../cli/support/broker_place.ts";
import { CONTRACT_SETTINGS } from "../../conformance/broker_settings.ts";
import { BrokerBench } from "../engine/bench.ts";
import { serveGit } from "../git/git_server.ts";
import { longTest } from "../../support/long.ts";

/** A value for every variable of the contract, and how it is shown; all of them hold together. */
function values(folder: string): Record<string, [text: string, shown: unknown]> {
  return {
    TASKD_VENDOR_A_AUTH: ["subscription", "subscription"],
    TASKD_VENDOR_B_AUTH: ["subscription", "subscription"],
    TASKD_DEFAULT_AGENT: ["codex", "agent_b"],
    TASKD_DEFAULT_MODEL: ["model-2", "model-2"],
    TASKD_TASK_BUDGET_USD: ["3.5", 3.5],
    TASKD_TASK_MAX_INFLIGHT: ["4", 4],
    TASKD_MAX_REQUEST_COST_USD: ["0.5", 0.5],
    TASKD_TASK_MAX_REQUESTS: ["60", 60],
    TASKD_AGGREGATE_BUDGET_USD: ["20", 20],
    TASKD_AGGREGATE_WINDOW: ["36h", "36h"],
    TASKD_GLOBAL_BUDGET_USD: ["30", 30],
    TASKD_GLOBAL_MAX_TASKS: ["40", 40],
    TASKD_GLOBAL_WINDOW: ["0s", "0s"],
    TASKD_MAX_CONCURRENT_TASKS: ["5", 5],
    TASKD_NO_NOTIFY: ["1", false],
    TASKD_PUSH_MAX_RETRIES: ["0", 0],
    TASKD_PUSH_RETRY_BACKOFF: ["500ms", "500ms"],
    TASKD_PUSH_FRESH_BRANCH_TRIES: ["7", 7],
    TASKD_NETWORK: ["our-net", "our-net"],
    TASKD_GW_IP: ["10.1.2.3", "10.1.2.3"],
    SANDBOX_IMAGE: ["h.example/box:2", "h.example/box:2"],
    TASKD_ANCHOR_IMAGE: ["h.example/anchor:2", "h.example/anchor:2"],
    STAGE_ROOT: [`${folder}/stage`, `${folder}/stage`],
    AUDIT_ROOT: [`${folder}/audit`, `${folder}/audit`],
    SQUID_RUN_DIR: [`${folder}/squid`, `${folder}/squid`],
    TASKD_CACHE_ROOT: [`${folder}/cache`, `${folder}/cache`],
    TASKD_CACHE_QUOTA_GB: ["1.5", 1.5],
    BROKER_SOCKET: [`${folder}/s/b.sock`, `${folder}/s/b.sock`],
    BROKER_ADDR: ["127.0.0.1:0", "127.0.0.1:0"],
    TASKD_LOG_JSON: ["1", true],
    TASKD_STRICT_CONTAINER_VERSION: ["1", true],
    TASKD_CI_WATCH: ["1", true],
    TASKD_CI_POLL_INTERVAL: ["10s", "10s"],
    TASKD_CI_WATCH_TIMEOUT: ["2h", "2h"],
    TASKD_CI_MAX_ATTEMPTS: ["11", 10],
  };
}

Deno.test("a broker started with every variable applies each, and policy explain names it", async () => {
  const folder = await Deno.realPath(await Deno.makeTempDir({ prefix: "taskd-" }));
  try {
    const given = values(folder);
    const free = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const addr = `127.0.0.1:${free.addr.port}`;
    free.close();
    given.BROKER_ADDR = [addr, addr];
    const variables = CONTRACT_SETTINGS.flatMap(({ variable }) => variable ?? []);
    assertEquals(Object.keys(given).sort(), [...variables].sort());
    const egress = `${folder}/egress.yaml`;
    await Deno.writeTextFile(egress, "allow:\n  - host: files.example.com\n    ports: [443]\n", { mode: 0o600 });
    const env = Object.fromEntries(Object.entries(given).map(([name, [text]]) => [name, text]));
    await using place = await makeBrokerPlace({ ...env, EGRESS_CONFIG: egress });
    await configure(place, `${EMBEDDED}approval_timeout: 24h\n`);
    await using broker = await startBroker(place);
    assertEquals(broker.hello.socket, given.BROKER_SOCKET![1]);
    const explained = await place.taskd("policy", "explain", "--json");
    const { live, local, in_sync } = JSON.parse(explained.stdout);
    assertEquals([in_sync, live.hash], [true, local.hash]);
    type Field = { setting: string; value: unknown; source: string };
    for (const { path, variable } of CONTRACT_SETTINGS) {
      if (variable === null) continue;
      const field = live.fields.find(({ setting }: Field) => setting === path);
      assertEquals([field?.value, field?.source], [given[variable]![1], `env:${variable}`], path);
    }
    const list = live.fields.find(({ source }: Field) => source === "env:EGRESS_CONFIG");
    assertEquals(list?.value, { path: egress, allow: ["files.example.com:443"] });
    for (const kept of ["audit", "s"]) assert(Deno.statSync(`${folder}/${kept}`).isDirectory, kept);
    assertEquals([...Deno.readDirSync(`${place.home}/.taskd`)].map(({ name }) => name).includes("audit"), false);
    const health = await fetch(`http://${addr}/healthz`);
    assertEquals([health.status, (await health.json()).ok], [200, true]);
    assertEquals((await place.taskd("stop")).code, 0);
    const { errors } = await broker.ended();
    const lines = errors.trim().split("\n").map((line) => JSON.parse(line));
    assert(lines.some(({ event }) => event === "broker_stopped"));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

/** What a variable does to a task of a broker whose file says the opposite. */
interface Effect {
  env: Record<string, string>;
  /** The file's say. */
  config: string;
  /** Code of the refused submission; or the outcome of the task. */
  comes_to: string;
  says: string;
  /** Submissions before the one that counts; they come to their gates. */
  before?: number;
}

const EFFECTS: readonly Effect[] = [
  {
    env: { TASKD_TASK_MAX_REQUESTS: "1" },
    config: "task_max_requests: 100\n",
    comes_to: "agent_failed",
    says: "raise task_max_requests",
  },
  {
    env: { TASKD_TASK_BUDGET_USD: "0.000001" },
    config: "task_budget_usd: 100\n",
    comes_to: "agent_failed",
    says: "raise task_budget_usd",
  },
  {
    env: { TASKD_MAX_REQUEST_COST_USD: "3" },
    config: "max_request_cost_usd: 0\n",
    comes_to: "agent_failed",
    says: "lower max_request_cost_usd",
  },
  {
    env: { TASKD_GLOBAL_MAX_TASKS: "2" },
    config: "global_max_tasks: 100\n",
    comes_to: "ceiling_reached",
    says: "global_max_tasks",
    before: 2,
  },
  {
    env: { TASKD_GLOBAL_BUDGET_USD: "0.000001" },
    config: "global_budget_usd: 100\n",
    comes_to: "ceiling_reached",
    says: "global_budget_usd",
    before: 1,
  },
  {
    env: { TASKD_GLOBAL_BUDGET_USD: "0.000001", TASKD_GLOBAL_WINDOW: "0s" },
    config: "global_window: 1h\n",
    comes_to: "ceiling_reached",
    says: "does not age out",
    before: 1,
  },
  {
    env: { TASKD_AGGREGATE_BUDGET_USD: "0.000001" },
    config: "aggregate_budget_usd: 100\n",
    comes_to: "ceiling_reached",
    says: "aggregate_budget_usd",
    before: 1,
  },
  {
    env: { TASKD_AGGREGATE_BUDGET_USD: "0.000001", TASKD_AGGREGATE_WINDOW: "36h" },
    config: "aggregate_window: 1h\n",
    comes_to: "ceiling_reached",
    says: "36h",
    before: 1,
  },
  {
    env: { TASKD_DEFAULT_AGENT: "agent_c" },
    config: "",
    comes_to: "invalid_request",
    says: "agent_c",
  },
];

for (const { env, config, comes_to, says, before = 0 } of EFFECTS) {
  const names = Object.entries(env).map(([name, text]) => `${name}=${text}`).join(" ");
  Deno.test(`${names} wins over the file: ${comes_to}`, async () => {
    await using bench = await BrokerBench.start({ env, config });
    for (let n = 0; n < before; n++) {
      const { id } = await bench.submit();
      assertEquals((await bench.reaches(id, "awaiting_approval")).stage, "awaiting_approval");
    }
    if (comes_to === "agent_failed") {
      const { id } = await bench.submit();
      const { outcome, reason } = await bench.reaches(id);
      assertEquals(outcome, comes_to, reason);
      assertStringIncludes(reason!, says);
    } else {
      const error = await assertRejects(() => bench.submit(), TaskdError);
      assertEquals(error.code, comes_to);
      assertStringIncludes(`${error.message} ${error.hint}`, says);
    }
  });
}

Deno.test("TASKD_MAX_CONCURRENT_TASKS limits the tasks that run at the same time", async () => {
  await using bench = await BrokerBench.start({
    env: { TASKD_MAX_CONCURRENT_TASKS: "1" },
    config: "max_concurrent_tasks: 9\n",
    script: ["hang"],
  });
  await bench.submit();
  await bench.model.hanging;
  assertEquals((await assertRejects(() => bench.submit(), TaskdError)).code, "at_capacity");
});

// conformance: b2.effect.push_max_retries b2.effect.push_retry_backoff
longTest("TASKD_PUSH_MAX_RETRIES and TASKD_PUSH_RETRY_BACKOFF set the retries of a push", async () => {
  for (const [retries, backoff, delays] of [[0, "3ms", []], [3, "3ms", [3, 6, 12]], [2, "0s", [0, 0]]] as const) {
    await using bench = await BrokerBench.start({
      env: { TASKD_PUSH_MAX_RETRIES: String(retries), TASKD_PUSH_RETRY_BACKOFF: backoff },
      config: "push_max_retries: 9\n",
    });
    await using server = await serveGit(
      bench.git.root,
      ({ url }) => url.includes("git-receive-pack") ? "reset" : "pass",
    );
    const done = await bench.pushed({ repo: `${server.origin}/acme/app` });
    assertEquals(done.stage, "push_failed", done.reason);
    const tries = (await bench.written()).match(/"type":"push_attempt"/g)?.length;
    assertEquals(tries, 1 + retries);
    const reported = bench.lines.map((line) => JSON.parse(line)).filter(({ event }) => event === "push_retry");
    assertEquals(reported.map(({ delay_ms }) => delay_ms), [...delays]);
  }
});
