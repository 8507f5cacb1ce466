/**
 * What a careful reviewer needs to see: one table of categories, and the rules by which a change falls into one.
 *
 * Each category that occurs has to be acknowledged for an approval. Rules on names go by the base name or the whole
 * path, in lower case, wherever in the repository: too many flags cost attention, a missing one may cost more.
 */

import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { FileChange } from "./file_change.ts";
import { EXECUTABLE, GITLINK, SYMLINK } from "./file_modes.ts";

export const FLAG_CATEGORIES = {
  nested_git: "a repository inside the work tree, or a name that some system reads as .git; left out of the change",
  submodule: "a submodule, or the list of them",
  symlink: "a symbolic link",
  special_file: "a pipe, socket or device; left out of the change",
  hard_link: "a file that has another name as well",
  executable_bit: "a file became executable",
  odd_name: "a name with control characters, direction marks, backslashes or broken UTF-8",
  case_collision: "names that differ in case alone",
  unscanned: "a directory that could not be looked into",
  ci_files: "what the code host runs",
  review_rules: "who has to review, and what the code host may do by itself",
  git_settings: "attributes and ignore lists of git",
  runs_on_open: "what editors, shells and hooks run by themselves",
  agent_instructions: "what agents are told, or which tools they get",
  build_scripts: "what build tools and containers run",
  dependency_manifest: "which dependencies are asked for, and what package managers run",
  lockfile: "which dependencies are installed",
  credentials: "a name that is usual for secrets",
  binary: "content that a diff does not show",
  large_file: "a file of 5 MiB or more",
  deleted_tests: "a test was deleted",
} as const;

export type FlagCategory = keyof typeof FLAG_CATEGORIES;

/** One reason for a second look. */
export interface Flag {
  category: FlagCategory;
  /** As in {@linkcode FileChange.path}. */
  path: string;
  /** More on it, safe to show: where a link leads, for example. */
  detail?: string;
}

/** Bytes from which on a file is large: what code hosts begin to warn about, and no source has. */
const LARGE_FILE_BYTES = 5 << 20;

const TEST =
  /(?:^|\/)(?:tests?|__tests__|spec|specs|testdata)\/|[._-](?:test|spec)\.[a-z0-9]+$|(?:^|\/)test_[^/]*\.py$|_test\.go$/;

/** Categories by path, in lower case. */
const BY_PATH: readonly (readonly [FlagCategory, RegExp])[] = [
  ["submodule", /(?:^|\/)\.gitmodules$/],
  [
    "ci_files",
    /^\.github\/(?:workflows|actions)\/|(?:^|\/)action\.ya?ml$|(?:^|\/)\.gitlab-ci[^/]*\.ya?ml$|^\.gitlab\/|^\.circleci\/|^\.buildkite\/|^\.drone\.ya?ml$|^\.travis\.ya?ml$|^\.woodpecker(?:\/|\.ya?ml$)|^\.(?:forgejo|gitea)\/workflows\/|(?:^|\/)jenkinsfile[^/]*$|^azure-pipelines[^/]*\.ya?ml$|^\.azure-pipelines\/|^bitbucket-pipelines\.ya?ml$|^appveyor\.ya?ml$|^\.appveyor\.ya?ml$|^cloudbuild\.ya?ml$|^\.cirrus\.ya?ml$|^\.semaphore\/|^buildspec\.ya?ml$|^\.ci\//,
  ],
  [
    "review_rules",
    /(?:^|\/)codeowners$|^\.github\/(?:dependabot|renovate|settings|auto_assign|mergify)[^/]*$|^\.mergify\.ya?ml$|(?:^|\/)renovate\.json5?$|^\.renovaterc/,
  ],
  ["git_settings", /(?:^|\/)\.(?:gitattributes|gitignore|lfsconfig|mailmap|git-blame-ignore-revs)$/],
  [
    "runs_on_open",
    /(?:^|\/)\.(?:husky|githooks|devcontainer|vscode|idea|zed|fleet)\/|(?:^|\/)\.devcontainer\.json$|(?:^|\/)\.(?:envrc|autoenv|autoenv\.zsh|pre-commit-config\.yaml|pre-commit-hooks\.yaml|lefthook[^/]*|nvimrc|exrc|vimrc|lvimrc|gdbinit|lldbinit|bashrc|profile|zshrc|tool-versions|mise\.toml)$|(?:^|\/)(?:lefthook\.ya?ml|mise\.toml|\.dir-locals\.el|sitecustomize\.py|conftest\.py)$|\.code-workspace$|(?:^|\/)[^/]*\.pth$/,
  ],
  [
    "agent_instructions",
    /(?:^|\/)(?:claude|agents|gemini|copilot-instructions|\.cursorrules|\.windsurfrules|\.clinerules)(?:\.local)?(?:\.md)?$|(?:^|\/)\.(?:claude|cursor|codex|gemini|windsurf|opencode|aider[^/]*|mcp)(?:\/|\.json$|\.ya?ml$)|(?:^|\/)\.?mcp\.json$|^\.github\/(?:instructions|prompts|chatmodes)\//,
  ],
  [
    "build_scripts",
    /(?:^|\/)(?:(?:gnu)?makefile|[^/]*\.mk|dockerfile[^/]*|[^/]*\.dockerfile|containerfile[^/]*|docker-compose[^/]*\.ya?ml|compose\.ya?ml|justfile|taskfile\.ya?ml|rakefile|gruntfile\.[cm]?js|gulpfile\.[cm]?[jt]s|build\.rs|build\.gradle(?:\.kts)?|settings\.gradle(?:\.kts)?|cmakelists\.txt|meson\.build|sconstruct|configure|configure\.ac|setup\.py|vagrantfile|procfile|tiltfile|build(?:\.bazel)?|workspace(?:\.bazel)?|[^/]*\.bzl|(?:vite|webpack|rollup|jest|vitest|babel|eslint|postcss|next|nuxt|svelte|tailwind|playwright)\.config\.[cm]?[jt]s)$/,
  ],
  [
    "dependency_manifest",
    /(?:^|\/)(?:package\.json|\.npmrc|\.yarnrc(?:\.yml)?|pnpm-workspace\.yaml|\.pnpmfile\.cjs|bunfig\.toml|deno\.jsonc?|import_map\.json|requirements[^/]*\.(?:txt|in)|pyproject\.toml|setup\.cfg|pipfile|environment\.ya?ml|pip\.conf|cargo\.toml|go\.mod|go\.work|gemfile|[^/]*\.gemspec|composer\.json|pom\.xml|libs\.versions\.toml|gradle-wrapper\.properties|[^/]*\.csproj|nuget\.config|directory\.packages\.props|packages\.config|mix\.exs|rebar\.config|pubspec\.yaml|package\.swift|podfile|cartfile|conanfile\.(?:txt|py)|vcpkg\.json|flake\.nix|stack\.yaml|[^/]*\.cabal|build\.sbt|elm\.json|module\.bazel)$|(?:^|\/)requirements\/[^/]*\.txt$|(?:^|\/)\.cargo\/config(?:\.toml)?$/,
  ],
  [
    "lockfile",
    /(?:^|\/)(?:package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?|deno\.lock|poetry\.lock|pipfile\.lock|uv\.lock|pdm\.lock|conda-lock\.ya?ml|cargo\.lock|go\.sum|go\.work\.sum|gemfile\.lock|composer\.lock|gradle\.lockfile|packages\.lock\.json|mix\.lock|pubspec\.lock|package\.resolved|podfile\.lock|cartfile\.resolved|conan\.lock|flake\.lock|stack\.yaml\.lock|module\.bazel\.lock)$/,
  ],
  [
    "credentials",
    /(?:^|\/)(?:\.env(?:\.(?!example$|sample$|template$)[^/]*)?|id_(?:rsa|dsa|ecdsa|ed25519)|\.netrc|_netrc|\.git-credentials|\.htpasswd|\.pgpass|credentials(?:\.json)?|service-account[^/]*\.json|secrets?\.(?:ya?ml|json|toml)|[^/]*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk))$|(?:^|\/)\.(?:ssh|aws|gnupg|docker|kube)\//,
  ],
];

