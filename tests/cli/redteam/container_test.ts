import { assertEquals } from "@std/assert";
import { openNetwork } from "../../../cli/redteam/sandbox_network.ts";
import { CONTAINER_PROMISES } from "../../../cli/redteam/container_sandboxes.ts";
import { loadSettings } from "../../../broker/settings/load.ts";
import { systemClock, systemRandom } from "../../../lib/clock.ts";
import { PODMAN, podman, podmanTest, testImages } from "../../support/podman.ts";
import { OPTIONS, tryThem } from "./_context.ts";
import { allReported, unheld } from "./verdicts.ts";
import { naiveContainers } from "./_naive_containers.ts";
import { longTest } from "../../support/long.ts";

podmanTest("containers of podman hold every promise, and nothing of them is left", async () => {
  const home = await Deno.makeTempDir();
  try {
    const images = await testImages();
    const { settings } = await loadSettings({ home, env: () => undefined });
    const containers = () =>
      openNetwork({
        runtime: { name: "podman", path: PODMAN, works: true, rootless: false, notes: [] },
        settings: { ...settings, sandbox_image: images.sandbox, anchor_image: images.anchor },
        ...OPTIONS,
        clock: systemClock,
        random: systemRandom,
      });
    assertEquals(unheld(await tryThem(["container"], { containers })), []);
    const networks = (await podman("network", "ls", "--format={{.Name}}")).stdout;
    assertEquals(networks.includes("taskd-redteam-"), false);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}, longTest);

Deno.test("every promise about containers is a hole with containers without limits", async () => {
  const tried = await tryThem(["container"], { containers: naiveContainers });
  assertEquals(tried.length, CONTAINER_PROMISES.length);
  allReported(tried);
});

Deno.test("without containers their promises are skipped, with the reason", async () => {
  const tried = await tryThem(["container"], { containers: { why: "there are none" } });
  assertEquals(
    tried.map(({ verdict, why }) => [verdict, why]),
    CONTAINER_PROMISES.map(() => ["skipped", "there are none"]),
  );
});
