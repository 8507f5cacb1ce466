/**
 * The agents' own programs, at the versions that the image has, in a real container, through the real gateway, against a
 * server with recorded answers.
 */

import { assert, assertEquals } from "@std/assert";
import { dirname } from "@std/path/dirname";
import { AGENTS } from "../../../broker/agents.ts";
import { podmanTest, testRuntime } from "../../support/podman.ts";
import { compatBook, harness } from "../gateway/harness.ts";
import { REAL_KEY } from "../gateway/vendor_server.ts";
import { runIn } from "./_container.ts";
import { vendorScript } from "./vendor_scripts.ts";
import { longTest, scaledTest } from "../../support/long.ts";

const MODELS: Readonly<Record<string, string>> = {
  claude: "claude-sonnet-4-5",
  codex: "gpt-5",
  gemini: "gemini-2.5-pro",
  opencode: "test-model",
};

for (const [index, agent] of AGENTS.entries()) {
  const { label } = agent;
  // One program in the default suite; each in the long one.
  const define = index === 0 ? scaledTest : longTest;
  podmanTest(`${label} edits a file in a container, and what it used is metered to its task`, async () => {
    await using test = await testRuntime();
    const { listen } = await test.runtime.prepare();
    await using gateway = await harness(vendorScript(label), {
      hostname: listen.hostname,
      port: listen.gateway_port,
      prices: compatBook({ "test-model": { input: 1, output: 2 } }),
    });
    const lease = gateway.lease(agent.lane, { max_inflight: 4, budget_usd: 1 });
    const launch = agent.launch({
      gateway_url: `http://${listen.hostname}:${listen.gateway_port}`,
      token: lease.token,
      model: MODELS[label]!,
      instruction: "Write hello.txt",
      home: "/home/agent",
    });
    const home = await Deno.makeTempDir();
    for (const { path, content } of launch.files) {
      await Deno.mkdir(dirname(`${home}/${path}`), { recursive: true });
      await Deno.writeTextFile(`${home}/${path}`, content);
    }
    const { end, out, err, work_dir } = await runIn(test, launch.command, {
      env: launch.env,
      mounts: [{ source: home, target: "/home/agent", writable: true }],
      memory_bytes: 2 ** 31,
      max_pids: 512,
    });
    assertEquals(end, { reason: "exited", code: 0, output_truncated: false }, [...out, ...err].slice(-20).join("\n"));
    assertEquals(await Deno.readTextFile(`${work_dir}/hello.txt`), `hello from ${label}\n`);
    assert(gateway.settled.length >= 2);
    for (const { unmetered, usd, lane } of gateway.settled) {
      assertEquals([unmetered, lane], [false, agent.lane]);
      assert(usd > 0);
    }
    // The vendor's key was used, and is nowhere that the agent has been.
    assert(gateway.vendor.seen.every(({ headers }) => JSON.stringify(headers).includes(REAL_KEY)));
    assert(!JSON.stringify([out, err]).includes(REAL_KEY));
    await Deno.remove(home, { recursive: true });
    await Deno.remove(work_dir, { recursive: true });
  }, define);
}
