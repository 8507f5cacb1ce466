/**
 * What the settings of agents, credentials and a task's caps come to in a whole broker.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { until } from "../engine/bench.ts";
import { KEYS, ProgramBench, programTest } from "./_programs.ts";
import { longTest } from "../../support/long.ts";

const ENDPOINT = "compat:\n  base_url: http://localhost:9\n  model: own-model\n";

// conformance: b1.agents b2.effect.default_agent
programTest("without a name a task gets agent_a, or the agent that default_agent names", async () => {
  for (const [config, agent] of [["", "agent_a"], ["default_agent: agent_c\n", "agent_c"]] as const) {
    await using programs = await ProgramBench.start({ config });
    const { id } = await programs.bench.submit();
    assertEquals((await programs.bench.reaches(id, "awaiting_approval")).agent, agent);
  }
});

// conformance: b2.effect.default_model b2.compat.model
programTest(
  "default_model is for agent_a and agent_b, behind a named model; the others have their own",
  async () => {
    const cases = [
      ["agent_a", "default", ["--model", "default"]],
      ["agent_b", "default", ["--model", "default"]],
      ["agent_c", undefined, []],
      ["agent_d", "own-model", ["--model", "taskd/own-model"]],
    ] as const;
    await using programs = await ProgramBench.start({ config: `default_model: default\n${ENDPOINT}` });
    const { bench } = programs;
    for (const [agent, model, words] of cases) {
      const { id } = await bench.submit({ agent });
      const record = await bench.reaches(id, "awaiting_approval");
      assertEquals([record.stage, record.model], ["awaiting_approval", model], `${agent}: ${record.reason}`);
      const given = await programs.added(id, "words.txt");
      const at = given.indexOf("--model");
      assertEquals(at < 0 ? [] : given.slice(at, at + 2), [...words], agent);
    }
    const { id } = await bench.submit({ agent: "agent_a", model: "named" });
    assertEquals((await bench.reaches(id, "awaiting_approval")).model, "named");
    assertStringIncludes((await programs.added(id, "words.txt")).join(" "), "--model named");

    await using empty = await ProgramBench.start();
    const free = await empty.bench.submit({ agent: "agent_a" });
    assertEquals((await empty.bench.reaches(free.id, "awaiting_approval")).model, undefined);
    assertEquals((await empty.added(free.id, "words.txt")).includes("--model"), false);
  },
  longTest,
);

const ROADS = [["agent_a", "VENDORA_API_KEY", "x-api-key"], ["agent_b", "VENDORB_API_KEY", "authorization"], [
  "agent_c",
  "VENDORC_API_KEY",
  "x-goog-api-key",
]] as const;

// conformance: b1.vendor_keys b1.keys_file b1.keys_stay b2.effect.vendor_a_auth b2.effect.vendor_b_auth b5.credentials
programTest(
  "each vendor's key comes from the environment or api-keys.env, and goes out in its header",
  async () => {
    for (const where of ["environment", "api-keys.env"]) {
      await using programs = await ProgramBench.start({ env: where === "environment" ? KEYS : {} });
      const { bench } = programs;
      if (where === "api-keys.env") {
        await bench.broker.stop();
        const lines = Object.entries(KEYS).map(([name, key]) => `${name}=${key}\n`);
        await Deno.writeTextFile(`${bench.home}/.taskd/api-keys.env`, lines.join(""), { mode: 0o600 });
        await bench.serve();
      }
      for (const [agent, variable, header] of ROADS) {
        const { id } = await bench.submit({ agent });
        await bench.reaches(id, "awaiting_approval");
        assertEquals(await programs.added(id, "status.txt"), ["200"], `${agent}, key in ${where}`);
        assertEquals(programs.asked.at(-1)?.secrets[KEYS[variable]], header);
        assertEquals((await bench.engine.view(id)).spend?.requests, 1);
      }
      if (where === "environment") {
        const written = await bench.written();
        for (const key of Object.values(KEYS)) assertEquals(written.includes(key), false);
      }
    }
  },
);

// conformance: b2.effect.vendor_a_auth b2.effect.vendor_b_auth b5.subscription b5.credentials
programTest("with subscription a vendor is paid by the OAuth file, and its key is left where it is", async () => {
  await using programs = await ProgramBench.start({
    config: "vendor_a_auth: subscription\nvendor_b_auth: subscription\n",
  });
  const { bench } = programs;
  for (const [agent, lane] of [["agent_a", "vendor_a"], ["agent_b", "vendor_b"]] as const) {
    const file = { access_token: `oauth-${lane}`, refresh_token: "r", expires_at: "2099-01-01T00:00:00Z" };
    await Deno.writeTextFile(`${bench.home}/.taskd/${lane}-oauth.json`, JSON.stringify(file), { mode: 0o600 });
    const { id } = await bench.submit({ agent });
    const record = await bench.reaches(id, "awaiting_approval");
    assertEquals(await programs.added(id, "status.txt"), ["200"], `${agent}: ${record.reason}`);
    const { secrets } = programs.asked.at(-1)!;
    assertEquals(secrets[`oauth-${lane}`], "authorization");
    for (const key of Object.values(KEYS)) assertEquals(secrets[key], undefined);
  }
});

const CLAUDE_ASKS =
  `ask "$ANTHROPIC_BASE_URL/v1/messages" "authorization: Bearer $ANTHROPIC_AUTH_TOKEN" '{"model":"m","max_tokens":1,"messages":[]}'`;

/** The statuses of two requests of one task at the same time; the vendor answers once `PLACE/over` is there. */
async function twoAtOnce(config: string): Promise<{ statuses: string[]; asked: number }> {
  const place = await Deno.makeTempDir();
  try {
    const exists = () => Deno.stat(`${place}/over`).then(() => true, () => false);
    let waiting = 0;
    await using programs = await ProgramBench.start({
      config,
      programs: {
        claude: `${CLAUDE_ASKS} > one.txt &
${CLAUDE_ASKS} > two.txt &
wait -n; touch ${place}/over
wait; sort one.txt two.txt > statuses.txt; rm one.txt two.txt`,
      },
      // Either the other one is refused and says so, or both are here.
      answer: async () => {
        waiting++;
        await until(async () => waiting === 2 || await exists());
        return Response.json({});
      },
    });
    const { id } = await programs.bench.submit({ agent: "agent_a" });
    await programs.bench.reaches(id, "awaiting_approval");
    return { statuses: await programs.added(id, "statuses.txt"), asked: programs.asked.length };
  } finally {
    await Deno.remove(place, { recursive: true });
  }
}

