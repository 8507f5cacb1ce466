import { assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "@std/path/join";
import { commitTree } from "../../../broker/git/commit.ts";
import { reach } from "../../../broker/git/credentials.ts";
import { collectFacts } from "../../../broker/git/diff_facts.ts";
import { Git } from "../../../broker/git/git.ts";
import { pushCommit } from "../../../broker/git/push.ts";
import { parseRepo } from "../../../broker/git/repo_url.ts";
import { stageRepository } from "../../../broker/git/staged_repository.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { writeProgram } from "../../support/programs.ts";
import type { Scripted } from "../../support/model_server.ts";
import { BrokerBench } from "../engine/bench.ts";
import { GitBench, plainGit, writeFiles } from "../git/bench.ts";
import { AUTHORITY, CERTIFICATE, KEY } from "../gateway/tls_fixture.ts";
import { type GitRequest, serveGit } from "../git/git_server.ts";
import { serveSsh, sshMissing } from "../git/ssh_server.ts";
import { longTest } from "../../support/long.ts";

/** Where an operator's own configuration of git leads. */
interface Way {
  config: (server: string, root: string) => string;
  /** The repository as the task has it; by default the server's. */
  repo?: string;
  /** Whether the server lets a request in; by default it does. */
  admits?: (request: GitRequest) => boolean;
  /** The server's certificate; by default it speaks plain HTTP. */
  tls?: { cert: string; key: string };
  /** Whether the server saw the push; by default it did. */
  pushes?: boolean;
}

const CODE = "https://code.example/acme/app";

const WAYS: Record<string, Way> = {
  "url.insteadOf": {
    repo: CODE,
    config: (server) => `[url "${server}/"]\n\tinsteadOf = https://code.example/\n`,
  },
  "the insteadOf that matches most, of a name for it": {
    repo: "code:acme/app",
    config: (server) =>
      `[url "http://127.0.0.1:1/"]\n\tinsteadOf = co\n[url "${server}/acme/"]\n\tinsteadOf = code:acme/\n`,
  },
  "url.pushInsteadOf": {
    config: (server, root) => `[url "${root}/"]\n\tpushInsteadOf = ${server}/\n`,
    pushes: false,
  },
  "http.proxy": {
    repo: "http://127.0.0.1:1/acme/app",
    config: (server) => `[http]\n\tproxy = ${server}\n`,
  },
  "http.sslCAInfo": {
    config: (_, root) => `[http]\n\tsslCAInfo = ${root}/ca.pem\n`,
    tls: { cert: CERTIFICATE, key: KEY },
  },
  "http.extraHeader of one host": {
    config: (server) => `[http "${server}/"]\n\textraHeader = Authorization: s3cret\n`,
    admits: ({ authorization }) => authorization === "s3cret",
  },
};

for (const [what, { config, repo, admits = () => true, pushes = true, tls }] of Object.entries(WAYS)) {
  const test = what === "url.insteadOf" ? Deno.test : longTest;
  test(`a repository is reached by ${what} of the operator's git`, async () => {
    await using bench = await BrokerBench.prepare();
    await using server = await serveGit(bench.git.root, (seen) => admits(seen) ? "pass" : { status: 401 }, tls);
    await writeFiles(bench.root, { "ca.pem": AUTHORITY });
    await Deno.rename(bench.git.origin, bench.git.origin.replace(/\.git$/, ""));
    bench.git.origin = bench.git.origin.replace(/\.git$/, "");
    await writeFiles(bench.home, { ".gitconfig": config(server.origin, bench.git.root) });
    await bench.serve();
    const done = await bench.pushed({ repo: repo ?? `${server.origin}/acme/app` });
    assertEquals([done.outcome, (await bench.branches()).has(`agent/${done.id}`)], ["pushed", true], done.reason);
    assertEquals(server.requests.some(({ url }) => url.includes("receive-pack")), pushes);
    assertEquals((await bench.written()).replaceAll(/.*extraHeader.*/g, "").includes("s3cret"), false);
  });
}

Deno.test("an insteadOf with a login in it is refused, says why, and does not repeat it", () => {
  const settings = [["url.https://op:s3cret@code.example/.insteadof", "https://code.example/"]] as const;
  const { message, hint } = assertThrows(() => reach(parseRepo(CODE), { env: {}, settings }, "fetch"), TaskdError);
  assertEquals(message, 'Cannot take "https://***@code.example/acme/app" as a repository: it holds a password');
  assertStringIncludes(hint!, "by insteadOf");
});

longTest("submodules and files of LFS land as they are: neither is followed, no filter runs", async () => {
  const pointer = (digit: string) =>
    `version https://git-lfs.github.com/spec/v1\noid sha256:${digit.repeat(64)}\nsize 12345\n`;
  const files = { "big.bin": pointer("1"), "kept.bin": pointer("2"), ".gitattributes": "*.bin filter=lfs -text\n" };
  const script = [
    { calls: [["write", { path: "big.bin", content: pointer("3") }], ["finish", { summary: "done" }]] },
  ] satisfies Scripted[];
  await using bench = await BrokerBench.prepare({ files, script });
  const { git, root } = bench;
  await using server = await serveGit(root);
  const seed = join(root, "seed");
  const module = await plainGit(seed, "rev-parse", "HEAD");
  await plainGit(root, "clone", "--quiet", "--bare", git.origin, join(git.origin, "../lib.git"));
  await writeFiles(seed, { ".gitmodules": '[submodule "lib"]\n\tpath = lib\n\turl = ../lib.git\n' });
  await plainGit(seed, "add", ".gitmodules");
  await plainGit(seed, "update-index", "--add", "--cacheinfo", `160000,${module},lib`);
  await plainGit(seed, "commit", "--quiet", "-m", "with a submodule");
  await plainGit(seed, "push", "--quiet", git.origin, "HEAD:main");
  // What `git lfs install` writes, and an operator who wants submodules everywhere.
  const filter = ["clean", "smudge", "process"].map((name) => `\t${name} = touch ${root}/ran\n`).join("");
  const wants = "[submodule]\n\trecurse = true\n[fetch]\n\trecurseSubmodules = true\n";
  await writeFiles(bench.home, { ".gitconfig": `[filter "lfs"]\n${filter}\trequired = true\n${wants}` });
  await bench.serve();
  const done = await bench.pushed({ repo: `${server.origin}/acme/app.git` });
  assertEquals([done.outcome, done.gate?.second_look], ["pushed", ["lfs_pointer"]], done.reason);
  assertEquals(server.requests.filter(({ url }) => !url.startsWith("/acme/app.git/")), []);
  assertEquals(Deno.readDirSync(root).some(({ name }) => name === "ran"), false);
  // A client that follows them finds all.
  const clone = join(root, "clone");
  const from = [`--branch=agent/${done.id}`, `${server.origin}/acme/app.git`, clone];
  await plainGit(root, "clone", "--quiet", "--recurse-submodules", ...from);
  assertEquals(
    await plainGit(clone, "diff", "--raw", "--no-abbrev", "origin/main", "HEAD"),
    [
      `:100644 100644 ${await plainGit(seed, "rev-parse", "HEAD:big.bin")}`,
      `${await plainGit(clone, "rev-parse", "HEAD:big.bin")} M\tbig.bin`,
    ].join(" "),
  );
  assertEquals(await Deno.readTextFile(join(clone, "big.bin")), pointer("3"));
  assertEquals(await plainGit(join(clone, "lib"), "rev-parse", "HEAD"), module);
});

const missing = sshMissing();
const why = missing === undefined ? "" : ` (ignored: ${missing})`;
const ssh = (
  name: string,
  fn: () => Promise<void>,
  define: (definition: Deno.TestDefinition) => void = Deno.test,
) => define({ name: name + why, ignore: why !== "", fn });

ssh("a repository is reached by ssh with core.sshCommand, agent and alias", async () => {
  await using bench = await BrokerBench.prepare({ env: {} });
  await using server = await serveSsh(`${bench.root}/ssh`);
  const config = `${bench.home}/ssh_config`;
  const again = `[url "work:${bench.git.root}/"]\n\tinsteadOf = ${CODE.replace("/acme/app", "/")}\n`;
  await writeFiles(bench.home, {
    "ssh_config": server.config + `  IdentityAgent ${server.agent}\n`,
    ".gitconfig": `[core]\n\tsshCommand = ssh -F ${config}\n${again}`,
  });
  await bench.serve();
  for (const repo of [`work:${bench.git.origin.slice(1)}`, `ssh://work${bench.git.origin}`]) {
    const done = await bench.pushed({ repo });
    assertEquals([done.outcome, (await bench.branches()).has(`agent/${done.id}`)], ["pushed", true], done.reason);
  }
}, longTest);

ssh("ssh goes by the operator's agent and ~/.ssh/config, without a setting of git", async () => {
  await using bench = await GitBench.start();
  const { root, origin } = bench;
  await using server = await serveSsh(`${root}/ssh`);
  const home = `${root}/op`;
  await writeFiles(home, { ".ssh/config": server.config });
  // ssh asks the system, not HOME, for the operator's home: to this git alone it is another one.
  await writeFiles(root, {
    passwd: (await Deno.readTextFile("/etc/passwd")).replace(/^(root:.*):\/root:/m, `$1:${home}:`),
  });
  const path = `${root}/git`;
  const inside = `mount --bind ${root}/passwd /etc/passwd && exec /usr/bin/git "$@"`;
  await writeProgram(path, `#!/bin/sh\nexec /usr/bin/unshare --mount /bin/sh -c '${inside}' git "$@"\n`);
  const git = new Git({ places: [path], home: bench.git.home });
  const url = parseRepo(`work:${origin.slice(1)}`);
  const way = (SSH_AUTH_SOCK: string) => reach(url, { env: { HOME: home, SSH_AUTH_SOCK } }, "push");
  const places = (name: string) => ({ git_dir: `${root}/${name}/git`, work_tree: `${root}/${name}/work` });
  const stranger = stageRepository(git, { ...way(`${root}/none`), ...places("stranger") });
  assertEquals((await assertRejects(() => stranger, TaskdError)).code, "auth_failed");
  const staged = await stageRepository(git, { ...way(server.agent), ...places("task") });
  assertEquals(staged.base_branch, "main");
  await writeFiles(staged.work_tree, { "new.txt": "new\n" });
  const { tree } = await collectFacts(git, staged);
  const { git_dir, base_commit } = staged;
  const commit = await commitTree(git, { git_dir, tree, base_commit, message: "New\n", at_ms: 0 });
  const limits = { max_retries: 0, retry_backoff_ms: 0, fresh_branch_tries: 0 };
  const pushed = await pushCommit(git, {
    ...way(server.agent),
    ...limits,
    git_dir,
    commit,
    tree,
    base_commit,
    task_id: "t1",
  });
  assertEquals(pushed.branch, "agent/t1");
  assertEquals(await plainGit(origin, "rev-parse", "agent/t1"), commit);
});