/** What is known of a change beyond its {@linkcode FileChange}. */
export interface ChangeDetails {
  size?: number;
  link_target?: string;
  /** Names of the file on disk. */
  links?: number;
  /** Another path that differs in case alone. */
  twin?: string;
}

const ODD =
  // deno-lint-ignore no-control-regex
  /[\u0000-\u001f\u007f-\u009f\\\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufffd]|(?:^|\/)\s|\s(?:\/|$)/;

export function flagsOf(change: FileChange, details: ChangeDetails): Flag[] {
  const { path, mode_before, mode_after, status } = change;
  const flags: Flag[] = [];
  const flag = (category: FlagCategory, detail?: string) => {
    if (flags.some((known) => known.category === category)) return;
    flags.push({ category, path, ...detail === undefined ? {} : { detail: sanitizeLine(detail) } });
  };
  const lower = path.toLowerCase();
  if (mode_before === GITLINK || mode_after === GITLINK) flag("submodule");
  if (mode_after === SYMLINK) flag("symlink", linkDetail(path, details.link_target));
  if (mode_after === EXECUTABLE && mode_before !== EXECUTABLE) flag("executable_bit");
  if ((details.links ?? 1) > 1) flag("hard_link", `${details.links} names`);
  if (ODD.test(path)) flag("odd_name");
  if (details.twin !== undefined) flag("case_collision", details.twin);
  for (const [category, pattern] of BY_PATH) if (pattern.test(lower)) flag(category);
  if (change.binary) flag("binary");
  if ((details.size ?? 0) >= LARGE_FILE_BYTES) flag("large_file", `${details.size} bytes`);
  if (status === "deleted" && TEST.test(lower)) flag("deleted_tests");
  return flags;
}

function linkDetail(path: string, target: string | undefined): string | undefined {
  if (target === undefined) return undefined;
  const shown = target.length > 200 ? `${target.slice(0, 200)}...` : target;
  return leavesTree(path, target) ? `to ${shown}, outside of the repository` : `to ${shown}`;
}

function leavesTree(path: string, target: string): boolean {
  if (target.startsWith("/")) return true;
  let depth = path.split("/").length - 1;
  for (const part of target.split("/")) {
    if (part === "..") depth--;
    else if (part !== "." && part !== "") depth++;
    if (depth < 0) return true;
  }
  return false;
}
