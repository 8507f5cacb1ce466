import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { NotAcknowledged } from "../../../broker/task/not_acknowledged.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { VirtualClock } from "../../support/clock.ts";
import { plainGit } from "../git/bench.ts";
import { BrokerBench, oneChange } from "./bench.ts";
import { writeProgram } from "../../support/programs.ts";
import { longTest } from "../../support/long.ts";

/** The refusal of a call. */
async function refusal(call: () => Promise<unknown>): Promise<TaskdError> {
  return await assertRejects(call, TaskdError);
}

// conformance: b1.gate
Deno.test("a denied change is not pushed, and its scratch goes", async () => {
  await using bench = await BrokerBench.start();
  const { id } = await bench.submit();
  const { gate } = await bench.reaches(id, "awaiting_approval");
  await bench.engine.deny(id, "not what I meant");
  const done = await bench.engine.view(id);
  assertEquals([done.outcome, done.reason], ["denied", "not what I meant"]);
  assertEquals((await bench.branches()).has(`agent/${id}`), false);
  assertEquals(bench.staged(), []);

  const { diff_sha256 } = gate!;
  const late = await refusal(() => bench.engine.approve(id, { diff_sha256, acknowledge: [] }));
  assertEquals(late.code, "wrong_state");
  assertEquals((await refusal(() => bench.engine.deny(id, "again"))).code, "wrong_state");
});

Deno.test("approving another diff than the one at the gate is refused and moves nothing", async () => {
  await using bench = await BrokerBench.start();
  const { id } = await bench.submit();
  await bench.reaches(id, "awaiting_approval");
  const stale = await refusal(() => bench.engine.approve(id, { diff_sha256: "0".repeat(64), acknowledge: [] }));
  assertEquals(stale.code, "stale_diff");
  assertEquals((await bench.engine.view(id)).stage, "awaiting_approval");
});

// conformance: b2.diff_policy.second_look_paths
longTest("an approval has to name every category, that of a sensitive task among them", async () => {
  await using bench = await BrokerBench.start({
    script: [
      { calls: [["write", { path: ".github/workflows/ci.yml", content: "on: push\n" }]] },
      { calls: [["finish", { summary: "done" }]] },
    ],
    config: "diff_policy:\n  second_look_paths: ['.github/**']\n",
  });
  const { id } = await bench.submit({ sensitive: true });
  const { gate } = await bench.reaches(id, "awaiting_approval");
  assertEquals(gate?.second_look, ["ci_files", "path:.github/**", "sensitive"]);
  const { diff_sha256 } = gate!;
  const partly = { diff_sha256, acknowledge: ["ci_files"] };
  const { missing } = await assertRejects(() => bench.engine.approve(id, partly), NotAcknowledged);
  assertEquals(missing, ["path:.github/**", "sensitive"]);
  await bench.engine.approve(id, { diff_sha256, acknowledge: gate!.second_look });
  assertEquals((await bench.reaches(id)).outcome, "pushed");
  assertEquals((await bench.engine.view(id)).acknowledgements, gate!.second_look);
});

longTest("a repository's own second_look_paths count for its tasks, and for no other's", async () => {
  await using bench = await BrokerBench.prepare();
  const own = (repo: string) => `profiles:\n  repos:\n    "${repo}":\n      second_look_paths: ["hello.*"]\n`;
  const cases: [string, string[]][] = [[`file://${bench.git.origin}`, ["path:hello.*"]], ["h.example/o/r", []]];
  for (const [repo, expected] of cases) {
    bench.configure(own(repo));
    const broker = await bench.serve();
    const { id } = await bench.submit();
    assertEquals((await bench.reaches(id, "awaiting_approval")).gate?.second_look, expected);
    await broker.stop();
  }
});

