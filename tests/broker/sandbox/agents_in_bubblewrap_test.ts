/**
 * The agents' own programs as npm installs them on a machine, at the versions that the image has, in whole tasks behind
 * bubblewrap, against a server with recorded answers.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { AGENTS } from "../../../broker/agents.ts";
import { BubblewrapRuntime } from "../../../broker/sandbox/bubblewrap/bubblewrap_runtime.ts";
import type { ReadHostView } from "../../../broker/sandbox/bubblewrap/host_view.ts";
import { randomHex, systemClock, systemRandom } from "../../../lib/clock.ts";
import { BWRAP } from "../../support/bubblewrap.ts";
import { hostAgentsTest, hostAgentsView } from "../../support/host_agents.ts";
import { longTest, scaledTest } from "../../support/long.ts";
import { BrokerBench } from "../engine/bench.ts";
import { REAL_KEY, vendorServer } from "../gateway/vendor_server.ts";
import { vendorScript } from "./vendor_scripts.ts";

const MODELS: Readonly<Record<string, string>> = {
  claude: "claude-sonnet-4-5",
  codex: "gpt-5",
  gemini: "gemini-2.5-pro",
  opencode: "test-model",
};
const KEYS = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"];

/** Sandboxes without a control group: each process has its own limit of memory. */
function unbounded(view: ReadHostView, run_dir: string): BubblewrapRuntime {
  return new BubblewrapRuntime({
    program: BWRAP,
    run_dir,
    view,
    bounding: "none",
    deno_path: Deno.execPath(),
    owner: randomHex(systemRandom, 16),
    env: () => undefined,
    clock: systemClock,
  });
}

for (const [index, { label, lane }] of AGENTS.entries()) {
  // One program in the default suite; each in the long one.
  const define = index === 0 ? scaledTest : longTest;
  hostAgentsTest(`${label} as npm installs it does a whole task behind bubblewrap`, async (t) => {
    for (const layout of ["nvm", "npm"] as const) {
      await t.step(layout, async () => {
        const view = await hostAgentsView(layout);
        assert(view.programs.includes(label), JSON.stringify(view));
        const run_dir = await Deno.makeTempDir();
        await using vendor = await vendorServer(vendorScript(label));
        await using bench = await BrokerBench.start({
          runtime: "bubblewrap",
          view,
          ...(layout === "npm" ? { overrides: { runtime: unbounded(view, run_dir) } } : {}),
          compat_url: vendor.url,
          config: `upstreams:\n  vendor_a: ${vendor.url}\n  vendor_b: ${vendor.url}\n  vendor_c: ${vendor.url}\n`,
          env: Object.fromEntries(["ENDPOINT_KEY", ...KEYS].map((name) => [name, REAL_KEY])),
        });
        const record = await bench.pushed({
          agent: label,
          // Claude Code also with the model that it chooses by itself; the others' recorded answers are to a named one.
          ...(layout === "npm" || label !== "claude" ? { model: MODELS[label]! } : {}),
        });
        const log = await bench.written();
        assertEquals([record.stage, record.outcome], ["done", "pushed"], log);
        const diff = await bench.engine.diff(record.id);
        assertStringIncludes(new TextDecoder().decode(diff), `+hello from ${label}\n`);
        assert(record.spend !== undefined && record.spend.requests >= 2 && record.spend.usd > 0);
        assert(vendor.seen.every(({ headers }) => JSON.stringify(headers).includes(REAL_KEY)), lane);
        assert(!log.includes(REAL_KEY));
        await Deno.remove(run_dir, { recursive: true });
      });
    }
  }, define);
}
