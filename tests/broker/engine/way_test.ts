import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { plainGit } from "../git/bench.ts";
import { BrokerBench } from "./bench.ts";

// conformance: b1.gate b1.agent_d_compat
Deno.test("a task is cloned, worked on, approved and pushed, and what is pushed is what was approved", async () => {
  await using bench = await BrokerBench.start();
  const { id } = await bench.submit();
  const waiting = await bench.reaches(id, "awaiting_approval");
  assertEquals(waiting.stage, "awaiting_approval", JSON.stringify(waiting));
  assertEquals(waiting.spend?.requests, 2);
  const [pending] = bench.engine.pending();
  assertEquals([pending?.id, pending?.files_changed, pending?.lines_changed], [id, 1, 1]);
  assertStringIncludes(new TextDecoder().decode(await bench.engine.diff(id)), "+hello");
  const brief = await bench.engine.brief(id);
  assertEquals(brief.diff?.tree, waiting.gate?.binding?.tree);
  assertEquals(brief.runtime, "deno");

  await bench.engine.approve(id, { diff_sha256: waiting.gate!.diff_sha256, acknowledge: [] });
  const done = await bench.reaches(id);
  assertEquals(done.outcome, "pushed", done.reason);
  const branches = await bench.branches();
  assertEquals(branches.get(`agent/${id}`), done.pushed?.commit);
  assertEquals(await plainGit(bench.git.origin, "show", `agent/${id}:hello.txt`), "hello");
  assertEquals(await plainGit(bench.git.origin, "rev-parse", `agent/${id}^{tree}`), brief.diff?.tree);
  assert(!branches.has(`agent/${id}-2`));
});
