import { assertEquals } from "@std/assert";
import { BUBBLEWRAP_PROMISES } from "../../../cli/redteam/bubblewrap_sandboxes.ts";
import { openHostSandboxes } from "../../../cli/redteam/host_sandboxes.ts";
import { loadSettings } from "../../../broker/settings/load.ts";
import { systemClock, systemRandom } from "../../../lib/clock.ts";
import { bubblewrapTest, BWRAP } from "../../support/bubblewrap.ts";
import { OPTIONS, tryThem } from "./_context.ts";
import { allReported, unheld } from "./verdicts.ts";
import { naiveHostSandboxes } from "./_naive_containers.ts";

bubblewrapTest("sandboxes of bubblewrap hold every promise", async () => {
  const home = await Deno.makeTempDir();
  try {
    const { settings } = await loadSettings({ home, env: () => undefined });
    const host_sandboxes = (folder: string) =>
      openHostSandboxes({
        runtime: { name: "bubblewrap", path: BWRAP, works: true, bounding: "none", notes: [] },
        settings,
        ...OPTIONS,
        clock: systemClock,
        random: systemRandom,
      }, folder);
    assertEquals(unheld(await tryThem(["bubblewrap"], { host_sandboxes })), []);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});

Deno.test("every promise about bubblewrap is a hole with sandboxes without limits", async () => {
  const tried = await tryThem(["bubblewrap"], { host_sandboxes: naiveHostSandboxes });
  assertEquals(tried.length, BUBBLEWRAP_PROMISES.length);
  allReported(tried);
});

Deno.test("without bubblewrap its promises are skipped, with the reason", async () => {
  const tried = await tryThem(["bubblewrap"], { host_sandboxes: { why: "it is not there" } });
  assertEquals(
    tried.map(({ verdict, why }) => [verdict, why]),
    BUBBLEWRAP_PROMISES.map(() => ["skipped", "it is not there"]),
  );
});
