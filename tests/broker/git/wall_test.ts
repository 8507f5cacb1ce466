/**
 * The wall around git: what a program behind it can see and write, whatever it has become, beside the same program
 * without the wall.
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { dirname } from "@std/path/dirname";
import { join } from "@std/path/join";
import { collectFacts } from "../../../broker/git/diff_facts.ts";
import { commitTree } from "../../../broker/git/commit.ts";
import { pushCommit } from "../../../broker/git/push.ts";
import { Git } from "../../../broker/git/git.ts";
import { behindWall, endWalled, type WalledCall } from "../../../broker/git/git_wall.ts";
import { stageRepository, takeForBinary } from "../../../broker/git/staged_repository.ts";
import { parseRepo } from "../../../broker/git/repo_url.ts";
import { findGitWall } from "../../../broker/git/open_git.ts";
import { askProgram } from "../../../broker/sandbox/host_programs.ts";
import { listProcesses } from "../../../broker/sandbox/processes.ts";
import { ALLOWED, attackScript, startVictim, TAKEN_OVER, targetsOf } from "../../../cli/redteam/git_wall.ts";
import { systemClock } from "../../../lib/clock.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { runProcess } from "../../../lib/process.ts";
import { writeProgram } from "../../support/programs.ts";
import { GitBench, plainGit, WALL, writeFiles } from "./bench.ts";
import { serveGit } from "./git_server.ts";

const on_linux = Deno.build.os === "linux";

function run(signal: AbortSignal | undefined, program: string, args: readonly string[], env: Record<string, string>) {
  return runProcess(program, {
    args,
    env: { PATH: "/usr/bin:/bin", ...env },
    cwd: "/",
    deadline_ms: 60_000,
    max_bytes: 1 << 16,
    clock: systemClock,
    attempted: "Cannot attack",
    signal,
  });
}

/** What of all that git would try succeeds. */
async function attack(
  call: (program: string, args: string[]) => { program: string; args: readonly string[] },
  env: Record<string, string>,
) {
  const { program, args } = call("/bin/bash", ["-c", attackScript({ ...TAKEN_OVER, ...ALLOWED })]);
  const { stdout } = await run(undefined, program, args, env);
  return new TextDecoder().decode(stdout).split("\n").filter((line) => line !== "");
}

Deno.test({
  name: "what git has become behind the wall has its own repository, and nothing else",
  ignore: !on_linux,
  fn: async () => {
    // The folder of temporary files may be closed to others.
    await using bench = await GitBench.start({ dir: "/tmp" });
    using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const [{ git_dir, work_tree }, other] = [await bench.stage(), await bench.stage()];
    const { home } = bench.git;
    await using victim = startVictim();
    const places = { home, own: { git_dir, work_tree }, other };
    const env = targetsOf({ ...places, port: listener.addr.port, victim: victim.pid });
    const call: WalledCall = { repository: { git_dir, work_tree }, home, checks_out: false };
    const behind = (more: Partial<WalledCall>) => (program: string, args: string[]) =>
      behindWall(WALL!, [program, args], { ...call, ...more });
    assertEquals(await attack((program, args) => ({ program, args }), env), Object.keys({ ...TAKEN_OVER, ...ALLOWED }));
    assertEquals(await attack(behind({}), env), Object.keys(ALLOWED));
    assertEquals(await attack(behind({ checks_out: true }), env), ["write the work tree", ...Object.keys(ALLOWED)]);
    assertEquals(await attack(behind({ receives: true }), env), ["write a pack", ...Object.keys(ALLOWED)]);
    assertEquals(await attack(behind({ repository: { git_dir } }), env), ["write the repository"]);
    // Who is not root.
    const uid = 65_534;
    for (const path of [bench.root, home, dirname(git_dir), git_dir, work_tree]) await Deno.chown(path, uid, uid);
    await Deno.chmod(other.git_dir, 0o777);
    const as = (program: string, args: readonly string[]) => ({
      program: "/usr/bin/setpriv",
      args: [`--reuid=${uid}`, `--regid=${uid}`, "--clear-groups", program, ...args],
    });
    const as_user = (program: string, args: string[]) => {
      const walled = behind({ uid, checks_out: true })(program, args);
      return as(walled.program, walled.args);
    };
    assertEquals(await attack(as_user, env), ["write the work tree", ...Object.keys(ALLOWED)]);
  },
});

