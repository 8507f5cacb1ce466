import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { TaskStore } from "../../../broker/task/task_store.ts";
import { plainGit } from "../git/bench.ts";
import { LOGIN } from "./_code_host.ts";
import { withCodeHost } from "./_hosted.ts";
import { writeProgram } from "../../support/programs.ts";
import { longTest } from "../../support/long.ts";

// conformance: b1.pull_request b5.code_host
Deno.test("a change goes over https with the operator's login and gets a pull request", () =>
  withCodeHost({}, async ({ bench, host, through }) => {
    const done = await through();
    assertEquals(done.outcome, "pushed", done.reason);
    assertEquals((await bench.branches()).get(`agent/${done.id}`), done.pushed?.commit);
    assertEquals(done.pushed?.pull_request, `${host.repo}/pull/1`);
    const [create, ...more] = await host.calls("pr", "create");
    assertEquals(more, []);
    assertEquals(create!.args, [
      "pr",
      "create",
      `--repo=${host.name}/acme/app`,
      `--head=agent/${done.id}`,
      "--base=main",
      "--title=Say hello",
      "--body-file=-",
    ]);
    assertStringIncludes(create!.stdin, done.id);
  }));

longTest(
  "a base of any name lands on its commit; a pull request needs a branch to go to",
  () =>
    withCodeHost({}, async ({ bench, host, through }) => {
      const seed = `${bench.root}/seed`;
      const before = await plainGit(seed, "rev-parse", "HEAD");
      await plainGit(seed, "commit", "--quiet", "--allow-empty", "-m", "later");
      await plainGit(seed, "tag", "-a", "-m", "one", "v1", before);
      const places = ["HEAD:main", `${before}:refs/heads/topic/a`, "refs/tags/v1"];
      await plainGit(seed, "push", "--quiet", bench.git.origin, ...places);
      for (const base of ["refs/heads/topic/a", before.slice(0, 9), "v1"]) {
        const done = await through({ base });
        assertEquals(done.outcome, "pushed", done.reason);
        assertEquals(await plainGit(bench.git.origin, "rev-parse", `agent/${done.id}^`), before, base);
        const opened = (await host.calls("pr", "create", `--head=agent/${done.id}`)).map(({ args }) => args[4]);
        assertEquals(opened, base.startsWith("refs/heads/") ? ["--base=topic/a"] : [], base);
      }
    }),
);

// conformance: b5.code_host b2.ci.read_only
longTest(
  "GH_HOST and GH_REPO reach neither gh nor git, and gh runs in an empty directory",
  () =>
    withCodeHost({ env: { VENDORA_API_KEY: "sk-vendor-a-0123456789" } }, async ({ host, through }) => {
      assertEquals((await through()).outcome, "pushed");
      const calls = await host.calls();
      assert(calls.some(({ args }) => args[1] === "git-credential"));
      for (const { args, env } of calls) {
        assertEquals([env.GH_HOST, env.GH_REPO], [undefined, undefined], args.join(" "));
        assertEquals(Object.keys(env).filter((name) => /_KEY$|SSH_AUTH|TASKD/.test(name)), [], args.join(" "));
      }
      for (const { cwd, env } of await host.calls("pr")) {
        assertEquals([cwd, env.GH_TOKEN, env.GH_PROMPT_DISABLED], [[], LOGIN, "1"]);
      }
    }),
);

longTest(
  "a sensitive change wants its word at the gate, and a draft is opened as one",
  () =>
    withCodeHost({}, async ({ bench, host, submit, approve }) => {
      const { id } = await submit({ draft: true, sensitive: true });
      const { gate } = await bench.reaches(id, "awaiting_approval");
      assertEquals(gate?.second_look, ["sensitive"]);
      assertEquals((await approve(id)).outcome, "pushed");
      const [create] = await host.calls("pr", "create");
      assert(create!.args.includes("--draft"));
    }),
);

Deno.test("the login of the code host stands in nothing that is written, shown or asked of the model", () =>
  withCodeHost({}, async ({ bench, through }) => {
    const { id } = await through();
    const seen = [
      await bench.written(),
      JSON.stringify(await bench.engine.view(id)),
      JSON.stringify(await bench.engine.brief(id)),
      JSON.stringify(bench.model.asked),
    ].join("\n");
    assertEquals(seen.includes(LOGIN), false);
    assertEquals(seen.includes(btoa(`x-access-token:${LOGIN}`)), false);
  }));

longTest(
  "a push declined by a hook fails once, with the hook's sanitised words",
  () =>
    withCodeHost({}, async ({ bench, host, through }) => {
      const hook = "#!/bin/bash\nprintf 'no \\033[31msecrets\\033[0m here\\n' >&2\nexit 1\n";
      await writeProgram(`${bench.git.origin}/hooks/pre-receive`, hook);
      const done = await through();
      assertEquals(done.stage, "push_failed");
      assertStringIncludes(done.reason!, "no \\x1b[31msecrets\\x1b[0m here");
      assertStringIncludes(done.reason!, "A hook or rule of the code host refuses this change");
      assertEquals([host.pushes, (await host.calls("pr")).length], [1, 0]);
      assertEquals(bench.staged(), [done.id]);
    }),
);