// conformance: b2.effect.task_max_inflight
programTest(
  "a task has one request in flight by default, two with task_max_inflight 2, any with 0",
  async () => {
    assertEquals(await twoAtOnce(""), { statuses: ["200", "429"], asked: 1 });
    assertEquals(await twoAtOnce("task_max_inflight: 2\n"), { statuses: ["200", "200"], asked: 2 });
    assertEquals(await twoAtOnce("task_max_inflight: 0\n"), { statuses: ["200", "200"], asked: 2 });
  },
  longTest,
);

// conformance: b2.effect.max_request_cost_usd
programTest("max_request_cost_usd is reserved before a request goes out", async () => {
  for (const [reserved, status] of [["2.5", "402"], ["1.5", "200"]] as const) {
    await using programs = await ProgramBench.start({ config: `max_request_cost_usd: ${reserved}\n` });
    const { id } = await programs.bench.submit({ agent: "agent_a" });
    await programs.bench.reaches(id, "awaiting_approval");
    assertEquals(await programs.added(id, "status.txt"), [status], "the budget is the default's, $2");
  }
}, longTest);

const REACHES = "for name in a b; do ${CURL} --silent --output /dev/null http://$name.example/; done";

// conformance: b2.egress_config b1.proxy_port
programTest("the proxy lets out what the list says that EGRESS_CONFIG names, and without one nothing", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const list = `${folder}/list.yaml`;
    await Deno.writeTextFile(list, "allow: [{ host: a.example, ports: [80] }]\n", { mode: 0o600 });
    for (const [env, looked_up] of [[{ EGRESS_CONFIG: list }, ["a.example"]], [{}, []]] as const) {
      const names: string[] = [];
      const resolve = (name: string) => {
        names.push(name);
        return Promise.resolve([]);
      };
      await using programs = await ProgramBench.start({
        env: { ...KEYS, ...env },
        programs: { claude: REACHES },
        overrides: { egress: { resolve } },
      });
      const { id } = await programs.bench.submit({ agent: "agent_a" });
      await programs.bench.reaches(id, "awaiting_approval");
      // A name that is not listed is not even looked up.
      assertEquals([...new Set(names)], [...looked_up]);
      const { refused_egress } = await programs.bench.engine.view(id);
      assertEquals(refused_egress.map(({ target }) => target).sort(), ["a.example:80", "b.example:80"]);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