Deno.test({
  name: "a call that hangs behind the wall ends with its signal, and leaves no process",
  ignore: !on_linux,
  fn: async () => {
    const seconds = String(86_400 + Math.random());
    const ending = new AbortController();
    const { program, args } = behindWall(WALL!, ["/bin/sleep", [seconds]], { home: "/usr", checks_out: false });
    const sleepers = async () => (await listProcesses()).filter(({ command_line }) => command_line.endsWith(seconds));
    const ended = run(ending.signal, program, args, {});
    ended.catch(() => {});
    while (!(await sleepers()).some(({ command_line }) => command_line === `/bin/sleep ${seconds}`)) {
      await systemClock.sleep(5);
    }
    ending.abort(new Error("enough"));
    await assertRejects(() => ended, Error, "enough");
    while ((await sleepers()).length > 0) await systemClock.sleep(5);
  },
});

Deno.test({
  name: "no process is left when a call has ended that printed more than was asked for",
  ignore: !on_linux,
  fn: async () => {
    const seconds = String(86_400 + Math.random());
    // Out of its session, with no hold on its pipes.
    const left = `setsid sh -c 'exec sleep ${seconds}' >/dev/null 2>&1 </dev/null & exec cat /dev/zero`;
    const { program, args } = behindWall(WALL!, ["/bin/sh", ["-c", left]], { home: "/usr", checks_out: false });
    const { truncated } = await runProcess(program, {
      args,
      env: { PATH: "/usr/bin:/bin" },
      cwd: "/",
      deadline_ms: 60_000,
      max_bytes: 64 << 20,
      on_excess: "cut",
      clock: systemClock,
      attempted: "Cannot attack",
      signal: undefined,
      onEnd: (pid) => endWalled(pid, systemClock),
    });
    assert(truncated);
    assertEquals((await listProcesses()).filter(({ command_line }) => command_line.includes(seconds)), []);
  },
});

Deno.test({
  name: "what a call of a remote starts to read objects is behind the wall, the call itself is not",
  ignore: !on_linux,
  fn: async () => {
    await using bench = await GitBench.start();
    const log = join(bench.root, "walled");
    const bwrap = join(bench.root, "bwrap");
    await writeProgram(bwrap, `#!/bin/sh\necho "$*" >> ${log}\nexec ${WALL!.bwrap} "$@"\n`);
    const git = new Git({ home: bench.git.home, wall: { ...bench.wall!, bwrap } });
    await using server = await serveGit(bench.root, () => "pass");
    const url = parseRepo(`${server.origin}/acme/app.git`);
    const walled = async () => {
      const lines = (await Deno.readTextFile(log)).split("\n");
      await Deno.remove(log);
      return new Set(lines.flatMap((line) => /(index-pack|rev-list|pack-objects)\b/.exec(line)?.[1] ?? []));
    };
    const staged = await stageRepository(git, {
      url,
      git_dir: join(bench.root, "t", "git"),
      work_tree: join(bench.root, "t", "work"),
    });
    assertEquals(await walled(), new Set(["index-pack", "rev-list"]));
    await writeFiles(staged.work_tree, { "b.txt": "new\n" });
    const { tree } = await collectFacts(git, { ...staged, signal: undefined });
    const { git_dir, base_commit } = staged;
    const commit = await commitTree(git, { git_dir, tree, base_commit, message: "Change\n", at_ms: 0 });
    await Deno.remove(log);
    const limits = { max_retries: 0, retry_backoff_ms: 1, fresh_branch_tries: 0 };
    await pushCommit(git, { url, git_dir, commit, tree, base_commit, task_id: "t1", ...limits, signal: undefined });
    assert((await walled()).has("pack-objects"));
    assertEquals(await plainGit(bench.origin, "rev-parse", "refs/heads/agent/t1"), commit);
    // Whatever of these cannot be led there is not started.
    const cut_off = new Git({ home: bench.git.home, wall: { ...bench.wall!, bwrap: "/bin/false" } });
    const other = { git_dir: join(bench.root, "u", "git"), work_tree: join(bench.root, "u", "work") };
    await assertRejects(() => stageRepository(cut_off, { url, ...other }), TaskdError);
  },
});

