import { assert, assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { join } from "@std/path/join";
import { collectFacts, type DiffFacts } from "../../../broker/git/diff_facts.ts";
import type { FlagCategory } from "../../../broker/git/flags.ts";
import type { StagedRepository } from "../../../broker/git/staged_repository.ts";
import {
  DECEIVING_NAMES,
  DOT_GIT_SPELLINGS,
  HIDING_ATTRIBUTES,
  UNUSUAL_NAMES,
} from "../../../cli/redteam/inputs/git.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { type Files, GitBench, type GitBenchOptions, plainGit, writeFiles } from "./bench.ts";
import { writeProgram } from "../../support/programs.ts";

/** A staged task, changed by `change`, and its facts. */
async function factsOf(
  options: GitBenchOptions,
  change: (work_tree: string, staged: StagedRepository, bench: GitBench) => unknown,
  check: (facts: DiffFacts, bench: GitBench, staged: StagedRepository) => unknown,
): Promise<void> {
  await using bench = await GitBench.start(options);
  const staged = await bench.stage();
  await change(staged.work_tree, staged, bench);
  await check(await collectFacts(bench.git, staged), bench, staged);
}

/** `status path added deleted` of each change. */
function summary({ files }: DiffFacts): string[] {
  return files.map(({ status, path, added, deleted }) => `${status} ${path} +${added} -${deleted}`);
}

/** Paths of one category. */
function flagged({ flags }: DiffFacts, category: FlagCategory): string[] {
  return flags.filter((flag) => flag.category === category).map(({ path }) => path);
}

async function sh(cwd: string, script: string): Promise<void> {
  const { success, stderr } = await new Deno.Command("/bin/bash", {
    args: ["-euc", script],
    cwd,
    env: { GIT_AUTHOR_NAME: "a", GIT_AUTHOR_EMAIL: "a", GIT_COMMITTER_NAME: "a", GIT_COMMITTER_EMAIL: "a" },
  }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}

Deno.test("an untouched tree has no changes, also when every file was touched", async () => {
  await factsOf({ files: { "a.txt": "a\n", "b/c@": "../a.txt" } }, (work) => sh(work, "touch a.txt"), (facts) => {
    assertEquals(facts.files, []);
    assertEquals(facts.tree, facts.base_tree);
    assertEquals([facts.files_changed, facts.lines_changed, facts.flags], [0, 0, []]);
  });
});

Deno.test("additions, edits, deletions, type and mode changes are listed with their lines", async () => {
  const files = {
    "edit": "1\n2\n3\n",
    "gone": "x\n",
    "mode": "m\n",
    "to_link": "t\n",
    "to_dir": "d\n",
    "dir/x": "x\n",
  };
  await factsOf({ files }, async (work) => {
    await sh(work, "rm -r gone to_link to_dir dir; chmod +x mode; mkdir to_dir; ln -s edit to_link; ln -s / dir");
    await writeFiles(work, { "edit": "1\nTWO\n3\n4\n", "to_dir/in": "i\n", "new/deep/file": "n\n" });
  }, (facts) => {
    assertEquals(summary(facts), [
      "added dir +1 -0",
      "deleted dir/x +0 -1",
      "modified edit +2 -1",
      "deleted gone +0 -1",
      "modified mode +0 -0",
      "added new/deep/file +1 -0",
      "deleted to_dir +0 -1",
      "added to_dir/in +1 -0",
      "type_changed to_link +1 -1",
    ]);
    assertEquals([facts.files_changed, facts.lines_changed], [9, 11]);
    assertEquals(flagged(facts, "executable_bit"), ["mode"]);
    assertEquals(
      facts.flags.filter(({ category }) => category === "symlink").map(({ path, detail }) => [path, detail]),
      [
        ["dir", "to /, outside of the repository"],
        ["to_link", "to edit"],
      ],
    );
  });
});

// conformance: b2.diff_policy.host_side
Deno.test("no attribute of the tree hides a file, its lines or its bytes", async () => {
  await factsOf({ files: { "a.js": "1\n2\n", "win.txt": "a\r\nb\r\n" } }, (work) =>
    writeFiles(work, {
      ".gitattributes": HIDING_ATTRIBUTES,
      "sub/.gitattributes": "* -diff binary working-tree-encoding=UTF-16\n",
      "a.js": "1\n$Id$\n3\n",
      "sub/b.js": "x\r\ny\n",
    }), (facts) => {
    assertEquals(summary(facts), [
      "added .gitattributes +3 -0",
      "modified a.js +2 -1",
      "added sub/.gitattributes +1 -0",
      "added sub/b.js +2 -0",
    ]);
    assertEquals(flagged(facts, "git_settings"), [".gitattributes", "sub/.gitattributes"]);
    assertEquals(flagged(facts, "binary"), []);
  });
});

Deno.test("a NUL does not take a file's lines out of the count", async () => {
  await factsOf(
    { files: { "a.js": "1\n2\n3\n" } },
    (work) => writeFiles(work, { "a.js": "\0\n1\n2\n3\n4\n" }),
    (facts) => {
      assertEquals(summary(facts), ["modified a.js +2 -0"]);
      assertEquals(flagged(facts, "binary"), ["a.js"]);
    },
  );
});

Deno.test("nothing in the tree makes git run a program", async () => {
  await using bench = await GitBench.start({ files: { "a.txt": "a\n", "module/x": "x\n" } });
  const mark = join(bench.root, "ran");
  const evil = join(bench.root, "evil.sh");
  await writeProgram(evil, `#!/bin/sh\ntouch ${mark}\ncat\n`);
  const settings = `[core]\n\tfsmonitor = ${evil}\n\thooksPath = ${bench.root}\n\tsshCommand = ${evil}\n` +
    `[filter "evil"]\n\tclean = ${evil}\n\tprocess = ${evil}\n\trequired\n[diff]\n\texternal = ${evil}\n` +
    `[diff "evil"]\n\ttextconv = ${evil}\n\tcommand = ${evil}\n[include]\n\tpath = ${evil}\n`;
  const staged = await bench.stage();
  const work = staged.work_tree;
  await sh(work, "git init -q . ; git init -q module; cd module; git add x; git commit -qm x");
  for (const path of [".git/config", "module/.git/config"]) {
    await Deno.writeTextFile(join(work, path), settings, { append: true });
    for (const hook of ["pre-commit", "post-index-change", "reference-transaction", "fsmonitor-watchman"]) {
      const file = join(work, path, "../hooks", hook);
      await Deno.copyFile(evil, file);
    }
  }
  await writeFiles(work, { ".gitattributes": "* filter=evil diff=evil\n", "a.txt": "b\n", "module/x": "y\n" });
  const facts = await collectFacts(bench.git, staged);
  assertEquals(summary(facts), ["added .gitattributes +1 -0", "modified a.txt +1 -1", "modified module/x +1 -1"]);
  assertEquals(flagged(facts, "nested_git"), [".git", "module/.git"]);
  await assertRejects(() => Deno.stat(mark), Deno.errors.NotFound);
});

Deno.test("the files of nested repositories are part of the change, and no submodule is made of them", async () => {
  await factsOf({ files: { "was_file": "f\n" } }, async (work) => {
    await sh(
      work,
      "rm was_file; for d in was_file lib/one lib/one/two empty; do mkdir -p $d; git init -q $d; done;" +
        "for d in was_file lib/one lib/one/two; do echo x > $d/f; (cd $d; git add f; git commit -qm x); done",
    );
    await writeFiles(work, { "lib/fake/.git": "gitdir: /etc\n", "lib/fake/f": "f\n" });
  }, (facts) => {
    assertEquals(summary(facts), [
      "added lib/fake/f +1 -0",
      "added lib/one/f +1 -0",
      "added lib/one/two/f +1 -0",
      "deleted was_file +0 -1",
      "added was_file/f +1 -0",
    ]);
    assertEquals(flagged(facts, "nested_git"), [
      "empty/.git",
      "lib/fake/.git",
      "lib/one/.git",
      "lib/one/two/.git",
      "was_file/.git",
    ]);
  });
});

Deno.test("no spelling of .git gets into the tree, and each is flagged", async () => {
  const names = DOT_GIT_SPELLINGS;
  await factsOf({}, async (work) => {
    for (const [at, name] of names.entries()) {
      await writeFiles(work, { [`d${at}/${name}/hooks/pre-commit`]: "evil", [`d${at}/ok`]: "ok\n" });
    }
    await writeFiles(work, { "a\\.git\\config": "evil", "fine.git/x": "x\n", ".gitfoo": "x\n" });
  }, (facts) => {
    assertEquals(
      facts.files.map(({ path }) => path).sort(),
      [".gitfoo", ...names.map((_, at) => `d${at}/ok`), "fine.git/x"].sort(),
    );
    assertEquals(flagged(facts, "nested_git"), [...names.map((name, at) => `d${at}/${name}`), "a\\.git\\config"]);
  });
});

Deno.test("too many nested repositories are refused, and so is one that cannot be named", async () => {
  await using bench = await GitBench.start();
  const many = await bench.stage();
  await sh(many.work_tree, "git init -q 0; for n in $(seq 70); do cp -r 0 $n; done");
  assertEquals((await assertRejects(() => collectFacts(bench.git, many), TaskdError)).code, "invalid_request");
  const odd = await bench.stage();
  await sh(odd.work_tree, "d=$(printf '\\377'); git init -q $d; cd $d; echo x > f; git add f; git commit -qm x");
  const error = await assertRejects(() => collectFacts(bench.git, odd), TaskdError);
  assertEquals(error.code, "invalid_request");
});

Deno.test("submodules of the base stay as they are, whatever lies in their place's directory or list", async () => {
  const prepare = async (work: string) => {
    await plainGit(work, "add", "-A");
    const oid = "1".repeat(40);
    for (const path of ["mod/kept", "mod/removed", "mod/filled"]) {
      await plainGit(work, "update-index", "--add", "--cacheinfo", `160000,${oid},${path}`);
      await Deno.mkdir(join(work, path), { recursive: true });
      await plainGit(join(work, path), "init", "--quiet");
      await writeFiles(work, { [`${path}/f`]: "f\n" });
      await plainGit(join(work, path), "add", "f");
      await plainGit(join(work, path), "commit", "--quiet", "-m", "f");
    }
  };
  await factsOf({ files: { ".gitmodules": "[submodule]\n" }, prepare }, async (work) => {
    await sh(work, "rmdir mod/removed; cd mod/kept; git init -q; git commit -q --allow-empty -m x");
    await writeFiles(work, { "mod/filled/f": "f\n", ".gitmodules": "[submodule]\n\turl = ext::sh\n" });
  }, (facts) => {
    assertEquals(summary(facts), [
      "modified .gitmodules +1 -0",
      "deleted mod/filled +0 -1",
      "added mod/filled/f +1 -0",
    ]);
    assertEquals(flagged(facts, "submodule"), [".gitmodules", "mod/filled"]);
    assertEquals(flagged(facts, "nested_git"), ["mod/kept/.git"]);
  });
});

Deno.test("a link in place of .gitmodules is left out and flagged", async () => {
  await factsOf({ files: { ".gitmodules": "[submodule]\n" } }, async (work) => {
    await sh(work, "rm .gitmodules; ln -s /etc/passwd .gitmodules; mkdir d; ln -s x d/.gitmodules");
  }, (facts) => {
    assertEquals(summary(facts), []);
    assertEquals(flagged(facts, "nested_git"), [".gitmodules", "d/.gitmodules"]);
  });
});

Deno.test("pipes, sockets and devices are flagged and never opened, also in place of tracked files", async () => {
  await using bench = await GitBench.start({ files: { "tracked": "t\n", "keep": "k\n" } });
  const staged = await bench.stage();
  await sh(staged.work_tree, "rm tracked; mkfifo tracked fresh; mkdir d; mkfifo d/x; mkfifo .gitignored");
  using _socket = Deno.listen({ transport: "unix", path: join(staged.work_tree, "d/socket") });
  const facts = await collectFacts(bench.git, staged);
  assertEquals(summary(facts), ["deleted tracked +0 -1"]);
  assertEquals(flagged(facts, "special_file"), [".gitignored", "d/socket", "d/x", "fresh", "tracked"]);
});

Deno.test("a pipe where git reads a file is refused at once", async () => {
  for (const path of [".gitignore", "d/.gitattributes"]) {
    await using bench = await GitBench.start();
    const staged = await bench.stage();
    await sh(staged.work_tree, `mkdir d; mkfifo ${path}`);
    await assertRejects(() => collectFacts(bench.git, staged), TaskdError, `"${path}" is no file`);
  }
});

Deno.test("a pipe where no name can reach it runs into the deadline", async () => {
  await using bench = await GitBench.start();
  const staged = await bench.stage();
  await sh(staged.work_tree, "d=$(printf '\\377'); mkdir $d; mkfifo $d/.gitignore");
  const error = await assertRejects(() => collectFacts(bench.git, { ...staged, deadline_ms: 1_500 }), TaskdError);
  assertEquals(error.code, "timed_out");
});

Deno.test("names of any bytes are carried exactly, and flagged", async () => {
  const names = [...DECEIVING_NAMES, ...UNUSUAL_NAMES];
  await factsOf({}, async (work) => {
    for (const name of names) await writeFiles(work, { [name]: "x\n" });
    await sh(
      work,
      "echo x > $(printf 'raw\\377'); mkdir $(printf 'd\\376'); echo x > $(printf 'd\\376/f'); echo y > d",
    );
  }, async (facts, bench, { git_dir }) => {
    assertEquals(facts.files.map(({ path }) => path).sort(), [...names, "d", "d\ufffd/f", "raw\ufffd"].sort());
    assertEquals(facts.files.find(({ path }) => path.startsWith("raw"))!.path_hex, "726177ff");
    assertEquals(
      flagged(facts, "odd_name").sort(),
      ["\u001b[31mred\u001b[0m", "d\ufffd/f", "line\nbreak", "raw\ufffd", "tab\t", "\u202egpj.exe"].sort(),
    );
    assertEquals(flagged(facts, "unscanned"), ["d\ufffd"]);
    const listed = await bench.git.text(["ls-tree", "-r", "-z", "--name-only", facts.tree], {
      repository: { git_dir },
      attempted: "list",
    });
    assert(listed.includes("line\nbreak\0"));
  });
});

Deno.test("hard links, case twins, large files, secrets, CI and agents' files are flagged", async () => {
  await factsOf({ files: { "Readme.md": "r\n", "a_test.ts": "t\n" } }, async (work) => {
    await sh(
      work,
      "rm a_test.ts; head -c 5242880 /dev/zero > big; echo x > one; ln one two; echo '*.log' > .gitignore",
    );
    await writeFiles(work, {
      "README.md": "R\n",
      ".github/workflows/ci.yml": "on: push\n",
      "pkg/package.json": "{}\n",
      "pkg/package-lock.json": "{}\n",
      "CLAUDE.md": "do\n",
      ".vscode/tasks.json": "{}\n",
      "Dockerfile": "FROM x\n",
      ".github/CODEOWNERS": "* @x\n",
      ".env": "K=v\n",
      ".env.example": "K=\n",
      "x.log": "ignored\n",
    });
  }, (facts) => {
    const expected: [FlagCategory, string[]][] = [
      ["hard_link", ["one", "two"]],
      ["case_collision", ["README.md"]],
      ["large_file", ["big"]],
      ["binary", ["big"]],
      ["ci_files", [".github/workflows/ci.yml"]],
      ["dependency_manifest", ["pkg/package.json"]],
      ["lockfile", ["pkg/package-lock.json"]],
      ["agent_instructions", ["CLAUDE.md"]],
      ["runs_on_open", [".vscode/tasks.json"]],
      ["build_scripts", ["Dockerfile"]],
      ["review_rules", [".github/CODEOWNERS"]],
      ["credentials", [".env"]],
      ["git_settings", [".gitignore"]],
      ["deleted_tests", ["a_test.ts"]],
    ];
    for (const [category, paths] of expected) assertEquals(flagged(facts, category), paths, category);
    assert(!facts.files.some(({ path }) => path === "x.log"));
  });
});

Deno.test("the digest is the same for the same change, and another for any other", async () => {
  await using bench = await GitBench.start({ files: { "a": "a\n", "b": "b\n" } });
  const digest = async (files: Files, script = "true") => {
    const staged = await bench.stage();
    await writeFiles(staged.work_tree, files);
    await sh(staged.work_tree, script);
    const first = await collectFacts(bench.git, staged);
    assertEquals((await collectFacts(bench.git, staged)).diff_sha256, first.diff_sha256);
    return first.diff_sha256;
  };
  const one = await digest({ "a": "1\n" });
  assertEquals(one, await digest({ "a": "1\n" }));
  const others = [
    await digest({ "a": "2\n" }),
    await digest({ "b": "1\n" }),
    await digest({ "a": "1\n" }, "chmod +x a"),
    await digest({ "a": "1\n" }, "chmod +x b"),
    await digest({ "a": "1\n", "c": "" }),
    await digest({}),
  ];
  assertEquals(new Set([one, ...others]).size, 7);
  // The same tree over another base is another change.
  const seed = join(bench.root, "seed");
  await plainGit(seed, "commit", "--quiet", "--allow-empty", "-m", "again");
  await plainGit(seed, "push", "--quiet", bench.origin, "main");
  assertNotEquals(await digest({ "a": "1\n" }), one);
});

Deno.test("locks that a killed run left do not block the next", async () => {
  await using bench = await GitBench.start();
  const staged = await bench.stage();
  await writeFiles(staged.work_tree, { "new": "n\n" });
  await writeFiles(staged.git_dir, { "index.lock": "", "facts.index.lock": "", "facts.index": "half" });
  assertEquals(summary(await collectFacts(bench.git, staged)), ["added new +1 -0"]);
});