longTest(
  "a branch that has the name already is left as it is, and the next name is taken",
  () =>
    withCodeHost({}, async ({ bench, host, submit, approve }) => {
      const { id } = await submit();
      await bench.reaches(id, "awaiting_approval");
      const main = await plainGit(bench.git.origin, "rev-parse", "main");
      await plainGit(bench.git.origin, "branch", `agent/${id}`, main);
      const done = await approve(id);
      assertEquals([done.outcome, done.pushed?.branch, done.reason], [
        "pushed",
        `agent/${id}-2`,
        `pushed to agent/${id}-2`,
      ]);
      assertEquals((await bench.branches()).get(`agent/${id}`), main);
      const [create] = await host.calls("pr", "create");
      assert(create!.args.includes(`--head=agent/${id}-2`));
    }),
);

longTest(
  "when every name is taken the task says so and what to do, and moves nothing",
  () =>
    withCodeHost({ config: "push_fresh_branch_tries: 1\n" }, async ({ bench, host, submit, approve }) => {
      const { id } = await submit();
      await bench.reaches(id, "awaiting_approval");
      await plainGit(bench.git.origin, "branch", `agent/${id}`, "main");
      await plainGit(bench.git.origin, "branch", `agent/${id}-2`, "main");
      const before = await bench.branches();
      const done = await approve(id);
      assertEquals(done.stage, "push_failed");
      assertStringIncludes(done.reason!, "every branch name is taken");
      assertStringIncludes(done.reason!, "push_fresh_branch_tries");
      assertEquals(await bench.branches(), before);
      assertEquals(await host.calls("pr"), []);
    }),
);

longTest(
  "an expired login fails the push with a reason that names the remedy, not the login",
  () =>
    withCodeHost({}, async ({ bench, host, submit, approve }) => {
      const { id } = await submit();
      await bench.reaches(id, "awaiting_approval");
      host.login = "gho_a_new_one_without_an_owner";
      const done = await approve(id);
      assertEquals(done.stage, "push_failed");
      assertStringIncludes(done.reason!, "the code host refused the credentials");
      assertStringIncludes(done.reason!, "gh auth login");
      assertEquals(done.reason!.includes(LOGIN), false);
      assertEquals([host.pushes, (await bench.branches()).size], [0, 1]);
      assertEquals(done.push_attempts.length, 1);
    }),
);

longTest(
  "a code host that is away for a moment is retried, and one pull request is opened",
  () =>
    withCodeHost({}, async ({ bench, host, submit, approve }) => {
      const { id } = await submit();
      await bench.reaches(id, "awaiting_approval");
      let failures = 2;
      host.decide = () => failures-- > 0 ? { status: 503 } : "pass";
      const done = await approve(id);
      assertEquals([done.outcome, done.pushed?.branch], ["pushed", `agent/${id}`], done.reason);
      assertEquals((await host.calls("pr", "create")).length, 1);
    }),
);

longTest(
  "a pull request that gh refuses leaves the change pushed, with the reason noted",
  () =>
    withCodeHost({}, async ({ bench, host, through }) => {
      await host.creates({
        code: 1,
        stderr:
          "pull request create failed: GraphQL: Resource not accessible by personal access token (createPullRequest)\n",
      });
      const done = await through();
      assertEquals([done.outcome, done.pushed?.pull_request], ["pushed", undefined]);
      assertStringIncludes(await bench.written(), "no pull request was opened for");
      assertEquals((await bench.branches()).has(`agent/${done.id}`), true);
    }),
);

for (const { when, opened } of [{ when: "before", opened: false }, { when: "after", opened: true }]) {
  Deno.test(`a push whose broker died ${when} its pull request was opened has exactly one`, () =>
    withCodeHost({}, async ({ bench, host, submit }) => {
      const { id } = await submit();
      const { gate } = await bench.reaches(id, "awaiting_approval");
      await bench.broker.stop();
      // As far as that broker came.
      const branch = `agent/${id}`;
      await plainGit(bench.git.origin, "branch", branch, "main");
      const commit = await plainGit(bench.git.origin, "rev-parse", "main");
      const tasks = await TaskStore.open(`${bench.home}/.taskd/audit`);
      const task = await tasks.reopen(id);
      const approval = { diff_sha256: gate!.diff_sha256, acknowledged: [] };
      await task.move({ from: "awaiting_approval", to: "pushing", approval });
      await task.append({ type: "push_attempt", remote: host.repo, branch, commit });
      await tasks.close();
      if (opened) {
        await host.creates({
          stderr: `a pull request for branch "${branch}" already exists:\n${host.repo}/pull/1\n`,
          code: 1,
        });
      }
      await bench.serve();
      const done = await bench.reaches(id);
      assertEquals([done.outcome, done.pushed], ["pushed", { branch, commit, pull_request: `${host.repo}/pull/1` }]);
      const [create] = await host.calls("pr", "create");
      assert(create!.args.includes(`--head=${branch}`));
    }));
}