Deno.test("of two approvals at the same moment one counts", async () => {
  await using bench = await BrokerBench.start();
  const { id } = await bench.submit();
  const { gate } = await bench.reaches(id, "awaiting_approval");
  const approval = { diff_sha256: gate!.diff_sha256, acknowledge: [] };
  const answers = await Promise.allSettled([bench.engine.approve(id, approval), bench.engine.approve(id, approval)]);
  assertEquals(answers.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
  assertEquals((await bench.reaches(id)).outcome, "pushed");
});

longTest("of an approval, a denial and an end at the same moment one counts, and is named", async () => {
  await using bench = await BrokerBench.start();
  const { engine } = bench;
  const orders = ["approve deny kill stale", "stale kill approve deny", "deny stale kill approve", "kill deny approve"];
  for (const order of orders.map((text) => text.split(" "))) {
    const { id } = await bench.submit();
    const { diff_sha256 } = (await bench.reaches(id, "awaiting_approval")).gate!;
    const by = (who: string) => ({ via: "HTTP", who }) as const;
    const answers: Record<string, () => Promise<void>> = {
      approve: () => engine.approve(id, { diff_sha256, acknowledge: [], by: by("approve") }),
      stale: () => engine.approve(id, { diff_sha256: "0".repeat(64), acknowledge: [], by: by("stale") }),
      deny: () => engine.deny(id, "no", by("deny")),
      kill: () => engine.kill(id, "no", by("kill")),
    };
    const settled = await Promise.allSettled(order.map((name) => answers[name]!()));
    const counted = order.filter((_, at) => settled[at]!.status === "fulfilled");
    assertEquals(counted.length, 1, order.join());
    const { outcome, approval, ended_by } = await bench.reaches(id);
    assertEquals((approval?.by ?? ended_by)?.who, counted[0]);
    assertEquals(approval === undefined, outcome !== "pushed");
    assertEquals([...(await bench.branches()).keys()].includes(`agent/${id}`), outcome === "pushed");
  }
});

// conformance: b2.diff_policy.blocked_paths b2.diff_policy.host_side b7.diff_policy
Deno.test("a change that breaks the diff policy skips the gate, and the brief says what broke", async () => {
  await using bench = await BrokerBench.start({ config: "diff_policy:\n  blocked_paths: ['*.txt']\n" });
  const { id } = await bench.submit();
  const done = await bench.reaches(id);
  assertEquals(done.outcome, "policy_blocked");
  assertEquals(done.reason, "1 changed path matches *.txt");
  assertEquals((await bench.engine.brief(id)).violations.map(({ rule }) => rule), ["blocked_paths"]);
  assertEquals((await bench.branches()).size, 1);
});

Deno.test("an agent that changes nothing ends as no_diff", async () => {
  await using bench = await BrokerBench.start({ script: [{ calls: [["finish", { summary: "nothing to do" }]] }] });
  const { id } = await bench.submit();
  assertEquals((await bench.reaches(id)).outcome, "no_diff");
});

Deno.test("an agent that makes only what no change can have ends as no_diff, which names it", async () => {
  await using bench = await BrokerBench.start({ config: "max_file_bytes: 3\n" });
  const { id } = await bench.submit();
  const { outcome, reason } = await bench.reaches(id);
  assertEquals(outcome, "no_diff");
  assertEquals(reason, "the agent changed no file that a change can have; left out: hello.txt (left_out)");
});

Deno.test("an agent that fails ends the task, with the agent's reason and a brief of what is known", async () => {
  // What cannot be metered is charged by the most that it could cost.
  await using bench = await BrokerBench.start({
    config: "task_budget_usd: 100\n",
    script: [Response.json({ hello: "no completion" })],
  });
  const { id } = await bench.submit();
  const done = await bench.reaches(id);
  assertEquals(done.outcome, "agent_failed");
  assertStringIncludes(done.reason!, "no chat completion");
  const brief = await bench.engine.brief(id);
  assertEquals(brief.diff, null);
  assert(brief.missing_evidence.includes("what the task has changed"));
});

// conformance: b2.effect.task_budget_usd
Deno.test("a task whose budget is spent ends, and the reason names the setting", async () => {
  // 120 tokens at $100 per million are $0.012 a request.
  await using bench = await BrokerBench.start({ config: "task_budget_usd: 0.01\n" });
  const { id } = await bench.submit();
  const done = await bench.reaches(id);
  assertEquals(done.outcome, "agent_failed");
  assertStringIncludes(done.reason!, "raise task_budget_usd");
  assertEquals(done.spend?.requests, 1);
  assertEquals(done.spend?.usd.toFixed(4), "0.0120");
});

Deno.test("a task may be given less than task_budget_usd, and no more", async () => {
  await using bench = await BrokerBench.start();
  const { id } = await bench.submit({ budget_usd: 0.01 });
  const done = await bench.reaches(id);
  assertEquals([done.outcome, done.budget_usd], ["agent_failed", 0.01]);
  assertStringIncludes(done.reason!, "$0.0120 of $0.01); give the task a larger one");
  assertEquals((await bench.engine.brief(id)).budget_usd, 0.01);
  const error = await assertRejects(() => bench.submit({ budget_usd: 2.01 }), TaskdError);
  assertEquals(error.code, "invalid_request");
  assertStringIncludes(error.message, "its budget of $2.01 is above task_budget_usd ($2.00)");
});

// conformance: b2.effect.task_max_requests b7.max_requests
Deno.test("a task that used up its requests ends, and the reason names the setting", async () => {
  await using bench = await BrokerBench.start({ config: "task_max_requests: 1\n" });
  const { id } = await bench.submit();
  const done = await bench.reaches(id);
  assertEquals(done.outcome, "agent_failed");
  assertStringIncludes(done.reason!, "raise task_max_requests");
});

Deno.test("a repository that is not there fails the task before any money is spent", async () => {
  await using bench = await BrokerBench.start();
  const { id } = await bench.submit({ repo: `${bench.root}/none.git` });
  const done = await bench.reaches(id);
  assertEquals([done.outcome, done.spend], ["setup_failed", undefined]);
  assertEquals(bench.model.asked.length, 0);
});

// conformance: b2.effect.push_fresh_branch_tries b7.collision
Deno.test("a branch name that is taken leads to the next one, and nothing there is moved", async () => {
  await using bench = await BrokerBench.start();
  const { id } = await bench.submit();
  const { gate } = await bench.reaches(id, "awaiting_approval");
  await plainGit(bench.git.origin, "branch", `agent/${id}`, "main");
  const main = (await bench.branches()).get("main");
  await bench.engine.approve(id, { diff_sha256: gate!.diff_sha256, acknowledge: [] });
  const done = await bench.reaches(id);
  assertEquals([done.outcome, done.pushed?.branch], ["pushed", `agent/${id}-2`], done.reason);
  assertEquals(done.push_attempts.map(({ branch }) => branch), [`agent/${id}`, `agent/${id}-2`]);
  assertEquals((await bench.branches()).get(`agent/${id}`), main);
});

Deno.test("a push that the repository refuses waits as push_failed with the repository's words", async () => {
  await using bench = await BrokerBench.start({ runs_hooks: true });
  const hook = `${bench.git.origin}/hooks/pre-receive`;
  await writeProgram(hook, "#!/bin/sh\necho 'no robots' >&2\nexit 1\n");
  const done = await bench.pushed();
  assertEquals(done.stage, "push_failed");
  assertStringIncludes(done.reason!, "no robots");
});

// conformance: b2.effect.max_concurrent_tasks
Deno.test("two tasks run at once, the third is refused until one of them waits for a person", async () => {
  await using bench = await BrokerBench.start({
    script: [
      (asked) => asked.body.messages.some(({ content }) => content?.includes("SLEEP")) ? "hang" : oneChange(asked),
    ],
  });
  const slow = await bench.submit({ instruction: "SLEEP" });
  const quick = await bench.submit();
  const { code } = await refusal(() => bench.submit());
  assertEquals(code, "at_capacity");
  await bench.reaches(quick.id, "awaiting_approval");
  const third = await bench.submit();
  assertEquals((await bench.reaches(third.id, "awaiting_approval")).stage, "awaiting_approval");
  await bench.engine.kill(slow.id, "enough");
  assertEquals(bench.engine.health().pending, 2);
});

// conformance: b2.effect.approval_timeout b3.auto_denied
Deno.test("a gate without an answer is shut at approval_timeout, and a late approval is refused", async () => {
  const clock = new VirtualClock();
  await using bench = await BrokerBench.start({ clock, config: "approval_timeout: 2h\n" });
  const { id } = await bench.submit();
  const { gate } = await bench.reaches(id, "awaiting_approval");
  assertEquals(bench.engine.pending()[0]?.expires_in_ms, 7_200_000);
  clock.advance(7_200_000);
  const late = await refusal(() => bench.engine.approve(id, { diff_sha256: gate!.diff_sha256, acknowledge: [] }));
  assert(["expired", "wrong_state"].includes(late.code));
  const done = await bench.reaches(id);
  assertEquals([done.outcome, done.ended_by], ["denied", { via: "approval_timeout", who: "taskd" }]);
  assertStringIncludes(done.reason!, "approval_timeout");
});

// conformance: b2.effect.approval_timeout b3.auto_denied
longTest("approval_timeout counts on while no broker runs", async () => {
  const clock = new VirtualClock();
  await using bench = await BrokerBench.start({ clock, config: "approval_timeout: 2h\n" });
  const { id } = await bench.submit();
  await bench.reaches(id, "awaiting_approval");
  await bench.broker.stop();
  clock.advance(7_200_000);
  await bench.serve();
  assertEquals((await bench.reaches(id)).outcome, "denied");
});

longTest("a gate keeps its approval_timeout under a broker with another configuration", async () => {
  const clock = new VirtualClock();
  await using bench = await BrokerBench.start({ clock, config: "approval_timeout: 2h\n" });
  const { id } = await bench.submit();
  await bench.reaches(id, "awaiting_approval");
  for (const config of ["approval_timeout: 1m\n", "approval_timeout: 30d\n", ""]) {
    await bench.broker.stop();
    bench.configure(config);
    await bench.serve();
    assertEquals(bench.engine.pending()[0]?.expires_in_ms, 7_200_000, config);
  }
  clock.advance(7_200_000);
  assertEquals((await bench.reaches(id)).outcome, "denied");
});

Deno.test("what a diff does not show is acknowledged by name, and too large a file is not pushed", async () => {
  const bench = await BrokerBench.start({
    script: [async () => {
      const work = `${bench.home}/.taskd/stage/${bench.staged()[0]}/work`;
      await Deno.writeTextFile(`${work}/data.txt`, `${"x".repeat(99)}\n`.repeat(45_000));
      await Deno.writeTextFile(`${work}/end.ts`, "export {};\n");
      // A core dump: full of holes, so that only its apparent size is large.
      await Deno.writeTextFile(`${work}/core`, "");
      await Deno.truncate(`${work}/core`, 2 ** 40);
      return { calls: [["finish", { summary: "done" }]] };
    }],
  });
  await using _ = bench;
  const { id } = await bench.submit();
  const { gate } = await bench.reaches(id, "awaiting_approval");
  assertEquals(gate?.second_look, ["left_out", "cut_diff"]);
  const { flags } = await bench.engine.brief(id);
  assertEquals(flags.map(({ paths }) => paths.map(({ path, detail }) => `${path}: ${detail}`)), [
    ["core: 1 TiB"],
    ["data.txt: its end", "end.ts: all of it"],
  ]);
  const { diff_sha256, second_look: acknowledge } = gate!;
  for (const missing of acknowledge) {
    const partly = { diff_sha256, acknowledge: acknowledge.filter((category) => category !== missing) };
    await assertRejects(() => bench.engine.approve(id, partly), NotAcknowledged, missing);
  }
  await bench.engine.approve(id, { diff_sha256, acknowledge });
  assertEquals((await bench.reaches(id)).outcome, "pushed");
  const listed = await plainGit(bench.git.origin, "ls-tree", "--name-only", `agent/${id}`);
  assertEquals(listed.split("\n").filter((name) => name !== "README.md"), ["data.txt", "end.ts"]);
});
