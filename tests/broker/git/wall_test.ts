/**
 * The wall around git: what a program behind it can see and write, whatever it has become, beside the same program
 * without the wall.
 */

import { assertEquals, assertRejects } from "@std/assert";
import { dirname } from "@std/path/dirname";
import { join } from "@std/path/join";
import { behindWall, type WalledCall } from "../../../broker/git/git_wall.ts";
import { parseRepo } from "../../../broker/git/repo_url.ts";
import { findGitWall } from "../../../broker/git/open_git.ts";
import { askProgram } from "../../../broker/sandbox/host_programs.ts";
import { listProcesses } from "../../../broker/sandbox/processes.ts";
import { ALLOWED, attackScript, TAKEN_OVER } from "../../../cli/redteam/git_wall.ts";
import { systemClock } from "../../../lib/clock.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { runProcess } from "../../../lib/process.ts";
import { GitBench, WALL } from "./bench.ts";

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
    await using bench = await GitBench.start();
    using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const [{ git_dir, work_tree }, other] = [await bench.stage(), await bench.stage()];
    const { home } = bench.git;
    const env = {
      HOME: home,
      OWN: git_dir,
      WORK: work_tree,
      OTHER: other.git_dir,
      HOST_PID: String(Deno.pid),
      PORT: String(listener.addr.port),
    };
    const call: WalledCall = { repository: { git_dir, work_tree }, home, checks_out: false };
    const behind = (more: Partial<WalledCall>) => (program: string, args: string[]) =>
      behindWall(WALL!, [program, args], { ...call, ...more });
    assertEquals(await attack((program, args) => ({ program, args }), env), Object.keys({ ...TAKEN_OVER, ...ALLOWED }));
    assertEquals(await attack(behind({}), env), Object.keys(ALLOWED));
    assertEquals(await attack(behind({ checks_out: true }), env), ["write the work tree", ...Object.keys(ALLOWED)]);
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

Deno.test("there is a wall where bwrap holds git as it is asked to, and git is the system's", async () => {
  const ask = askProgram({ env: () => undefined });
  const found = (git_path: string, ...bwraps: string[]) => findGitWall(git_path, { ask, bwraps });
  const git = "/usr/bin/git";
  assertEquals(await found(git, "/usr/bin/no-such-bwrap", "/bin/false"), undefined);
  if (!on_linux) return;
  assertEquals([await found(git, "/bin/false", WALL!), await found("/opt/git", WALL!)], [WALL, undefined]);
  // It sees no git there.
  assertEquals(await found("/usr/no-such/git", WALL!), undefined);
});

Deno.test("what git left to be led elsewhere by is not obeyed on the host", async () => {
  await using bench = await GitBench.start();
  const { git_dir } = await bench.stage();
  await Deno.writeTextFile(`${git_dir}/commondir`, "/tmp/other\n");
  const url = parseRepo(bench.origin);
  const run = { attempted: "Cannot ask", signal: undefined, remote: url, repository: { git_dir } };
  await assertRejects(() => bench.git.run(["ls-remote", "--", url.clone_url], run), TaskdError, "is not the broker's");
});

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
