import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import { agentOf, AGENTS, LANES, laneText } from "../../broker/agents.ts";

const OPTIONS = {
  gateway_url: "http://192.168.66.1:8088",
  token: "taskd-token",
  instruction: "--rm -rf; do it",
  home: "/home/agent",
};

Deno.test("people read a lane with its company's name", () => {
  const read = ["vendor_a (Anthropic)", "vendor_b (OpenAI)", "vendor_c (Google)", "compat"];
  assertEquals(LANES.map(laneText), read);
});

// conformance: b1.agents
Deno.test("there is one agent for each lane, found by its setting value or its label", () => {
  assertEquals(AGENTS.map((agent) => agent.lane), [...LANES]);
  for (const agent of AGENTS) assertEquals([agentOf(agent.name), agentOf(agent.label)], [agent, agent]);
  assertThrows(() => agentOf("agent_e"), TaskdError, "agent_e");
});

// conformance: b1.agent_c_key_only b2.effect.default_model
Deno.test("only the first two take the default model", () => {
  assertEquals(AGENTS.map((agent) => agent.takes_default_model), [true, true, false, false]);
});

Deno.test("an agent gets the gateway and its token, and the instruction as one word, not an option", () => {
  for (const agent of AGENTS) {
    const { command, env, files } = agent.launch({ ...OPTIONS, model: "m-1" });
    const everything = JSON.stringify({ env, files });
    assertStringIncludes(everything, OPTIONS.gateway_url);
    assertStringIncludes(everything, OPTIONS.token);
    assertEquals(env.HOME, OPTIONS.home);
    const own_word = command.indexOf("--") === command.indexOf(OPTIONS.instruction) - 1;
    assert(own_word !== command.includes(`--prompt=${OPTIONS.instruction}`), agent.label);
    assert(command.some((word) => word.endsWith("m-1")));
    assert(!agent.launch(OPTIONS).command.join(" ").includes("--model"), "without a model the agent picks");
    for (const { path, content } of files) {
      assert(!path.startsWith("/") && !path.includes(".."));
      if (path.endsWith(".json")) JSON.parse(content);
    }
  }
});
