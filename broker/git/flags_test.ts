import { assert, assertEquals } from "@std/assert";
import type { FileChange } from "./file_change.ts";
import { type ChangeDetails, FLAG_CATEGORIES, type FlagCategory, flagsOf } from "./flags.ts";

function change(fields: Partial<FileChange>): FileChange {
  return {
    path: "src/a.ts",
    status: "modified",
    mode_before: "100644",
    mode_after: "100644",
    oid_before: "1",
    oid_after: "2",
    added: 1,
    deleted: 1,
    binary: false,
    ...fields,
  };
}

function categories(fields: Partial<FileChange>, details: ChangeDetails = {}): string[] {
  return flagsOf(change(fields), details).map(({ category }) => category);
}

Deno.test("plain source is not flagged", () => {
  for (
    const path of [
      "src/a.ts",
      "README.md",
      "docs/explanation/approval.md",
      "lib/keys.go",
      "a/environment.rb",
      "make.ts",
      "gitfoo",
    ]
  ) {
    assertEquals(categories({ path }), [], path);
  }
});

Deno.test("names are flagged wherever they lie and however they are cased", () => {
  const table: [FlagCategory, string[]][] = [
    ["ci_files", [
      ".github/workflows/x.yml",
      ".GitHub/Workflows/x.yml",
      ".gitlab-ci.yml",
      "sub/Jenkinsfile",
      ".ci/run",
    ]],
    ["ci_files", [".circleci/config.yml", "azure-pipelines.yml", ".forgejo/workflows/a.yaml", "x/action.yml"]],
    ["lockfile", ["package-lock.json", "a/b/yarn.lock", "deno.lock", "Cargo.lock", "go.sum", "uv.lock"]],
    ["dependency_manifest", [
      "package.json",
      ".npmrc",
      "go.mod",
      "requirements-dev.txt",
      "pyproject.toml",
      "deno.json",
    ]],
    ["build_scripts", ["Makefile", "x/Dockerfile.dev", "build.rs", "vite.config.ts", "setup.py"]],
    ["runs_on_open", [".envrc", ".vscode/tasks.json", ".husky/pre-commit", "conftest.py", "evil.pth"]],
    ["agent_instructions", ["CLAUDE.md", "sub/AGENTS.md", ".cursor/rules/x", ".mcp.json", ".claude/settings.json"]],
    ["review_rules", ["CODEOWNERS", ".github/CODEOWNERS", ".github/dependabot.yml", "renovate.json"]],
    ["credentials", [".env", ".env.production", "id_rsa", "certs/x.pem", ".aws/credentials", "secrets.yaml"]],
    ["git_settings", [".gitattributes", "a/.gitignore"]],
    ["submodule", [".gitmodules"]],
  ];
  for (const [category, paths] of table) {
    for (const path of paths) assert(categories({ path }).includes(category), `${category}: ${path}`);
  }
});

Deno.test("modes, sizes, links and names have their categories", () => {
  const link = { path: "a/b/link", mode_before: "000000", mode_after: "120000" };
  assertEquals(categories({ mode_after: "100755" }), ["executable_bit"]);
  assertEquals(categories({ mode_before: "100755", mode_after: "100755" }), []);
  assertEquals(categories({ mode_before: "100755" }), []);
  assertEquals(categories({ mode_before: "160000", mode_after: "000000" }), ["submodule"]);
  assertEquals(categories({ binary: true }, { after: { size: 5 << 20, head: "" }, links: 2, twin: "SRC/a.ts" }), [
    "hard_link",
    "case_collision",
    "binary",
    "large_file",
  ]);
  assertEquals(categories({ path: "a_test.ts", status: "deleted", mode_after: "000000" }), ["deleted_tests"]);
  assertEquals(categories({ path: "a_test.ts" }), []);
  const targets: [string, boolean][] = [
    ["../../c", false],
    ["../../../c", true],
    ["/etc/passwd", true],
    ["c/../../../../x", true],
    [".", false],
    ["../../x/../../../y", true],
  ];
  for (const [link_target, outside] of targets) {
    const [flag] = flagsOf(change(link), { after: { size: 1, head: link_target } });
    assertEquals(flag!.detail!.includes("outside of the repository"), outside, link_target);
  }
  assertEquals(flagsOf(change(link), { after: { size: 4, head: "\u001b[2J" } })[0]!.detail, "to \\x1b[2J");
});

Deno.test("a name that is not what it looks like is flagged with the reason", () => {
  for (const path of ["a\u3164", "\u00ad.ts", "x\u{e0101}.ts", "p\u0430ckage.ts", "\u0441\u043e\u0440\u0443.ts"]) {
    const [flag] = flagsOf(change({ path }), {});
    assertEquals(flag?.category, "odd_name", path);
    assert(/^(?:has U\+|mixes alphabets|could be read as copy\.ts)/.test(flag!.detail!), flag!.detail);
  }
});

Deno.test("every category describes what it warns of", () => {
  for (const [category, text] of Object.entries(FLAG_CATEGORIES)) assert(text.length > 10, category);
});
