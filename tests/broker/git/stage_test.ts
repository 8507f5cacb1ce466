import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path/join";
import { Git } from "../../../broker/git/git.ts";
import { parseRepo } from "../../../broker/git/repo_url.ts";
import { stageRepository } from "../../../broker/git/staged_repository.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { GitBench, plainGit, writeFiles } from "./bench.ts";
import { serveGit } from "./git_server.ts";
import { writeProgram } from "../../support/programs.ts";
import { longTest } from "../../support/long.ts";

/** Runs `check` with the repository of a bench by its path, then by a server's address. */
async function byPathAndServer(bench: GitBench, check: (where: string) => Promise<void>): Promise<void> {
  await using server = await serveGit(bench.root);
  for (const origin of [bench.origin, `${server.origin}/acme/app.git`]) {
    bench.origin = origin;
    await check(origin);
  }
  assert(server.requests.length > 0, "the server was not asked");
}

Deno.test("the work tree has the commit's files and no .git; the git directory lies elsewhere", async () => {
  await using bench = await GitBench.start({
    files: { "a/b.txt": "b\n", "run.sh": "#!/bin/sh\n", "link@": "a/b.txt" },
  });
  const staged = await bench.stage();
  assertEquals([...Deno.readDirSync(staged.work_tree)].map(({ name }) => name).sort(), ["a", "link", "run.sh"]);
  assertEquals(await Deno.readTextFile(join(staged.work_tree, "a/b.txt")), "b\n");
  assertEquals(staged.base_branch, "main");
  assertEquals(staged.base_commit, await plainGit(bench.origin, "rev-parse", "main"));
});

Deno.test("a base may be a branch, a tag or a commit, and nothing that git reads otherwise", async () => {
  await using bench = await GitBench.start();
  const seed = join(bench.root, "seed");
  await writeFiles(seed, { "two.txt": "2\n" });
  await plainGit(seed, "checkout", "--quiet", "-b", "feature/x");
  await plainGit(seed, "add", "-A");
  await plainGit(seed, "commit", "--quiet", "-m", "two");
  await plainGit(seed, "tag", "-a", "v2", "-m", "v2");
  await plainGit(seed, "push", "--quiet", bench.origin, "feature/x", "v2");
  const commit = await plainGit(seed, "rev-parse", "feature/x");
  for (const base of ["feature/x", "v2", commit]) {
    const staged = await bench.stage(base);
    assertEquals([staged.base_commit, staged.base_branch], [commit, base === "feature/x" ? base : undefined]);
  }
  for (const base of ["--upload-pack=id", "-x", "main~1", "main:x", "../x", "a b", "refs/*", "x\n", "@{-1}", "HEAD^"]) {
    const error = await assertRejects(() => bench.stage(base), TaskdError);
    assertEquals(error.code, "invalid_request", base);
  }
  assertEquals((await assertRejects(() => bench.stage("none"), TaskdError)).code, "not_found");
});

Deno.test("nothing that a repository's attributes ask for happens at checkout", async () => {
  const files = {
    ".gitattributes": "* text eol=crlf ident filter=evil working-tree-encoding=UTF-16 export-ignore\n",
    "a.txt": "$Id$\nline\n",
  };
  await using bench = await GitBench.start();
  const seed = join(bench.root, "seed");
  await writeFiles(seed, files);
  // Past git's own conversions on the way in.
  for (const path of Object.keys(files)) {
    const oid = await plainGit(seed, "hash-object", "-w", "--no-filters", path);
    await plainGit(seed, "update-index", "--add", "--cacheinfo", `100644,${oid},${path}`);
  }
  await plainGit(seed, "commit", "--quiet", "-m", "attributes");
  await plainGit(seed, "push", "--quiet", bench.origin, "main");
  const { work_tree } = await bench.stage();
  for (const [path, content] of Object.entries(files)) {
    assertEquals(await Deno.readTextFile(join(work_tree, path)), content);
  }
});

