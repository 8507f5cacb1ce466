import { assertEquals, assertStringIncludes } from "@std/assert";
import { podmanTest, testRuntime } from "../../support/podman.ts";
import { streamed } from "../../support/vendor_stream.ts";
import { changesOf, DataBench, RAISE } from "./_bench.ts";
import { longTest } from "../../support/long.ts";

/** What the agent runs: it finds the copy by its variable, and leaves a log beside it as a killed program would. */
const COMMAND = `node --experimental-sqlite -e '
  const { DatabaseSync } = require("node:sqlite");
  const db = new DatabaseSync(process.env.TASKD_DATABASE_SHOP);
  db.exec("PRAGMA journal_mode=WAL");
  db.exec(${JSON.stringify(RAISE.replaceAll("'mate'", "char(109, 97, 116, 101)"))});
  process.kill(process.pid, "SIGKILL");'; ls /databases > /workspace/seen.txt; id -u >> /workspace/seen.txt`;

podmanTest("an agent in a container changes its copy of a database, and never sees a file of the store", async () => {
  await using test = await testRuntime();
  const instructions: string[] = [];
  await using vendor = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    if (request.method !== "POST") return new Response("{}");
    const body = await request.json() as { tools?: { name: string }[]; messages?: unknown };
    const messages = JSON.stringify(body.messages ?? []);
    instructions.push(messages);
    if (messages.includes("tool_result") || !body.tools?.some(({ name }) => name === "Bash")) {
      return streamed({ type: "text", text: "" }, { type: "text_delta", text: "done" }, "end_turn");
    }
    const input = JSON.stringify({ command: COMMAND, description: "Raise prices" });
    const block = { type: "tool_use", id: "toolu_1", name: "Bash", input: {} };
    return streamed(block, { type: "input_json_delta", partial_json: input }, "tool_use");
  });
  await using bench = await DataBench.start({
    serve: false,
    env: { VENDORA_API_KEY: "sk-vendor-a-0123456789abcdef" },
    overrides: { runtime: test.runtime },
  });
  bench.broker.configure(`sandbox_image: ${test.image}
network: ${test.network}
gateway_ip: ${test.gateway_ip}
upstreams:
  vendor_a: http://127.0.0.1:${vendor.addr.port}
branch_store:
  socket: ${bench.place.socket}
`);
  await bench.broker.serve();
  const { id } = await bench.broker.submit({ agent: "agent_a", model: "claude-sonnet-4-5", databases: ["shop"] });
  const waiting = await bench.broker.reaches(id, "awaiting_approval");
  assertEquals(
    waiting.stage,
    "awaiting_approval",
    `${waiting.reason}\n${(await bench.broker.written()).slice(-4_000)}`,
  );
  assertStringIncludes(instructions.join(""), "shop: /databases/shop.db");
  const diff = new TextDecoder().decode(await bench.broker.engine.diff(id));
  assertStringIncludes(diff, "+shop.db");
  assertEquals(changesOf(waiting)[0]?.tables.map(({ rows_added, rows_changed }) => [rows_added, rows_changed]), [[
    1,
    1,
  ]]);
  const done = await bench.approve(waiting);
  assertEquals(done.outcome, "pushed", done.reason);
  assertEquals((await bench.rows()).length, 4);
  await bench.released();
}, longTest);
