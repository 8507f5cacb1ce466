import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { mount, whyNotMountable } from "../../support/mounts.ts";
import { BrokerBench, until } from "./bench.ts";

const why = await whyNotMountable("tmpfs");

Deno.test({
  name: `attack: scratch that cannot be removed keeps no broker from starting and no other scratch in place${why}`,
  ignore: why !== "",
  async fn() {
    await using bench = await BrokerBench.prepare();
    const stage = `${bench.home}/.taskd/stage`;
    const [stuck, old] = ["a".repeat(32), "b".repeat(32)];
    for (const id of [stuck, old]) await Deno.mkdir(`${stage}/${id}/work`, { recursive: true });
    // Busy as long as it is mounted: no process can remove the folder that it is in.
    await using inside = await mount("tmpfs", 8);
    const bind = await new Deno.Command("mount", { args: ["--bind", inside.directory, `${stage}/${stuck}/work`] })
      .output();
    assert(bind.success);
    try {
      await bench.serve();
      assertEquals(bench.staged(), [stuck]);
      const reported = bench.lines.find((line) => line.includes("cleanup_failed"));
      assertStringIncludes(reported!, stuck);
      assertEquals((await bench.pushed()).outcome, "pushed");
    } finally {
      await new Deno.Command("umount", { args: [`${stage}/${stuck}/work`] }).output();
    }
    await bench.broker.stop();
    await bench.serve();
    await until(() => bench.staged().length === 0);
  },
});
