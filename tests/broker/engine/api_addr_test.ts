import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { BrokerClient } from "../../../broker/client/client.ts";
import { hasCode, TaskdError } from "../../../lib/errors.ts";
import { BrokerBench, until } from "./bench.ts";

const LISTENING = `  api_addr: 127.0.0.1:0
  metrics_addr: 127.0.0.1:0
  metrics_token_env: SCRAPE_TOKEN
`;

function listening(bench: BrokerBench): void {
  const path = `${bench.home}/.taskd/config.yaml`;
  Deno.writeTextFileSync(path, Deno.readTextFileSync(path).replace("broker:\n", `broker:\n${LISTENING}`));
}

Deno.test("a task that a token submits is recorded under its name in the trace, from the queue too", async () => {
  const token = "0123456789abcdef0123456789abcdef";
  await using bench = await BrokerBench.prepare({ env: { SCRAPE_TOKEN: token } });
  listening(bench);
  Deno.writeTextFileSync(
    `${bench.home}/.gitconfig`,
    `[url "file://${bench.git.origin}"]\n\tinsteadOf = https://git.example.com/o/r\n`,
  );
  const broker = await bench.serve();
  const client = new BrokerClient({ socket: broker.socket });
  const made = await client.createApiToken({ role: "submit", ttl_ms: 60_000, name: "ci" });
  const ask = async (path: string, body: object) => {
    const response = await fetch(`http://${broker.api_addr}${path}`, {
      method: "POST",
      body: JSON.stringify(body),
      headers: { "content-type": "application/json", authorization: `Bearer ${made.token}` },
    });
    return { status: response.status, ...await response.json() };
  };
  // The public rule holds for it.
  const local = await ask("/tasks", { repo: bench.git.origin, instruction: "Say hello" });
  assertEquals([local.status, local.code], [400, "invalid_request"]);

  const order = { repo: "https://git.example.com/o/r", instruction: "Say hello" };
  const { id } = await ask("/tasks", order);
  await bench.reaches(id, "awaiting_approval");
  await ask("/queue", order);
  const by = { via: "HTTP", who: `the API token ci (${made.fingerprint}), at 127.0.0.1` } as const;
  const ofQueue = () => bench.engine.tasks.list().find((task) => task.queue_id !== undefined);
  await until(() => ofQueue() !== undefined);
  for (const one of [id, ofQueue()!.id]) {
    await bench.reaches(one, "awaiting_approval");
    const { submitted_by, over_network } = await bench.engine.tasks.load(one);
    assertEquals([submitted_by, over_network], [by, true]);
    assertStringIncludes(Deno.readTextFileSync(`${bench.home}/.taskd/audit/${one}.jsonl`), by.who);
  }

  const metrics = (authorization?: string) =>
    fetch(`http://${broker.metrics_addr}/metrics`, { headers: authorization ? { authorization } : {} });
  const [open, closed] = [await metrics(`Bearer ${token}`), await metrics()];
  assertEquals([open.status, closed.status], [200, 401]);
  await Promise.all([open.text(), closed.text()]);
  const written = await bench.written();
  assertEquals([written.includes(made.token), written.includes(token)], [false, false]);
});

Deno.test("a broker does not start while the token that its metrics ask for is missing", async () => {
  await using bench = await BrokerBench.prepare();
  listening(bench);
  const error = await assertRejects(() => bench.serve(), TaskdError);
  assertEquals(hasCode(error, "invalid_config"), true);
  assertStringIncludes(error.message, "SCRAPE_TOKEN");
});
