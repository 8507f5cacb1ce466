/**
 * Repositories at a path, whose hooks and settings name programs: none of them runs, in any call of the broker. The same
 * repositories run them where the operator has said so, so that a row which can name nothing is found out.
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path/join";
import { Git } from "../../../broker/git/git.ts";
import { commitTree } from "../../../broker/git/commit.ts";
import { collectFacts } from "../../../broker/git/diff_facts.ts";
import { pushCommit, type PushResult } from "../../../broker/git/push.ts";
import { parseRepo } from "../../../broker/git/repo_url.ts";
import { stageRepository } from "../../../broker/git/staged_repository.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { writeProgram } from "../../support/programs.ts";
import { GitBench, plainGit, writeFiles } from "./bench.ts";

/** A repository that is prepared to run `evil`, a program that leaves a mark. */
interface Trap {
  what: string;
  prepare(origin: string, evil: string, bench: GitBench): Promise<unknown>;
  /** Whether a push runs it where the operator lets the repository run its own; false where this git does not know it. */
  runs: boolean;
}

const set = (name: string) => (origin: string, evil: string) => plainGit(origin, "config", name, evil);
const hook = (name: string): Trap => ({
  what: `the hook ${name}`,
  prepare: async (origin, evil) => await Deno.copyFile(evil, join(origin, "hooks", name)),
  runs: true,
});

const TRAPS: readonly Trap[] = [
  ...["pre-receive", "update", "reference-transaction", "post-receive", "post-update"].map(hook),
  {
    what: "a folder of hooks that the settings name",
    prepare: async (origin, evil) => {
      await writeFiles(origin, { "more/post-receive": "" });
      await Deno.copyFile(evil, join(origin, "more/post-receive"));
      await plainGit(origin, "config", "core.hooksPath", join(origin, "more"));
    },
    runs: true,
  },
  {
    what: "a file that the settings include",
    prepare: async (origin, evil) => {
      await writeFiles(origin, { "more/post-receive": "", "more.config": `[core]\nhooksPath = ${origin}/more\n` });
      await Deno.copyFile(evil, join(origin, "more/post-receive"));
      await plainGit(origin, "config", "include.path", join(origin, "more.config"));
    },
    runs: true,
  },
  {
    what: "settings of a worktree",
    prepare: async (origin, evil) => {
      await writeFiles(origin, { "more/post-receive": "", "config.worktree": `[core]\nhooksPath = ${origin}/more\n` });
      await Deno.copyFile(evil, join(origin, "more/post-receive"));
      await plainGit(origin, "config", "extensions.worktreeConfig", "true");
    },
    runs: true,
  },
  {
    what: "the hook proc-receive",
    prepare: async (origin, evil) => {
      await Deno.copyFile(evil, join(origin, "hooks/proc-receive"));
      await plainGit(origin, "config", "receive.procReceiveRefs", "refs/heads");
    },
    runs: true,
  },
  {
    what: "a command for the refs of alternates",
    prepare: async (origin, evil, { root }) => {
      await plainGit(root, "init", "--quiet", "--bare", "other");
      await writeFiles(origin, { "objects/info/alternates": `${root}/other/objects\n` });
      await set("core.alternateRefsCommand")(origin, evil);
    },
    runs: true,
  },
  {
    what: "a hook of housekeeping",
    prepare: async (origin, evil) => {
      await Deno.copyFile(evil, join(origin, "hooks/pre-auto-gc"));
      for (const [name, value] of [["gc.auto", "1"], ["gc.autoDetach", "false"]]) {
        await plainGit(origin, "config", name!, value!);
      }
      // Enough in one folder of objects for git to take the whole for untidy.
      for (let n = 0; n < 600; n++) {
        await writeFiles(origin, { [`objects/17/${n.toString(16).padStart(38, "0")}`]: "" });
      }
    },
    runs: true,
  },
  {
    what: "a promisor remote, by a program",
    prepare: async (origin, evil) => {
      for (
        const [name, value] of [
          ["core.repositoryFormatVersion", "1"],
          ["extensions.partialClone", "evil"],
          ["remote.evil.url", `ext::${evil}`],
          ["remote.evil.promisor", "true"],
          ["remote.evil.uploadpack", evil],
          ["protocol.allow", "always"],
          ["protocol.ext.allow", "always"],
          ["core.sshCommand", evil],
          ["credential.helper", `!${evil}`],
        ]
      ) await plainGit(origin, "config", name!, value!);
    },
    runs: false,
  },
  { what: "a monitor of files", prepare: set("core.fsmonitor"), runs: false },
  { what: "a hook of packing", prepare: set("uploadpack.packObjectsHook"), runs: false },
  { what: "a program of signatures", prepare: set("gpg.program"), runs: false },
  { what: "a pager and an editor", prepare: set("core.pager"), runs: false },
];

/** What a task does with its repository: it is staged, changed, and pushed. */
async function wholeTask(bench: GitBench, git: Git, name = "t"): Promise<PushResult> {
  const url = parseRepo(bench.origin);
  const at = join(bench.root, name);
  const staged = await stageRepository(git, { url, git_dir: join(at, "git"), work_tree: join(at, "work") });
  await writeFiles(staged.work_tree, { "b.txt": "new\n" });
  const { tree } = await collectFacts(git, staged);
  const { git_dir, base_commit } = staged;
  const commit = await commitTree(git, { git_dir, tree, base_commit, message: "Add b\n", at_ms: 0 });
  const limits = { max_retries: 0, retry_backoff_ms: 0, fresh_branch_tries: 0 };
  return await pushCommit(git, { url, git_dir, commit, tree, base_commit, task_id: name, ...limits });
}

