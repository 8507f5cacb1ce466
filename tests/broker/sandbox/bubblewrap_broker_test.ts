/**
 * Whole tasks in sandboxes of bubblewrap: a program of the host is found, speaks to the model by the gateway with its
 * task's token, and what it changed comes to the gate and is pushed.
 */

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { readHostView } from "../../../broker/sandbox/bubblewrap/host_view.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { bubblewrapTest, withAgent } from "../../support/bubblewrap.ts";
import { BrokerBench, ENDPOINT_KEY, ONE_CHANGE } from "../engine/bench.ts";

const viewOf = (folder: string) =>
  readHostView({ path: `${folder}/bin`, home: `${folder}/home`, programs: ["opencode"], read: [], own: [] });

bubblewrapTest(
  "an installed agent works behind bubblewrap, and what it changed is pushed",
  () =>
    withAgent(async (folder) => {
      await using bench = await BrokerBench.start({
        runtime: "bubblewrap",
        view: viewOf(folder),
        script: [...ONE_CHANGE],
      });
      assertEquals(bench.engine.health().runtime, "bubblewrap");
      const record = await bench.pushed();
      assertEquals([record.stage, record.outcome], ["done", "pushed"]);
      const log = await bench.written();
      assertStringIncludes(log, "http://127.0.0.1:8088/v1/chat/completions");
      assertStringIncludes(log, "127.0.0.1:3128");
      assert(/answered[\\": ]+true/.test(log));
      assertStringIncludes(log, "unix TCP_DENIED/403");
      // The key was used, and is nowhere that the agent has been.
      assert(!log.includes(ENDPOINT_KEY));
      assert(record.spend !== undefined && record.spend.requests === 1);
    }),
);

bubblewrapTest(
  "a task is refused whose agent is not installed, or that wants another platform",
  () =>
    withAgent(async (folder) => {
      await using bench = await BrokerBench.start({ runtime: "bubblewrap", view: viewOf(folder) });
      const claude = await assertRejects(
        () => bench.submit({ agent: "claude" }),
        TaskdError,
        "claude is not installed",
      );
      assertStringIncludes(claude.hint!, "PATH leads to it");
      await assertRejects(
        () => bench.submit({ platform: "linux/arm64" }),
        TaskdError,
        "no platform but this machine's",
      );
    }),
);

bubblewrapTest(
  "a folder of sandbox.read that has keys in it keeps the broker from starting",
  () =>
    withAgent(async (folder) => {
      const home = `${folder}/home`;
      await Deno.mkdir(`${home}/.ssh`, { recursive: true });
      const view = readHostView({ path: "", home, programs: [], read: [`${home}/.ssh`], own: [] });
      const started = BrokerBench.start({ runtime: "bubblewrap", view });
      await assertRejects(() => started, TaskdError, `Cannot show ${home}/.ssh to sandboxes: it is private`);
    }),
);

bubblewrapTest(
  "what another toolchain of this machine has installed is not used again",
  () =>
    withAgent(async (folder) => {
      await using bench = await BrokerBench.prepare({
        runtime: "bubblewrap",
        view: viewOf(folder),
        files: { "README.md": "# app\n", "package-lock.json": "{}\n" },
        script: [...ONE_CHANGE],
      });
      const setup = JSON.stringify([["sh", "-c", "echo installed >/deps/installed"]]);
      bench.configure(
        `profiles:\n  repos:\n    file://${bench.git.origin}:\n      setup: ${setup}\n      cache: true\n`,
      );
      await bench.serve();
      const used = async () => {
        const { id } = await bench.submit();
        const { stage, reason } = await bench.reaches(id, "awaiting_approval");
        assertEquals(stage, "awaiting_approval", reason);
        return (await bench.engine.brief(id)).setup?.cache.participation;
      };
      assertEquals([await used(), await used()], ["miss", "hit"]);
      await Deno.writeTextFile(`${folder}/bin/node`, "a new one");
      assertEquals([await used(), await used()], ["miss", "hit"]);
    }),
);
