/**
 * The tutorial of the first task, run as it is printed: podman, the image's Claude Code, and a server with recorded
 * answers in the vendor's place.
 */

import { longTest } from "../../support/long.ts";
import { drawNetwork } from "../../support/networks.ts";
import { podmanTest, testImages } from "../../support/podman.ts";
import { vendorServer } from "../../broker/gateway/vendor_server.ts";
import { vendorScript } from "../../broker/sandbox/vendor_scripts.ts";
import { makeMachine, runPage } from "../run_page.ts";

podmanTest("docs/tutorials/first_task.md runs as it is printed", async () => {
  const images = await testImages();
  await using machine = await makeMachine();
  await using network = await drawNetwork();
  await using vendor = await vendorServer(vendorScript("claude"));
  await Deno.mkdir(`${machine.home}/.taskd`, { mode: 0o700 });
  await Deno.writeTextFile(
    `${machine.home}/.taskd/config.yaml`,
    `upstreams:\n  vendor_a: ${vendor.url}\nnetwork: ${network.network}\ngateway_ip: ${network.gateway_ip}\n` +
      `sandbox_image: ${images.sandbox}\nanchor_image: ${images.anchor}\n`,
    { mode: 0o600 },
  );
  await Deno.writeTextFile(`${machine.home}/key.txt`, "sk-ant-example\n", { mode: 0o600 });
  await runPage("docs/tutorials/first_task.md", machine);
}, longTest);
