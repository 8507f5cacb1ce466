import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { BrokerClient } from "../../../broker/client/client.ts";
import { renderBrief } from "../../../broker/task/brief.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { BrokerBench, oneChange } from "../engine/bench.ts";

const GRANT = { host: "API.example.com", port: 8443, for_ms: 60_000, uses: 3 };

Deno.test("a host is granted to a task while its agent runs, and stands in its trace and at its gate", async () => {
  const asked = Promise.withResolvers<void>();
  const granted = Promise.withResolvers<void>();
  await using bench = await BrokerBench.start({
    script: [async (call) => {
      asked.resolve();
      await granted.promise;
      return oneChange(call);
    }],
  });
  const client = new BrokerClient({ socket: bench.broker.socket });
  const { id } = await bench.submit();
  await asked.promise;
  for (const host of ["localhost", "10.0.0.1", "*.example.com", "printer.local", "com", "a b"]) {
    await assertRejects(() => client.grantEgress(id, { ...GRANT, host }), TaskdError, "Cannot grant");
  }
  await client.grantEgress(id, GRANT);
  const running = await client.task(id);
  assertEquals(running.egress_grants?.map(({ target, for_ms, uses, used }) => ({ target, for_ms, uses, used })), [
    { target: "api.example.com:8443", for_ms: 60_000, uses: 3, used: 0 },
  ]);
  assertEquals(running.egress_grants?.[0]?.by?.via, "socket");
  granted.resolve();
  await bench.reaches(id, "awaiting_approval");
  const brief = await client.brief(id);
  assertEquals(brief.egress_grants, running.egress_grants);
  assertStringIncludes(renderBrief(brief), "api.example.com:8443  for 1m from ");
  const waiting = await client.task(id);
  assertEquals(waiting.egress_grants, running.egress_grants);
  assert(waiting.trace.intact);
  const late = await assertRejects(() => client.grantEgress(id, GRANT), TaskdError);
  assertEquals(late.code, "wrong_state");
});
