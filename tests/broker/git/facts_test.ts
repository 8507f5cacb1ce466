import { assert, assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { join } from "@std/path/join";
import { collectFacts, type DiffFacts } from "../../../broker/git/diff_facts.ts";
import type { FlagCategory } from "../../../broker/git/flags.ts";
import { BIG_FILE_BYTES } from "../../../broker/git/file_change.ts";
import { evaluateDiffPolicy } from "../../../broker/git/diff_policy.ts";
import { cutFiles, humanDiff } from "../../../broker/git/human_diff.ts";
import { parseDiff } from "../../../broker/web/pages/diff.ts";
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
import { longTest, scaledTest, shortened } from "../../support/long.ts";

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

longTest("too many nested repositories are refused, and so is one that cannot be named", async () => {
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

Deno.test("a pipe where git reads a file is refused at once also below a name that is not UTF-8", async () => {
  await using bench = await GitBench.start();
  const staged = await bench.stage();
  await sh(staged.work_tree, "d=$(printf '\\377'); mkdir $d; mkfifo $d/.gitignore");
  await assertRejects(() => collectFacts(bench.git, staged), TaskdError, '"\ufffdff/.gitignore" is no file');
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
    assertEquals(facts.files.map(({ path }) => path).sort(), [...names, "d", "d\ufffdfe/f", "raw\ufffdff"].sort());
    assertEquals(facts.files.find(({ path }) => path.startsWith("raw"))!.path_hex, "726177ff");
    assertEquals(
      flagged(facts, "odd_name").sort(),
      ["\u001b[31mred\u001b[0m", "d\ufffdfe/f", "line\nbreak", "raw\ufffdff", "tab\t", "\u202egpj.exe"].sort(),
    );
    assertEquals(flagged(facts, "unscanned"), []);
    const listed = await bench.git.text(["ls-tree", "-r", "-z", "--name-only", facts.tree], {
      repository: { git_dir },
      attempted: "list",
      signal: undefined,
    });
    assert(listed.includes("line\nbreak\0"));
  });
});

Deno.test("a folder that another name is taken for flags what is changed in it", async () => {
  await factsOf({ files: { "src/a": "a\n", "lib/x": "x\n", "caf\u00e9/a": "a\n" } }, async (work) => {
    await writeFiles(work, { "SRC/b": "b\n", "LIB@": "src", "lib/y": "y\n", "cafe\u0301/b": "b\n", "other/c": "c\n" });
  }, (facts) => {
    const twins = facts.flags.filter(({ category }) => category === "case_collision");
    assertEquals(twins.map(({ path, detail }) => [path, detail]), [
      ["LIB", "lib"],
      ["SRC/b", "src"],
      ["cafe\u0301/b", "caf\u00e9"],
      ["lib/y", "LIB"],
    ]);
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

Deno.test("a link is flagged however it changes, with where it led and leads", async () => {
  const files = { "gone@": "a", "to_file@": "../../x", "moved@": "a", "same@": "a", "a": "a\n" };
  await factsOf({ files }, (work) => sh(work, "rm gone to_file moved; echo x > to_file; ln -s /etc moved"), (facts) => {
    assertEquals(facts.flags.map(({ category, path, detail }) => [category, path, detail]), [
      ["symlink", "gone", "was a link to a, is removed"],
      ["symlink", "moved", "to /etc, outside of the repository; was a link to a"],
      ["symlink", "to_file", "was a link to ../../x, outside of the repository, is a file now"],
    ]);
  });
});

Deno.test("a pointer of git-lfs is flagged when it comes, changes or goes, and a text about it is not", async () => {
  const pointer = (digit: string) =>
    `version https://git-lfs.github.com/spec/v1\noid sha256:${digit.repeat(64)}\nsize 7\n`;
  const files = { "new.bin": "x\n", "changed.bin": pointer("1"), "gone.bin": pointer("2"), "same": pointer("3") };
  await factsOf({ files }, async (work) => {
    await sh(work, "rm gone.bin");
    const long = `${pointer("5")}${"x".repeat(1_024)}`;
    await writeFiles(work, {
      "new.bin": pointer("1"),
      "changed.bin": pointer("4"),
      "about.txt": ` ${pointer("1")}`,
      long,
    });
  }, (facts) => {
    const oid = (digit: string) => `pointer sha256:${digit.repeat(64)}, 7 bytes`;
    assertEquals(facts.flags.map(({ category, path, detail }) => [category, path, detail]), [
      ["lfs_pointer", "changed.bin", `${oid("1")} -> ${oid("4")}`],
      ["lfs_pointer", "gone.bin", `${oid("2")} -> nothing`],
      ["lfs_pointer", "new.bin", `a file -> ${oid("1")}`],
    ]);
  });
});

Deno.test("a folder that git takes for a repository is flagged, whatever it is called", async () => {
  await factsOf({ files: { "docs/refs/a": "a\n", "docs/HEAD": "h\n" } }, async (work) => {
    await sh(
      work,
      "git init -q --bare store/x; echo '[core] fsmonitor=./evil' >> store/x/config; touch store/x/refs/.keep",
    );
    await writeFiles(work, {
      "tree/head": "ref: refs/heads/main\n",
      "tree/commondir": "../common\n",
      "none/HEAD": "x\n",
      "none/refs/x": "x\n",
    });
    await sh(work, "rm -f store/x/hooks/*; touch store/x/objects/info/.keep");
    // Git itself would run the settings of what is flagged, and nothing elsewhere.
    await sh(`${work}/store/x`, "[ $(git rev-parse --is-bare-repository) = true ]");
  }, (facts) => {
    const found = flagged(facts, "bare_repository");
    assert(found.includes("store/x/config") && found.includes("tree/commondir"), found.join(" "));
    assertEquals(found.filter((path) => !/^(?:store\/x|tree)\//.test(path)), []);
  });
});

Deno.test("binary and large files are named with kind, size and digest, and are part of the change", async () => {
  const png = new TextEncoder().encode(" PNG\r\n\0\0").with(0, 0x89);
  const digest = async (bytes: Uint8Array<ArrayBuffer>) =>
    `SHA-256 ${new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex()}`;
  const expected = [
    ["a.png", `PNG image, 8 B, ${await digest(png)}`],
    ["big", `unknown binary content, 5 MiB, ${await digest(new Uint8Array(5 << 20))}`],
    ["old.bin", `removed: unknown binary content, 3 B, ${await digest(new Uint8Array(3))}`],
  ];
  await factsOf({ files: { "old.bin": new Uint8Array(3) } }, async (work) => {
    await writeFiles(work, { "a.png": png });
    await sh(work, "rm old.bin; head -c 5242880 /dev/zero > big");
  }, (facts) => {
    const binary = facts.flags.filter(({ category }) => category === "binary");
    assertEquals(binary.map(({ path, detail }) => [path, detail]), expected);
    assertEquals(flagged(facts, "large_file"), ["big"]);
    assertEquals(facts.files.map(({ path }) => path), ["a.png", "big", "old.bin"]);
  });
});

Deno.test("renames and copies are found, and the facts go by both paths", async () => {
  const text = Array.from({ length: 40 }, (_, line) => `line ${line}\n`).join("");
  const other = text.replaceAll("line", "row");
  const files = { "old/a.ts": text, "b_test.ts": other, "kept": `${text}end\n`, "link@": "kept" };
  await factsOf({ files }, async (work) => {
    await sh(
      work,
      "mkdir new; mv old/a.ts 'new/\u00e4 a.ts'; mv b_test.ts gone.txt; mv link new/link; cp kept copy; echo more >> kept",
    );
    await sh(work, "sed -i 's/line 7$/line seven/' new/*a.ts");
  }, async (facts, bench, { git_dir }) => {
    const moves = facts.files.flatMap(({ path, from }) => from === undefined ? [] : [[path, from.kind, from.path]]);
    assertEquals(moves, [
      ["copy", "copied", "kept"],
      ["gone.txt", "renamed", "b_test.ts"],
      ["new/link", "renamed", "link"],
      ["new/\u00e4 a.ts", "renamed", "old/a.ts"],
    ]);
    assert(
      facts.files.some(({ path, status, deleted }) => path === "old/a.ts" && status === "deleted" && deleted === 40),
    );
    assertEquals(facts.files_changed, 8);
    const [deleted] = facts.flags.filter(({ category }) => category === "deleted_tests");
    assertEquals([deleted?.path, deleted?.detail], ["b_test.ts", "moved to gone.txt"]);
    const shown = await humanDiff(bench.git, { git_dir, before: facts.base_tree, after: facts.tree });
    const parsed = parseDiff(new TextDecoder().decode(shown.bytes));
    assertEquals(parsed.files.map(({ path, status, added }) => [path, status, added]), [
      ["copy", "copied", 0],
      ["gone.txt", "renamed", 0],
      ["kept", "modified", 1],
      ["new/link", "renamed", 0],
      ["new/\u00e4 a.ts", "renamed", 1],
    ]);
  });
});

Deno.test("what is moved or copied is checked by both paths, its modes and its content", async () => {
  const lines = (word: string) => Array.from({ length: 30 }, (_, at) => `${word} ${at}\n`).join("");
  const files = {
    ".env": lines("KEY=1"),
    "b.env": lines("KEY=2"),
    "hook": lines("run"),
    "tool": lines("do"),
    "same": "s\n",
  };
  await factsOf({ files }, async (work) => {
    await sh(
      work,
      `cp .env public.txt; mv b.env notes.txt; mkdir .husky; mv hook .husky/pre-commit; mv tool run; chmod +x run; \
sed -i 's/KEY=2 7$/other/' notes.txt; cp same copy; : >empty`,
    );
  }, (facts) => {
    const from = new Map(facts.files.map(({ path, from }) => [path, from && `${from.kind} ${from.path}`]));
    assertEquals(Object.fromEntries([...from].filter(([, origin]) => origin !== undefined)), {
      "copy": "copied same",
      "public.txt": "copied .env",
      "notes.txt": "renamed b.env",
      ".husky/pre-commit": "renamed hook",
      "run": "renamed tool",
    });
    const credentials = facts.flags.filter(({ category }) => category === "credentials");
    assertEquals(credentials.map(({ path, detail }) => [path, detail]), [
      ["b.env", "dotenv"],
      ["notes.txt", "renamed from b.env"],
      ["public.txt", "copied from .env"],
    ]);
    assertEquals(flagged(facts, "runs_on_open"), [".husky/pre-commit"]);
    assertEquals(flagged(facts, "executable_bit"), ["run"]);
    const policy = {
      max_files_changed: 8,
      max_lines_changed: 0,
      blocked_paths: ["*.env"],
      second_look_paths: ["tool"],
    };
    const { blocked, second_look } = evaluateDiffPolicy(policy, facts);
    assertEquals(blocked.map(({ rule }) => rule), ["max_files_changed", "blocked_paths"]);
    assertEquals(blocked[0]!.message.includes("renames and copies"), true, blocked[0]!.message);
    assert(second_look.some(({ category, paths }) => category === "path:tool" && paths[0] === "tool"));
  });
});

/** What ends a line for some programs, and for git none. */
const NO_LINE_ENDS = ["\r", "\u2028", "\u2029", "\x85", "\v", "\f"];

Deno.test("what a file's content says of files takes none of them from those beyond the shown diff", async () => {
  const forged = NO_LINE_ENDS.map((end) => `${end}diff --git a/x b/x`).join("") + "\n";
  await factsOf({ files: { "seed": "seed\n" } }, async (work) => {
    await writeFiles(work, { "a": forged.repeat(50), "b": "b\n".repeat(500), "z": "evil\n" });
  }, async (facts, bench, { git_dir }) => {
    const options = { git_dir, before: facts.base_tree, after: facts.tree };
    const text = new TextDecoder().decode((await humanDiff(bench.git, options)).bytes);
    const diff = await humanDiff(bench.git, { ...options, max_bytes: text.indexOf("+b\n") + 100 });
    assertEquals(cutFiles(facts.files, diff).map(({ path, detail }) => [path, detail]), [
      ["b", "its end"],
      ["z", "all of it"],
    ]);
  });
});

Deno.test("what lies beyond the end of the shown diff is flagged, file by file", async () => {
  const files = { "b": "b\n", "d": "d\n", "old": "o\n1\n2\n3\n" };
  await factsOf({ files }, async (work) => {
    await writeFiles(work, { "a": "a\n", "b": "B\n", "c": "c\n", "new": "o\n1\n2\n3\n" });
    await sh(work, "rm d old; ln -s a d");
  }, async (facts, bench, { git_dir }) => {
    const options = { git_dir, before: facts.base_tree, after: facts.tree };
    const whole = await humanDiff(bench.git, options);
    assertEquals(cutFiles(facts.files, whole), []);
    const listed = ["a", "b", "c", "d", "new"];
    const text = new TextDecoder().decode(whole.bytes);
    for (const { index } of [...text.matchAll(/^/gm)].slice(1, -1)) {
      const diff = await humanDiff(bench.git, { ...options, max_bytes: index });
      const cut = cutFiles(facts.files, diff).map(({ path }) => path);
      // Whole is what another file follows.
      const parsed = parseDiff(text.slice(0, index)).files.map(({ path }) => path);
      const shown = listed.filter((path) => parsed.slice(0, -1).includes(path) && parsed.at(-1) !== path);
      assertEquals(cut, listed.filter((path) => !shown.includes(path)), String(index));
    }
    const cut = cutFiles(facts.files, await humanDiff(bench.git, { ...options, max_bytes: text.indexOf("+B") }));
    assertEquals(cut.map(({ category, path, detail }) => [category, path, detail]), [
      ["cut_diff", "b", "its end"],
      ["cut_diff", "c", "all of it"],
      ["cut_diff", "d", "all of it"],
      ["cut_diff", "new", "all of it"],
    ]);
  });
});

longTest("every line of a file of 32 MiB counts as changed, and git does not compare it", async () => {
  const name = '!x# *[b]?\\ q"uo\nte\u00e4';
  const lines = "\n".repeat(BIG_FILE_BYTES);
  await using bench = await GitBench.start({ files: { "big": "x\n", "small*": "x\n" } });
  const staged = await bench.stage();
  await writeFiles(staged.work_tree, { "big": `${lines}END`, "small*": "y\n", "!x# x": "1\n", [name]: lines });
  const facts = await collectFacts(bench.git, staged);
  const counts = new Map(facts.files.map(({ path, added, deleted, binary }) => [path, [added, deleted, binary]]));
  assertEquals(counts.get("big"), [BIG_FILE_BYTES + 1, 1, true]);
  assertEquals(counts.get(name), [BIG_FILE_BYTES, 0, true]);
  assertEquals([counts.get("small*"), counts.get("!x# x")], [[1, 1, false], [1, 0, false]]);
  assertEquals(flagged(facts, "large_file"), [name, "big"]);
  const trees = { before: facts.base_tree, after: facts.tree };
  const { bytes } = await humanDiff(bench.git, { git_dir: staged.git_dir, ...trees });
  const shown = new TextDecoder().decode(bytes);
  assertEquals(shown.match(/^Binary files /gm)?.length, 2, shown.slice(0, 3_000));
});

Deno.test("a file beyond max_file_bytes is left out and flagged, and the rest of the change is whole", async () => {
  await using bench = await GitBench.start({ files: { "kept": "k\n", "gone": "g\n", ".gitignore": "ignored\n" } });
  const staged = await bench.stage();
  await writeFiles(staged.work_tree, { "a": "a\n" });
  // Files with holes: their apparent size is what git would read.
  await sh(
    staged.work_tree,
    "rm gone; truncate -s 1T core; truncate -s 1T kept; truncate -s 2T ignored; mkdir -p x/.git; truncate -s 1T x/y",
  );
  const facts = await collectFacts(bench.git, staged);
  assertEquals(summary(facts), ["added a +1 -0", "deleted gone +0 -1"]);
  assertEquals(facts.flags.map(({ category, path, detail }) => [category, path, detail]), [
    ["nested_git", "x/.git", undefined],
    ["left_out", "core", "1 TiB"],
    ["left_out", "kept", "1 TiB"],
    ["left_out", "x/y", "1 TiB"],
  ]);
  await sh(staged.work_tree, "rm core kept ignored; echo k > kept; truncate -s 300 .gitattributes");
  const small = { ...staged, max_file_bytes: 299 };
  await assertRejects(() => collectFacts(bench.git, small), TaskdError, "is a file of 300 B");
});

Deno.test("files that appear as over 2 GiB together are refused unread, whatever their names", async () => {
  await using bench = await GitBench.start({ files: { "kept": "k\n" } });
  for (const name of ["hole$i", "$(printf '\\351')$i"]) {
    const staged = await bench.stage();
    await sh(staged.work_tree, `for i in 1 2 3 4 5 6 7 8 9; do truncate -s 250M "${name}"; done`);
    await assertRejects(() => collectFacts(bench.git, staged), TaskdError, "more than 2 GiB of files are changed");
  }
});

scaledTest("the digest is the same for the same change, and another for any other", async () => {
  await using bench = await GitBench.start({ files: { "a": "a\n", "b": "b\n" } });
  const digest = async (files: Files, script = "true") => {
    const staged = await bench.stage();
    await writeFiles(staged.work_tree, files);
    await sh(staged.work_tree, script);
    const first = await collectFacts(bench.git, staged);
    assertEquals((await collectFacts(bench.git, staged)).change_sha256, first.change_sha256);
    return first.change_sha256;
  };
  const one = await digest({ "a": "1\n" });
  assertEquals(one, await digest({ "a": "1\n" }));
  const changes: [Files, string?][] = [
    [{ "a": "2\n" }],
    [{ "b": "1\n" }],
    [{ "a": "1\n" }, "chmod +x a"],
    [{ "a": "1\n" }, "chmod +x b"],
    [{ "a": "1\n", "c": "" }],
    [{}],
  ];
  const digests = new Set([one]);
  const tried = shortened(changes, 2);
  for (const change of tried) digests.add(await digest(...change));
  assertEquals(digests.size, 1 + tried.length);
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
