import { assertEquals } from "@std/assert";
import { withCodeHost } from "./_hosted.ts";
import { longTest } from "../../support/long.ts";

// conformance: b1.pull_request b2.ci.watch
longTest(
  "without ci.watch a pushed pull request is done at once: no marker, no look at its checks",
  () =>
    withCodeHost({}, async ({ bench, host, through }) => {
      const done = await through();
      assertEquals([done.outcome, done.pushed?.pull_request], ["pushed", `${host.repo}/pull/1`]);
      assertEquals((await bench.written()).includes("awaiting_ci"), false);
      assertEquals((await host.calls("pr")).map(({ args }) => args[1]), ["create"]);
    }),
);

// conformance: b2.ci.watch
longTest(
  "with ci.watch it waits for its checks",
  () =>
    withCodeHost({ config: "ci:\n  watch: true\n" }, async ({ bench, through }) => {
      const record = await through({}, "awaiting_ci");
      assertEquals([record.stage, record.outcome], ["awaiting_ci", undefined]);
      await bench.broker.stop();
    }),
);