Deno.test("a git directory inside the work tree, a used one, or a full work tree is refused", async () => {
  await using bench = await GitBench.start();
  const url = parseRepo(bench.origin);
  const stage = (git_dir: string, work_tree: string) => stageRepository(bench.git, { url, git_dir, work_tree });
  const { root } = bench;
  await assertRejects(() => stage(join(root, "w", "git"), join(root, "w")), TaskdError, "apart");
  await assertRejects(() => stage(join(root, "w"), join(root, "w", "x")), TaskdError, "apart");
  await writeFiles(root, { "full/x": "x" });
  await assertRejects(() => stage(join(root, "g"), join(root, "full")), TaskdError, "not empty");
  await writeFiles(root, { "old/config": "[core]\n" });
  await Deno.mkdir(join(root, "bare"));
  for (const there of ["old", "bare", "old/config", "full/x"]) {
    const error = await assertRejects(() => stage(join(root, there), join(root, "fresh")), TaskdError);
    assertEquals(error.code, "already_exists", there);
  }
  assertEquals(await Deno.readTextFile(join(root, "old/config")), "[core]\n");
  // A refusal leaves no git directory behind, so that the next try can succeed.
  await stage(join(root, "g"), join(root, "fresh"));
});

Deno.test("a missing, an empty and a broken repository get different codes", async () => {
  await using bench = await GitBench.start();
  const { root } = bench;
  const stage = (path: string) =>
    stageRepository(bench.git, { url: parseRepo(path), git_dir: `${path}.g`, work_tree: `${path}.w` });
  assertEquals((await assertRejects(() => stage(join(root, "none")), TaskdError)).code, "not_found");
  await plainGit(root, "init", "--quiet", "--bare", "empty");
  await assertRejects(() => stage(join(root, "empty")), TaskdError, "no commits");
  const seed = join(root, "seed");
  const entry = `100644 blob ${await plainGit(seed, "rev-parse", "HEAD:README.md")}\t.GIT\n`;
  await Deno.writeTextFile(join(root, "tree"), entry);
  const bad = await new Deno.Command("/bin/sh", {
    args: ["-c", "git mktree < ../tree"],
    cwd: seed,
  }).output();
  const tree = new TextDecoder().decode(bad.stdout).trim();
  const commit = await plainGit(seed, "commit-tree", tree, "-m", "bad");
  await plainGit(seed, "push", "--quiet", bench.origin, `${commit}:refs/heads/bad`);
  const error = await assertRejects(() => bench.stage("bad"), TaskdError);
  assertEquals(error.code, "corrupt");
  assert(error.message.includes("hasDotgit"), error.message);
});

Deno.test("hooks, monitors and configuration of the operator and of the repository run nothing", async () => {
  await using bench = await GitBench.start();
  const { root, origin } = bench;
  const mark = join(root, "ran");
  const script = join(root, "evil.sh");
  await writeProgram(script, `#!/bin/sh\ntouch ${mark}\n`);
  await writeFiles(root, { "home/.gitconfig": `[core]\nfsmonitor = ${script}\nhooksPath = ${root}/hooks\n` });
  for (const hook of ["post-checkout", "reference-transaction", "post-index-change"]) {
    await writeFiles(root, { [`hooks/${hook}`]: await Deno.readTextFile(script) });
    await Deno.chmod(join(root, "hooks", hook), 0o755);
  }
  const stage = `
    import { GitBench } from ${JSON.stringify(import.meta.resolve("./bench.ts"))};
    console.log((await GitBench.of(${JSON.stringify(root)}).stage()).base_branch);`;
  // The environment of this process is that of the tests beside this.
  const env = { GIT_CONFIG_COUNT: "1", GIT_CONFIG_KEY_0: "core.fsmonitor", GIT_CONFIG_VALUE_0: script };
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["eval", stage], env }).output();
  assertEquals(new TextDecoder().decode(stdout), "main\n");
  await assertRejects(() => Deno.stat(mark), Deno.errors.NotFound);
  assert((await Deno.stat(origin)).isDirectory);
});

