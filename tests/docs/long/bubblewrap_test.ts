/**
 * The guide to bubblewrap, run as it is printed: Claude Code as npm installs it, and a server with recorded answers in
 * the vendor's place.
 */

import { longTest } from "../../support/long.ts";
import { hostAgentsTest, hostAgentsView } from "../../support/host_agents.ts";
import { vendorServer } from "../../broker/gateway/vendor_server.ts";
import { vendorScript } from "../../broker/sandbox/vendor_scripts.ts";
import { GitBench } from "../../broker/git/bench.ts";
import { makeMachine, runPage } from "../run_page.ts";
import { writeProgram } from "../../support/programs.ts";

hostAgentsTest("docs/how-to/bubblewrap.md runs as it is printed", async () => {
  const { path } = await hostAgentsView("npm");
  // Nothing of /tmp is shown to sandboxes.
  await using machine = await makeMachine({ dir: "/var/tmp" });
  await using git = await GitBench.start();
  await using vendor = await vendorServer(vendorScript("claude"));
  const zig = `${machine.home}/tools/zig`;
  await Deno.mkdir(zig, { recursive: true });
  await writeProgram(`${zig}/zig`, "#!/bin/sh\necho 0.15.2\n");
  await Deno.mkdir(`${machine.home}/.taskd`, { mode: 0o700 });
  await Deno.writeTextFile(`${machine.home}/.taskd/config.yaml`, `upstreams:\n  vendor_a: ${vendor.url}\n`, {
    mode: 0o600,
  });
  await Deno.writeTextFile(`${machine.home}/key.txt`, "sk-ant-example\n", { mode: 0o600 });
  await runPage("docs/how-to/bubblewrap.md", machine, {
    replace: { "https://github.com/ada/shop": git.origin, "github.com/ada/shop": `file://${git.origin}` },
    env: { PATH: [machine.bin, zig, ...path, Deno.env.get("PATH")].join(":") },
  });
}, longTest);
