import { assert, assertEquals } from "@std/assert";
import { walk } from "@std/fs/walk";
import { WATCHED_NAMES, type WatchedCategory, watchedNames } from "./watched_names.ts";

function categories(path: string): string[] {
  return watchedNames(path).map(({ category }) => category);
}

Deno.test("every entry of the table has a source, and finds what it names", () => {
  const seen = new Set<string>();
  for (const { category, program, source, pattern } of WATCHED_NAMES) {
    const entry = `${category} ${program} ${pattern}`;
    assert(/^[a-z0-9.-]+\.[a-z]+(?:\/[\w./-]+)?$/i.test(source), `${entry}: ${source}`);
    assert(program !== "" && pattern === pattern.toLowerCase() && !pattern.includes("|"), entry);
    assert(!seen.has(`${category} ${pattern}`), `${entry} is there twice`);
    seen.add(`${category} ${pattern}`);
    const path = `${pattern.replace(/^\//, "").replaceAll("*", "x")}${pattern.endsWith("/") ? "in/file" : ""}`;
    assert(categories(path).includes(category) || category === "credentials" && path === ".env.example", entry);
    assert(pattern.startsWith("/") || categories(`Sub/${path.toUpperCase()}`).includes(category), entry);
  }
});

Deno.test("what builds, linters, agents, editors, CI and deployment run is found wherever it lies", () => {
  const table: Record<WatchedCategory, string> = {
    submodule: ".gitmodules",
    ci_files: ".github/workflows/a.yml .gitlab/ci/x.yml .buildkite/pipeline.yml Jenkinsfile .drone.yml cloudbuild.yaml \
.tekton/push.yaml .woodpecker/a.yml bitrise.yml Earthfile .zuul.yaml Dangerfile .github/scripts/a.sh atlantis.yaml .kokoro/x.cfg .readthedocs.yaml .forgejo/workflows/a.yml",
    deployment:
      "main.tf vercel.json netlify.toml fly.toml Procfile wrangler.jsonc k8s/app.yaml Chart.yaml serverless.yml \
config/deploy.yml root.hcl x.container .well-known/assetlinks.json a/template.yml fastlane/Fastfile app.yaml firebase.json .htaccess x.service .goreleaser.yaml firestore.rules ansible.cfg",
    review_rules:
      "docs/CODEOWNERS OWNERS .github/dependabot.yml .github/labeler.yml .mergify.yml renovate.json5 .trivyignore \
.gitleaks.toml codecov.yml .semgrepignore .coderabbit.yaml .github/codeql/config.yml .github/rulesets/main.json .asf.yaml config/brakeman.ignore supply-chain/audits.toml",
    git_settings: ".gitattributes a/.gitignore .lfsconfig .rgignore",
    runs_on_open:
      ".envrc .vscode/settings.json .idea/workspace.xml .devcontainer.json .husky/pre-push lefthook.yml .gdbinit \
.pdbrc .Rprofile .iex.exs .ghci .irbrc .nvim.lua .dir-locals.el .zed/tasks.json mise.local.toml .gitpod.yml prek.toml hk.pkl .lazy.lua x.suo Properties/launchSettings.json .ycm_extra_conf.py pyvenv.cfg \
python312._pth .obsidian/plugins/a/main.js hie.yaml x.pth \
conftest.py sitecustomize.py autorun.inf .run/x.run.xml .helix/languages.toml profile.ps1 .pre-commit-config.yaml",
    agent_instructions: "AGENTS.md agents.override.md CLAUDE.md .claude/settings.json GEMINI.md .codex/config.toml \
.github/copilot-instructions.md .github/hooks/x.json .cursor/rules/a.mdc .windsurfrules .clinerules/a.md .roo/rules/x \
.kiro/steering/a.md .junie/guidelines.md .aider.conf.yml .continue/config.yaml opencode.jsonc WARP.md .goosehints \
.mcp.json .lsp.json gemini-extension.json .cursor/BUGBOT.md .qoder/rules/a.md .codebuddy/x .pi/SYSTEM.md .vibe/hooks.toml \
.rovodev/config.yml .kilo/x skills/x/SKILL.md a.prompt.md .amazonq/rules/a.md QWEN.md .trae/rules/x .augment-guidelines CONVENTIONS.md",
    build_scripts:
      "gradlew mvnw.cmd .mvn/wrapper/maven-wrapper.jar gradle/wrapper/gradle-wrapper.jar .bazelrc binding.gyp \
.yarn/releases/yarn-4.cjs .yarn/plugins/x.cjs .pnp.cjs Directory.Build.props directory.build.rsp x.targets eslint.config.mjs \
.eslintrc.cjs .babelrc .mocharc.yml karma.conf.js vitest.workspace.ts .rubocop.yml phpstan.neon .golangci.yml .pylintrc \
tox.ini noxfile.py mkdocs.yml docs/conf.py extconf.rb rubygems_plugin.rb foundry.toml META-INF/services/a.B gatsby-node.js \
config-overrides.js a/install-sh configure.ac x.tt prisma/schema.prisma .luacheckrc .credo.exs config/runtime.exs CMakePresets.json x.pbxproj build.zig Makefile.toml \
docker-bake.hcl tasks.py buildSrc/src/x.kt project/plugins.sbt tsconfig.build.json nx.json .swiftlint.yml .rspec",
    dependency_manifest: "package.json .npmrc go.work .cargo/config.toml Gemfile build.sbt flake.nix global.json \
requirements-dev.txt x.csproj vcpkg.json rust-toolchain.toml Package@swift-5.9.swift x.vcxproj project/x.sbt .nvmrc Podfile deno.json pnpm-workspace.yaml",
    lockfile:
      "package-lock.json yarn.lock bun.lock pylock.dev.toml gradle/verification-metadata.xml .terraform.lock.hcl \
Chart.lock renv.lock flake.lock mise.lock JuliaManifest.toml Manifest-v1.11.toml devcontainer-lock.json uv.lock",
    vendored:
      "node_modules/a/index.js vendor/x.go third_party/x.c dist/app.js jquery-3.7.min.js api.pb.go a.js.map a_tlb.pas b.feature.cs htmlcov/a.html .sqlx/query-1.json .pnp.data.json Cargo.toml.orig lib/site-packages/a.py",
    credentials:
      ".env .env.production prod.env id_ed25519_sk .ssh/config x.pem app.p8 .pypirc terraform.tfstate x.tfvars \
client_secret_1.json .kube/config secrets.yaml config/master.key .vault_pass.txt .dev.vars deploy_rsa x.keytab serviceAccountKey.json key.properties .env-prod app-secret.yaml rootkey.csv \
.chef/a.pem x.psafe3 etc/shadow knife.rb a.har wp-config.php .bash_history known_hosts",
  };
  for (const [category, paths] of Object.entries(table)) {
    for (const path of paths.split(/\s+/)) assert(categories(path).includes(category), `${category}: ${path}`);
  }
});