Deno.test("a git that is older than the fixes that are relied on is refused by its version", async () => {
  await using bench = await GitBench.start();
  const path = join(bench.root, "old-git");
  for (const says of ["2.39.4", "2.39.5.windows.1", "2.40.0", "2.43.0", "3.0.rc1"]) {
    assertEquals(await versionOf(says), says);
  }
  for (const says of ["2.31.8", "2.39.3", "2.39", "2.4.50", "1.99.9", "x"]) {
    const { message, hint } = await assertRejects(() => versionOf(says), TaskdError, "too old");
    assert(message.includes(says) && hint === "Install git 2.39.4 or newer", `${message}: ${hint}`);
  }

  async function versionOf(says: string): Promise<string> {
    await writeProgram(path, `#!/bin/sh\necho git version ${says}\n`);
    return await new Git({ places: [path], home: bench.git.home }).version();
  }
});

longTest("a base is a branch, a tag, a full name, or a commit by its whole id or a beginning of it", async () => {
  await using bench = await GitBench.start({
    prepare: (work) => plainGit(work, "commit", "--quiet", "--allow-empty", "-m", "before"),
  });
  const { origin } = bench;
  const [tip, before] = [await plainGit(origin, "rev-parse", "main"), await plainGit(origin, "rev-parse", "main~1")];
  await plainGit(origin, "branch", "topic/a", before);
  await plainGit(origin, "tag", "v1", before);
  const table: [string | undefined, string, string | undefined][] = [
    [undefined, tip, "main"],
    ["main", tip, "main"],
    ["refs/heads/main", tip, "main"],
    ["topic/a", before, "topic/a"],
    ["refs/heads/topic/a", before, "topic/a"],
    ["refs/tags/v1", before, undefined],
    ["v1", before, undefined],
    [before, before, undefined],
    [before.slice(0, 7), before, undefined],
    [tip.slice(0, 12), tip, undefined],
  ];
  await byPathAndServer(bench, async (where) => {
    for (const [base, commit, branch] of table) {
      const staged = await bench.stage(base);
      assertEquals([staged.base_commit, staged.base_branch], [commit, branch], `${base} ${where}`);
    }
    for (const base of ["none", "refs/heads/none", "0".repeat(7), "refs/pull/1/head"]) {
      assertEquals((await assertRejects(() => bench.stage(base), TaskdError, JSON.stringify(base))).code, "not_found");
    }
  });
  assertEquals(Deno.readDirSync(bench.root).some(({ name }) => name.endsWith(".base")), false);
});

Deno.test("a HEAD that names a branch without commits: the message names the branches there are", async () => {
  await using bench = await GitBench.start();
  await plainGit(bench.origin, "branch", "dev", "main");
  await plainGit(bench.origin, "symbolic-ref", "HEAD", "refs/heads/trunk");
  await byPathAndServer(bench, async () => {
    const { message, hint } = await assertRejects(() => bench.stage(), TaskdError);
    assertEquals(message.slice(message.indexOf(": ") + 2), "its HEAD names a branch without commits; it has dev, main");
    assertEquals(hint, "Say which with --base, or set the default branch on the code host");
    assertEquals((await bench.stage("dev")).base_branch, "dev");
  });
});

Deno.test("files of LFS are staged as the pointers that git has, and submodules as empty folders", async () => {
  const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0".repeat(64) + "\nsize 12345\n";
  await using bench = await GitBench.start({
    files: { "big.bin": pointer, ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n" },
    prepare: async (work) => {
      const module = `[submodule "lib"]\n\tpath = lib\n\turl = https://example.com/o/lib\n`;
      await Deno.writeTextFile(join(work, ".gitmodules"), module);
      await Deno.mkdir(join(work, "lib"));
      await plainGit(work, "update-index", "--add", "--cacheinfo", `160000,${"1".repeat(40)},lib`);
    },
  });
  await byPathAndServer(bench, async () => {
    const { work_tree } = await bench.stage();
    assertEquals(await Deno.readTextFile(join(work_tree, "big.bin")), pointer);
    assertEquals(Deno.readDirSync(join(work_tree, "lib")).toArray(), []);
  });
});
