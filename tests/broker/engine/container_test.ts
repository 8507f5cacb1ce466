import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { podmanTest, testRuntime } from "../../support/podman.ts";
import { streamed } from "../../support/vendor_stream.ts";
import { BrokerBench } from "./bench.ts";

const KEY = "sk-vendor-a-0123456789abcdef";

/** Has the agent write one file, then end. */
async function answer(request: Request): Promise<Response> {
  const { tools = [], messages = [] } = await request.json() as {
    tools?: { name: string }[];
    messages?: { content: unknown }[];
  };
  const wrote = JSON.stringify(messages).includes("tool_result");
  if (wrote || !tools.some(({ name }) => name === "Write")) {
    return streamed({ type: "text", text: "" }, { type: "text_delta", text: "done" }, "end_turn");
  }
  const input = JSON.stringify({ file_path: "/workspace/hello.txt", content: "hello\n" });
  return streamed(
    { type: "tool_use", id: "toolu_1", name: "Write", input: {} },
    { type: "input_json_delta", partial_json: input },
    "tool_use",
  );
}

// conformance: b1.sandbox b1.gateway_port b1.keys_stay b2.effect.sandbox_image b2.effect.network b5.credentials
podmanTest(
  "a real agent in a container is metered, approved and pushed, and the key never goes in",
  async () => {
    await using test = await testRuntime();
    const keys = new Set<string | null>();
    await using vendor = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
      keys.add(request.headers.get("x-api-key"));
      return request.method === "POST" ? answer(request) : new Response("{}");
    });
    await using bench = await BrokerBench.prepare({
      env: { VENDORA_API_KEY: KEY },
      overrides: { runtime: test.runtime },
    });
    bench.configure(`sandbox_image: ${test.image}
network: ${test.network}
gateway_ip: ${test.gateway_ip}
upstreams:
  vendor_a: http://127.0.0.1:${vendor.addr.port}
`);
    await bench.serve();
    const { id } = await bench.submit({ agent: "agent_a", model: "claude-sonnet-4-5" });
    const waiting = await bench.reaches(id, "awaiting_approval");
    assertEquals(waiting.stage, "awaiting_approval", `${waiting.reason}\n${(await bench.written()).slice(-4_000)}`);
    assert(waiting.spend!.usd > 0 && waiting.spend!.unmetered_requests === 0);
    assert(waiting.claimed_usd !== undefined);
    assertStringIncludes(new TextDecoder().decode(await bench.engine.diff(id)), "+hello");
    await bench.engine.approve(id, { diff_sha256: waiting.gate!.diff_sha256, acknowledge: waiting.gate!.second_look });
    assertEquals((await bench.reaches(id)).outcome, "pushed");
    assertEquals(keys, new Set([KEY]));
    assertEquals((await bench.written()).includes(KEY), false);
  },
);
