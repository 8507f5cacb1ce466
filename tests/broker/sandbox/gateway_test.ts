import { assertEquals } from "@std/assert";
import { compatBook, harness } from "../gateway/harness.ts";
import { REAL_KEY } from "../gateway/vendor_server.ts";
import { ModelServer } from "./_model_server.ts";
import { Place } from "./_sandbox.ts";

const FINISHES: { calls: [string, unknown][] }[] = [
  { calls: [["write", { path: "a.txt", content: "a" }]] },
  { calls: [["finish", { summary: "done" }]] },
];
const PRICES = compatBook({ "test-model": { input: 1_000, output: 5_000 } });

Deno.test("the built-in agent works through the gateway: metered, capped, without the real key", async () => {
  const table = [
    { lease: {}, outcome: "finished", usd: 0.4 },
    { lease: { budget_usd: 0.1 }, outcome: "budget_exhausted", usd: 0.2 },
    { lease: { max_requests: 1 }, outcome: "request_cap", usd: 0.2 },
  ] as const;
  for (const { lease: caps, outcome, usd } of table) {
    await using place = new Place();
    await using model = new ModelServer(FINISHES);
    const upstreams = { compat: { base_url: model.url, api_key: REAL_KEY } };
    await using gateway = await harness(() => {}, { prices: PRICES, upstreams });
    const lease = gateway.lease("compat", caps);
    const spec = place.spec(gateway.url);
    const workload = { ...spec.workload, token: lease.token };
    await (await place.runtime().start({ ...spec, workload })).wait();
    assertEquals(place.result().outcome, outcome);
    const spend = await lease.end();
    assertEquals([Number(spend.usd.toFixed(9)), spend.unmetered_requests], [usd, 0]);
    assertEquals(model.asked[0]!.authorization, `Bearer ${REAL_KEY}`);
    const printed = JSON.stringify(place.lines);
    assertEquals([printed.includes(REAL_KEY), printed.includes(lease.token)], [false, false]);
  }
});

Deno.test("the built-in agent ends when its lease ends", async () => {
  await using place = new Place();
  let end = () => Promise.resolve();
  await using model = new ModelServer([() => {
    void end();
    return FINISHES[0]!;
  }]);
  const upstreams = { compat: { base_url: model.url, api_key: REAL_KEY } };
  await using gateway = await harness(() => {}, { prices: PRICES, upstreams });
  const lease = gateway.lease("compat");
  end = async () => void await lease.end();
  const spec = place.spec(gateway.url);
  const workload = { ...spec.workload, token: lease.token };
  await (await place.runtime().start({ ...spec, workload })).wait();
  assertEquals(place.result().outcome, "token_refused");
});