Deno.test("names of ordinary source and examples are not watched", () => {
  const paths =
    "src/a.ts README.md lib/keys.go docs/deploy.md src/index.test.ts a/environment.rb make.ts src/config.ts \
lib/secrets.ts src/rc.ts src/arc.ts tools/release.sh .env.example prod.env.sample app/vendor.ts x/makefiles.md src/spec.ts \
docs/gradlew.md k8s.md deploy/deploy.go src/har.ts src/token.ts lib/crt.go src/secret.ts src/maintainers.ts src/skills/a.ts src/claude.ts agents.ts service.ts a.timer.ts ci.md src/lockfile.ts";
  for (const path of paths.split(/\s+/)) assertEquals(categories(path), [], path);
});

Deno.test("watchedNames() takes no long time for a path that is made to take long", () => {
  for (const path of ["a/".repeat(2_000), "-requirements.".repeat(300), ".rc".repeat(1_300), "*".repeat(4_000)]) {
    watchedNames(path);
  }
});

Deno.test("few of a project's own files are watched", async () => {
  const root = new URL("../../", import.meta.url).pathname;
  let files = 0;
  let watched = 0;
  for (const top of ["lib", "daemon", "cli", "broker", "docs", "tests"]) {
    for await (const { path } of walk(`${root}${top}`, { includeDirs: false })) {
      files++;
      if (watchedNames(path.slice(root.length)).length > 0) watched++;
    }
  }
  assert(files > 500 && watched * 20 < files, `${watched} of ${files}`);
});