Deno.test("there is a wall where bwrap holds git as it is asked to, and git is the system's", async () => {
  const ask = askProgram({ env: () => undefined });
  const found = (git_path: string, ...bwraps: string[]) =>
    findGitWall(git_path, { ask, bwraps, filter: WALL?.filter ?? new Uint8Array() });
  const git = "/usr/bin/git";
  assertEquals(await found(git, "/usr/bin/no-such-bwrap", "/bin/false"), undefined);
  if (!on_linux) return;
  assertEquals([await found(git, "/bin/false", WALL!.bwrap), await found("/opt/git", WALL!.bwrap)], [WALL, undefined]);
  // It sees no git there.
  assertEquals(await found("/usr/no-such/git", WALL!.bwrap), undefined);
});

/** What a git that has been taken over may leave in its directory: commands of the shell in that. */
const LEFT: Readonly<Record<string, string>> = {
  "other settings": "echo /tmp/other > commondir",
  "a link in the place of its objects": "mv objects old && ln -s / objects",
  "a link in the place of what is inside": "rm -r text && ln -s /tmp text",
  "a link in the place of its attributes": "rm -r info && ln -s /tmp info",
  "a link among its refs": "ln -s /tmp refs/taskd/history",
  "a link as its cuts": "ln -sf /tmp/none shallow",
  "a pipe as its cuts": "rm -f shallow && mkfifo shallow",
  "objects of others": "echo /tmp/other > objects/info/alternates",
  "objects of others, inside": "echo /tmp/other > text/objects/info/alternates",
  "a link among its objects": "mkdir -p objects/ab && ln -s /tmp objects/ab/own",
  "a pipe among its packs": "mkfifo objects/pack/pack-1.idx",
  "other parents": "mkdir -p info && touch info/grafts",
};

for (const [what, command] of Object.entries(LEFT)) {
  Deno.test(`no call goes on with what git left in its directory: ${what}`, async () => {
    await using bench = await GitBench.start();
    const { git_dir, base_commit } = await bench.stage();
    const { success } = await new Deno.Command("/bin/sh", { args: ["-ec", command], cwd: git_dir }).output();
    assert(success);
    const url = parseRepo(bench.origin);
    const run = { attempted: "Cannot ask", signal: undefined, repository: { git_dir } };
    const calls = [
      () => bench.git.run(["ls-remote", "--", url.clone_url], { ...run, remote: url }),
      () => bench.git.run(["cat-file", "-t", base_commit], run),
      () => takeForBinary(git_dir, []),
    ];
    for (const call of calls) await assertRejects(call, TaskdError, "is not the broker's");
  });
}

Deno.test("a repository that borrows objects is read with what it borrows, whatever it names itself", async () => {
  await using bench = await GitBench.start();
  const { git_dir, base_commit } = await bench.stage();
  const borrows = `${git_dir}/objects`;
  const look = join(bench.root, "look");
  const run = { attempted: "Cannot read", signal: undefined, repository: { git_dir: look, borrows } };
  await Deno.mkdir(look);
  await bench.git.run(["init", "--quiet", "--bare", "--template="], run);
  await Deno.writeTextFile(`${look}/objects/info/alternates`, `${borrows}\n`);
  assertEquals(await bench.git.text(["cat-file", "-t", base_commit], run), "commit");
});

Deno.test("a folder that git names is one of the work tree", async () => {
  await using bench = await GitBench.start();
  const staged = await bench.stage();
  const path = join(bench.root, "git");
  await writeProgram(
    path,
    `#!/bin/sh\ncase " $* " in\n*" ls-files -o "*) printf '../secrets/\\0';;\n*) exec /usr/bin/git "$@";;\nesac\n`,
  );
  await Deno.mkdir(join(dirname(staged.work_tree), "secrets"));
  const git = new Git({ home: bench.git.home, places: [path] });
  await assertRejects(() => collectFacts(git, { ...staged, signal: undefined }), TaskdError, "is no folder of it");
});