function isThere(path: string): boolean {
  try {
    return Deno.lstatSync(path).isFile;
  } catch {
    return false;
  }
}

for (const { what, prepare, runs } of TRAPS) {
  Deno.test(`a repository at a path runs nothing of its own: ${what}`, async () => {
    await using bench = await GitBench.start();
    const { root, origin } = bench;
    const [mark, evil] = [join(root, "ran"), join(root, "evil")];
    await writeProgram(evil, `#!/bin/sh\ntouch ${mark}\n`);
    await prepare(origin, evil, bench);
    // What refuses to be called without its program refuses the push: that is as safe.
    await wholeTask(bench, bench.git).catch((error) => assert(error instanceof TaskdError, error));
    assertEquals(isThere(mark), false, "it ran");
    if (what !== "the hook proc-receive") assertEquals((await wholeTask(bench, bench.git, "u")).branch, "agent/u");
    assertEquals(isThere(mark), false, "it ran");
    const trusting = new Git({ home: bench.git.home, run_hooks_of: [origin] });
    await wholeTask(bench, trusting, "v").catch(() => {});
    assertEquals(isThere(mark), runs, "what git does of itself");
  });
}

Deno.test("a branch that is checked out is not written, whatever the repository says of it", async () => {
  await using bench = await GitBench.start();
  const { root } = bench;
  const mark = join(root, "ran");
  await writeProgram(join(root, "evil"), `#!/bin/sh\ntouch ${mark}\n`);
  bench.origin = join(root, "seed");
  await plainGit(bench.origin, "symbolic-ref", "HEAD", "refs/heads/main");
  for (
    const [name, value] of [["receive.denyCurrentBranch", "updateInstead"], ["core.fsmonitor", join(root, "evil")]]
  ) {
    await plainGit(bench.origin, "config", name!, value!);
  }
  const url = parseRepo(bench.origin);
  const [git_dir, work_tree] = [join(root, "t/git"), join(root, "t/work")];
  const { base_commit } = await stageRepository(bench.git, { url, git_dir, work_tree });
  // By the time of the push the branch of the task is the one that is checked out.
  await plainGit(bench.origin, "symbolic-ref", "HEAD", "refs/heads/agent/t");
  const tree = await plainGit(git_dir, "rev-parse", `${base_commit}^{tree}`);
  const commit = await commitTree(bench.git, { git_dir, tree, base_commit, message: "x\n", at_ms: 0 });
  const limits = { max_retries: 0, retry_backoff_ms: 0, fresh_branch_tries: 0 };
  const push = () => pushCommit(bench.git, { url, git_dir, commit, tree, base_commit, task_id: "t", ...limits });
  await push().catch((error) => assert(error instanceof TaskdError, error));
  assertEquals(isThere(mark), false);
});

Deno.test("hooks that a repository's settings name are refused with the word that lets them run", async () => {
  await using bench = await GitBench.start();
  const { origin } = bench;
  await plainGit(origin, "config", "hook.check.command", "true");
  await plainGit(origin, "config", "hook.check.event", "post-receive");
  const { code, message, hint } = await assertRejects(() => bench.stage(), TaskdError);
  assertEquals([code, hint?.includes(`run_hooks_of: [${origin}]`)], ["denied", true], message);
  const trusting = new Git({ home: bench.git.home, run_hooks_of: [origin] });
  assertEquals((await wholeTask(bench, trusting)).branch, "agent/t");
});

Deno.test({
  name: "a repository of another user is refused for reading and for pushing",
  // Only root can give files away.
  ignore: Deno.uid() !== 0,
  fn: async () => {
    await using bench = await GitBench.start();
    const staged = await bench.stage();
    for (const path of [bench.origin, join(bench.root, "seed", ".git")]) await Deno.chown(path, 12_345, null);
    for (const origin of [bench.origin, join(bench.root, "seed")]) {
      bench.origin = origin;
      const { code, message } = await assertRejects(() => bench.stage(), TaskdError);
      assertEquals(code, "denied", message);
      const { git_dir, base_commit } = staged;
      const tree = await plainGit(git_dir, "rev-parse", `${base_commit}^{tree}`);
      const commit = await commitTree(bench.git, { git_dir, tree, base_commit, message: "x\n", at_ms: 0 });
      const limits = { max_retries: 0, retry_backoff_ms: 0, fresh_branch_tries: 0 };
      const options = { url: parseRepo(origin), git_dir, commit, tree, base_commit, task_id: "t", ...limits };
      assertEquals((await assertRejects(() => pushCommit(bench.git, options), TaskdError)).code, "denied");
    }
  },
});

Deno.test("a path is looked at itself: no folder above it is taken for the repository", async () => {
  await using bench = await GitBench.start();
  await Deno.mkdir(join(bench.root, "seed/folder"));
  bench.origin = join(bench.root, "seed/folder");
  assertEquals((await assertRejects(() => bench.stage(), TaskdError)).code, "not_found");
});
