/**
 * The one table of names that deserve a second look: what a program reads or runs by itself, with the manual that says so.
 *
 * A line is `program | source | patterns`. Patterns are in lower case, whatever the case of a path: `name` is a file of
 * that name in any folder, `folder/` all below a folder of that name, `a/b` a path's end, a slash at the start the root;
 * `*` is any text without a slash. Too many flags cost attention, a missing one may cost more.
 */

/** Categories of flags that go by names. */
export type WatchedCategory = keyof typeof TABLE;

export interface WatchedName {
  category: WatchedCategory;
  /** What reads or runs it. */
  program: string;
  /** Address of the manual or list that says so, without its scheme. */
  source: string;
  pattern: string;
}

const TABLE = {
  submodule: `
git | git-scm.com/docs/gitmodules | .gitmodules`,
  ci_files: `
GitHub Actions | docs.github.com/actions/reference | /.github/workflows/ /.github/actions/ action.yml action.yaml /.github/scripts/
GitLab CI | docs.gitlab.com/ci/yaml | .gitlab-ci*.yml .gitlab-ci*.yaml /.gitlab/ .gitlab-ci/
Forgejo, Gitea | forgejo.org/docs/latest/user/actions | /.forgejo/ /.gitea/
CircleCI | circleci.com/docs/configuration-reference | .circleci/ circle.yml
Buildkite | buildkite.com/docs/pipelines | .buildkite/ buildkite.yml buildkite.yaml buildkite.json
Drone | docs.drone.io/pipeline | .drone.yml .drone.yaml .drone.jsonnet .drone.star
Woodpecker | woodpecker-ci.org/docs/usage | .woodpecker/ .woodpecker.yml .woodpecker.yaml
Travis CI | docs.travis-ci.com | .travis.yml .travis.yaml
Jenkins | jenkins.io/doc/book/pipeline/jenkinsfile | jenkinsfile* *.jenkinsfile
Azure Pipelines | learn.microsoft.com/azure/devops/pipelines | azure-pipelines*.yml azure-pipelines*.yaml .azure-pipelines/ .azuredevops/ .vsts-ci.yml .pipelines/ azure-pipelines/
Bitbucket | support.atlassian.com/bitbucket-cloud/docs/bitbucket-pipelines-configuration-reference | bitbucket-pipelines.yml bitbucket-pipelines.yaml
AppVeyor | appveyor.com/docs/appveyor-yml | appveyor.yml appveyor.yaml .appveyor.yml .appveyor.yaml .appveyor/
Cloud Build | cloud.google.com/build/docs/build-config-file-schema | cloudbuild*.yml cloudbuild*.yaml cloudbuild*.json
AWS CodeBuild | docs.aws.amazon.com/codebuild/latest/userguide/build-spec-ref.html | buildspec*.yml buildspec*.yaml
Cirrus CI | cirrus-ci.org/guide/writing-tasks | .cirrus.yml .cirrus.yaml .cirrus.star
Semaphore | docs.semaphore.io/reference/pipeline-yaml | .semaphore/
Codefresh | codefresh.io/docs/docs/pipelines | codefresh.yml .codefresh/
TeamCity | jetbrains.com/help/teamcity/kotlin-dsl.html | .teamcity/
SourceHut | man.sr.ht/builds.sr.ht | .build.yml .builds/
Tekton | tekton.dev/docs | .tekton/
Prow | docs.prow.k8s.io | .prow.yaml .prow/
Zuul | zuul-ci.org/docs | zuul.yaml .zuul.yaml zuul.d/ .zuul.d/
Taskcluster | docs.taskcluster.net | .taskcluster.yml taskcluster/
Bitrise, Codemagic, Xcode Cloud | devcenter.bitrise.io | bitrise.yml codemagic.yaml ci_scripts/
OneDev, Vela, GoCD, Screwdriver, Harness | docs.onedev.io | .onedev-buildspec.yml .vela.yml *.gocd.yaml screwdriver.yaml .harness/ .jenkins/ buddy.yml .buddy/ .kokoro/ .expeditor/ .scrutinizer.yml .hound.yml .styleci.yml .restyled.yaml
Earthly, Dagger, Concourse, Wercker | docs.earthly.dev | earthfile dagger.json dagger.cue wercker.yml shippable.yml
Read the Docs | docs.readthedocs.com/platform/stable/config-file | .readthedocs.yml .readthedocs.yaml readthedocs.yml
Packit, garnix, Evergreen | packit.dev/docs/configuration | .packit.yaml .packit.yml packit.yaml garnix.yaml evergreen.yml .fmf/ .copr/ .obs/ .testing-farm.yaml .bazelci/ .aspect/ .s2i/ atlantis.yaml qodana.yaml
Danger | danger.systems/guides/dangerfile.html | dangerfile dangerfile.*
this and others | github.com/github-linguist/linguist/blob/main/lib/linguist/vendor.yml | /.ci/ /ci/`,
  deployment: `
Terraform, OpenTofu | developer.hashicorp.com/terraform/language/files | *.tf *.tf.json *.tofu *.tfvars.json .terraformrc terraform.rc *.hcl *.tofu.json cdktf.json
Pulumi, CDK, SAM, Serverless | pulumi.com/docs/iac/concepts/projects | pulumi.yaml pulumi.*.yaml pulumi.yml cdk.json samconfig.toml template.yaml serverless.yml serverless.yaml serverless.ts serverless.js serverless.json *.bicep azure.yaml *.nomad template.yml copilot/manifest.yml dockerrun.aws.json apprunner.yaml
Helm, Kustomize, Skaffold | helm.sh/docs/topics/charts | chart.yaml values.yaml values.*.yaml values-*.yaml kustomization.yaml kustomization.yml skaffold.yaml helmfile.yaml helmfile.yml .argocd-source.yaml k8s/ kubernetes/ helm/ charts/ chart.yml skaffold.yml skaffold-*.yaml kustomize/ argocd/ flux-system/ werf.yaml okteto.yml porter.yaml /deploy/*.sh /deploy/*.yml /deploy/*.yaml /deployment/ /deployments/ /manifests/
Ansible, Puppet, Salt, Chef | docs.ansible.com/ansible/latest/reference_appendices/config.html | ansible.cfg playbook*.yml playbook*.yaml site.yml puppetfile berksfile .kitchen.yml
Netlify, Vercel, Cloudflare | docs.netlify.com/build/configure-builds/file-based-configuration | netlify.toml netlify/functions/ _redirects _headers vercel.json vercel.ts now.json wrangler.toml wrangler.json wrangler.jsonc .netlify/ .vercel/ _worker.js _routes.json host.json function.json .deployment *.pubxml
Heroku, Render, Railway, Fly, Nixpacks | devcenter.heroku.com/articles/procfile | procfile procfile.* heroku.yml app.json render.yaml railway.json railway.toml fly.toml fly.*.toml nixpacks.toml railpack.json aptfile runtime.txt .buildpacks .profile.d/ captain-definition
App Engine, Firebase | firebase.google.com/docs/cli | app.yaml cron.yaml firebase.json .firebaserc firestore.rules storage.rules database.rules.json
Beanstalk, CodeDeploy, Amplify | docs.aws.amazon.com/elasticbeanstalk/latest/dg/ebextensions.html | .ebextensions/ .elasticbeanstalk/ .platform/ appspec.yml appspec.yaml amplify.yml
DigitalOcean, Upsun, Scalingo | docs.digitalocean.com/products/app-platform/reference/app-spec | .do/ .platform.app.yaml .upsun/ scalingo.json
Kamal, Capistrano, Fastlane, Deployer | kamal-deploy.org/docs/configuration | config/deploy.yml config/deploy.*.yml config/deploy.rb config/deploy/ .kamal/ capfile fastfile fastlane/ deployfile deploy.php
GitHub Pages | docs.github.com/pages | cname _config.yml _plugins/ .well-known/
releases | goreleaser.com/customization | .goreleaser.yml .goreleaser.yaml goreleaser.yml .releaserc* release-please-config.json .changeset/ .release-it.* semantic-release.* dist-workspace.toml release.toml .ko.yaml .cz.* .bumpversion.cfg .bumpversion.toml cog.toml
web servers | httpd.apache.org/docs/current/howto/htaccess.html | .htaccess .user.ini web.config nginx.conf caddyfile httpd.conf apache2.conf haproxy.cfg supervisord.conf uwsgi.ini gunicorn.conf.py passenger_wsgi.py
systemd, cron | man7.org/linux/man-pages/man5/systemd.service.5.html | *.service *.timer *.socket crontab crontab.* cron.d/ *.path *.mount *.automount *.nspawn *.container *.kube rules.d/ profile.d/ init.d/ sudoers sudoers.d/ tmpfiles.d/ ld.so.preload launchagents/ launchdaemons/
packages of systems | debian.org/doc/debian-policy | /debian/ pkgbuild apkbuild *.spec snapcraft.yaml *.install *.nuspec *.wxs *.iss *.ebuild`,
  review_rules: `
code owners | docs.github.com/repositories/managing-your-repositorys-settings-and-features/customizing-your-repository/about-code-owners | codeowners owners owners_aliases maintainers .asf.yaml allowed_signers cosign.pub
bots of code hosts | docs.github.com/code-security/reference/supply-chain-security/dependabot-options-reference | /.github/*.yml /.github/*.yaml /.github/*.json /.github/*.json5 /.github/*.toml .mergify.yml .mergify/ .kodiak.toml bors.toml .policy.yml .bulldozer.yml .pullapprove.yml project.config /.github/rulesets/ .dependabot/ .pyup.yml .whitesource
Renovate | docs.renovatebot.com/configuration-options | renovate.json renovate.json5 .renovaterc .renovaterc.*
review by models | docs.coderabbit.ai | .coderabbit.yaml .coderabbit.yml .pr_agent.toml greptile.json ellipsis.yaml
what scanners leave out | docs.github.com/code-security/reference/code-scanning | /.github/codeql/ .snyk .trivyignore .trivyignore.* trivy.yaml .gitleaks.toml .gitleaksignore .semgrepignore .semgrep.yml .semgrep/ .bandit .checkov.yaml .checkov.yml .hadolint.yaml .hadolint.yml .gitguardian.yaml .gitguardian.yml .secrets.baseline .talismanrc .grype.yaml osv-scanner.toml .nsprc audit-ci.json* deny.toml .grype.yml .gitallowed .trufflehog* dependency-check-suppression*.xml .safety-policy.yml *brakeman.ignore .bundler-audit.yml codeql-config.yml .codeqlmanifest.json .ort.yml .fossa.yml supply-chain/
coverage and quality gates | docs.codecov.com/docs/codecov-yaml | codecov.yml .codecov.yml codecov.yaml .codeclimate.yml .codacy.yml sonar-project.properties .deepsource.toml .sonarcloud.properties .sonarlint/`,
  git_settings: `
git | git-scm.com/docs/gitattributes | .gitattributes .gitignore .gitconfig .tgitconfig config.worktree .mailmap .git-blame-ignore-revs .gitmessage .gitreview .git-crypt/
git-lfs | github.com/git-lfs/git-lfs/blob/main/docs/man/git-lfs-config.adoc | .lfsconfig
search tools | github.com/BurntSushi/ripgrep/blob/master/GUIDE.md | .ignore .rgignore .agignore .fdignore`,
  runs_on_open: `
git hooks | git-scm.com/docs/githooks | .husky/ .githooks/ .git-hooks/ githooks/ git-hooks/ .hooks/ lefthook.* .lefthook.* .lefthook/ lefthook-local.* .overcommit.yml captainhook.json .simple-git-hooks.* simple-git-hooks.* grumphp.yml .cargo-husky/ hk.pkl
pre-commit | pre-commit.com | .pre-commit-config.yaml .pre-commit-hooks.yaml .pre-commit-config.yml prek.toml
dev containers | containers.dev/implementors/spec | .devcontainer/ .devcontainer.json devcontainer.json
VS Code | code.visualstudio.com/docs/editing/workspaces/workspace-trust | .vscode/ *.code-workspace .vscode-test.*
JetBrains | jetbrains.com/help/idea/project-security.html | .idea/ .run/ .fleet/ *.iml *.ipr *.iws
Zed, Helix, Nova, Sublime, Atom | zed.dev/docs/configuring-zed | .zed/ .helix/ .nova/ *.sublime-project *.sublime-workspace .atom/ .theia/ .lapce/ .kateproject *.sublime-build .obsidian/ .sourcekit-lsp/ project.godot
Vim | vimhelp.org/starting.txt.html | .exrc .vimrc _vimrc .gvimrc .nvimrc .nvim.lua .lvimrc .vim/ .nvim/ .vimspector.json .lazy.lua .neoconf.json .ycm_extra_conf.py
Emacs | gnu.org/software/emacs/manual/html_node/emacs/Directory-Variables.html | .dir-locals.el .dir-locals-2.el .emacs _emacs .emacs.d/ .projectile
Eclipse, NetBeans, Visual Studio | help.eclipse.org | .project .classpath .cproject .settings/ .externaltoolbuilders/ .factorypath nbproject/ .vs/ *.suo *.*proj.user launchsettings.json .vsconfig omnisharp.json
direnv and kin | direnv.net/man/direnv.1.html | .envrc .autoenv .autoenv.zsh .env.zsh .env.fish .in.env .out.env
mise, asdf | mise.jdx.dev/configuration.html | mise.toml mise.*.toml .mise.toml .mise.*.toml .mise/ mise/ .config/mise/ .config/mise.toml .tool-versions .rtx.toml
devbox, devenv, Gitpod, Replit, IDX | gitpod.io/docs | devbox.json devenv.nix devenv.yaml .gitpod.yml .gitpod.dockerfile .replit replit.nix .stackblitzrc .codesandbox/ .idx/ devfile.yaml .devfile.yaml .devenv.* .ddev/ .lando.yml .lando.*.yml .docksal/ guix.scm manifest.scm channels.scm
shells | gnu.org/software/bash/manual/html_node/Bash-Startup-Files.html | .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .cshrc .inputrc config.fish profile.ps1 .tmux.conf .xinitrc .xsession
debuggers and prompts of languages | sourceware.org/gdb/current/onlinedocs/gdb.html/Startup.html | .gdbinit .gdbearlyinit .lldbinit .pdbrc .pryrc .irbrc .byebugrc .rdbgrc .psysh.php .iex.exs .ghci .ocamlinit .rprofile .renviron .octaverc .radare2rc .pdbrc.py .perldb hie.yaml .hie-bios .merlin .lsp/ .clj-kondo/ .solargraph.yml .yardopts
Python at its start | docs.python.org/3/library/site.html | sitecustomize.py usercustomize.py *.pth *._pth pyvenv.cfg ipython_config.py .ipython/ jupyter_*_config.* .jupyter/
pytest | docs.pytest.org/en/stable/reference/fixtures.html | conftest.py
desktops | specifications.freedesktop.org/desktop-entry-spec | *.desktop autorun.inf desktop.ini *.lnk *.scf *.url *.library-ms *.webloc *.command
jj, Mercurial, Sapling | jj-vcs.github.io/jj/latest/config | .hg/ .hgrc .jj/ .sl/ .svn/`,
  agent_instructions: `
AGENTS.md | agents.md | agents.md agents.*.md agent.md .agents/ agents skill.md *.prompt.md *.instructions.md *.chatmode.md *.agent.md .agent/ .rules context.md
Claude Code | code.claude.com/docs/en/memory | claude.md claude.local.md claude .claude/ .claude.json .claudeignore .claude-plugin/ claude_desktop_config.json .lsp.json .worktreeinclude hooks/hooks.json
Codex | developers.openai.com/codex | .codex/ codex.md
Gemini CLI | geminicli.com/docs | gemini.md gemini .gemini/ .geminiignore gemini-extension.json .gemini-extension-install.json
Copilot | docs.github.com/copilot/reference | copilot-instructions.md /.github/instructions/ /.github/prompts/ /.github/chatmodes/ /.github/agents/ /.github/skills/ /.github/hooks/ /.github/copilot/ .copilotignore .copilot/
Cursor | cursor.com/docs/context/rules | .cursorrules .cursor/ .cursorignore .cursorindexingignore bugbot.md .cursor-plugin/
Windsurf | docs.windsurf.com/windsurf/cascade/memories | .windsurfrules .windsurf/ .codeiumignore
Cline, Roo, Kilo | docs.cline.bot/features/cline-rules | .clinerules .clinerules/ .clineignore .cline/ .roo/ .roorules* .roomodes .rooignore .kilocode/ .kilocoderules* .kilocodemodes .kilocodeignore .kilo/
Aider | aider.chat/docs/config/aider_conf.html | .aider* conventions.md
Continue | docs.continue.dev/reference | .continue/ .continuerc.json .continuerules .continueignore
OpenCode, Crush, Goose, Amp | opencode.ai/docs/config | opencode.json opencode.jsonc .opencode/ crush.json .crush.json crush.md .crush/ .goosehints .gooseignore .goose/ .amp/ .goosehints.local
Amazon Q, Kiro | docs.aws.amazon.com/amazonq/latest/qdeveloper-ug | .amazonq/ .kiro/
Junie, AI Assistant | jetbrains.com/help/junie | .junie/ .aiassistant/ .aiignore .noai
Augment, Qwen, Trae, Warp, Factory, OpenHands | docs.augmentcode.com | .augment/ .augment-guidelines .augmentignore qwen.md .qwen/ .trae/ warp.md .factory/ .openhands/ .devin/ .grok/ .tabnine/ .cody/ replit.md airules.md .openhands_instructions .ruler/ .rulesync/ .specify/ sweep.yaml .warp/ rulesync.*json* .rulesyncignore firebender.json gptme.toml ruler.toml .antigravity/ .junie-extension/ reasonix.md .voidrules
agents that skills are made for | github.com/vercel-labs/skills | .adal/ .aider-desk/ .autohand/ .bob/ .codearts*/ .codebuddy/ codebuddy.md .codemaker/ .codestudio/ .commandcode/ .hermes/ .iflow/ iflow.md .kimi-code/ .kode/ .mcpjam/ .mux/ .neovate/ .pi/ .pochi/ .qoder/ .reasonix/ .rovodev/ .takt/ .vibe/ .zencoder/ append_system.md /skills/
MCP | modelcontextprotocol.io | mcp.json .mcp.json mcp.yaml .mcp.yaml .mcp/ mcp_config.json smithery.yaml`,
  build_scripts: `
Make | gnu.org/software/make/manual | makefile makefile.* gnumakefile bsdmakefile *.mk *.mak kbuild mkfile
containers | docs.docker.com/reference | dockerfile dockerfile.* dockerfile-* *.dockerfile containerfile containerfile.* docker-compose*.yml docker-compose*.yaml compose*.yml compose*.yaml docker-bake.* .dockerignore docker-entrypoint.sh singularity devspace.yaml *.containerfile
task runners | just.systems/man/en | justfile .justfile *.just taskfile*.yml taskfile*.yaml jakefile* cakefile magefile.go makefile.toml nukefile .moon/ tasks.py dodo.py noxfile.py tox.ini fabfile.py pavement.py invoke.yaml bb.edn mprocs.yaml tox.toml site_scons/ dvc.yaml mlproject _quarto.yml book.toml mkdocs.yml conf.py treefmt.toml .trunk/ .lintrunner.toml .mega-linter.yml .reviewdog.yml build.sh build.bat make.bat bootstrap.sh
Gradle | docs.gradle.org/current/userguide/gradle_wrapper.html | gradlew gradlew.bat *.gradle gradle.properties gradle/wrapper/ buildsrc/ build-logic/ init.gradle gradle-daemon-jvm.properties *.kts
Maven, Ant | maven.apache.org/tools/wrapper | mvnw mvnw.cmd .mvn/ build.xml ant.xml ivysettings.xml meta-inf/services/ spring.factories jbang-catalog.json
Bazel, Buck, Pants, Please | bazel.build/run/bazelrc | build build.bazel workspace workspace.bazel workspace.bzlmod *.bzl .bazelrc *.bazelrc .bazelversion .bazeliskrc tools/bazel buck .buckconfig pants.toml .plzconfig
CMake, Meson, autotools and kin | cmake.org/cmake/help/latest | cmakelists.txt *.cmake cmakepresets.json cmakeuserpresets.json meson.build meson_options.txt meson.options sconstruct sconscript wscript waf configure *.m4 makefile.in autogen.sh bootstrap premake5.lua xmake.lua *.gn *.gni .gn tupfile *.pro *.pri build.ninja compile_commands.json configure.* *.ac *.am install-sh ltmain.sh libtool depcomp compile missing test-driver config.rpath *.qbs fpm.toml
Rust, Zig, Nim, D | doc.rust-lang.org/cargo/reference/build-scripts.html | build.rs build.zig *.nimble cross.toml .config/nextest.toml bacon.toml clippy.toml .clippy.toml *.nims dylint.toml trunk.toml dioxus.toml buf.gen*.yaml sqlc.yaml sqlc.yml sqlc.json wails.json foundry.toml anchor.toml
sbt, Mill, Leiningen | scala-sbt.org/1.x/docs | project/*.sbt project/*.scala project/build.properties .sbtopts .jvmopts build.sc build.mill mill millw project.clj build.boot profiles.clj shadow-cljs.edn activator activator.bat build.mill.yaml
.NET | learn.microsoft.com/visualstudio/msbuild/customize-by-directory | directory.build.* directory.solution.* *.targets *.props *.proj *.rsp *.sln *.slnx build.cake *.cake build.fsx build.ps1 build.cmd .config/dotnet-tools.json *.runsettings *.shproj *.projitems *.tt *.csx dotnet-tools.json dotnet-install.* .paket/ *.uproject *.uplugin *.build.cs *.target.cs
Xcode | developer.apple.com/documentation/xcode | *.pbxproj *.xcconfig *.xcscheme project.yml tuist/ project.swift .swiftpm/ .xcode.env *.xctestplan
node-gyp | github.com/nodejs/node-gyp | binding.gyp *.gyp *.gypi
Yarn | yarnpkg.com/configuration/yarnrc | .yarn/ .pnp.cjs .pnp.js .pnp.loader.mjs
JavaScript tools | github.com/cosmiconfig/cosmiconfig | .config/ .*rc gruntfile.* gulpfile.* webpackfile.* brunch-config.* ember-cli-build.js eslint-local-rules.js eslint-local-rules/ .eslintplugin.js nodemon.json biome.json biome.jsonc tslint.json *.config.*js *.config.*ts *.config.jsx *.config.tsx *.config.json *.conf.*js *.conf.*ts *.conf.json *.conf.py .*rc.* webpack.*.js webpack.*.ts config-overrides.js gatsby-*.js gatsby-*.ts .eleventy.* .markdownlint-cli2.* .size-limit.* .dependency-cruiser.* .xo-config.* dprint.json .dprint.json rome.json knip.* plopfile.* codegen.* *.prisma knexfile.* ormconfig.* truffle-config.js pm2.* .angular-cli.json .meteor/ testem.* .testem.* patches/*.patch
JavaScript workspaces | nx.dev/reference/nx-json | nx.json project.json workspace.json angular.json turbo.json turbo.jsonc lerna.json rush.json lage.json tsconfig*.json jsconfig.json app.config.* .storybook/ .parcelrc electron-builder.*
JavaScript test runners | jestjs.io/docs/configuration | jest.setup.* jest-setup.* setup-jest.* setuptests.* vitest.setup.* vitest.workspace.* vitest.global* mocha.opts cypress.json cypress/support/ cypress/plugins/ global-setup.* global-teardown.* wdio.* jasmine.* wallaby.js
Python | setuptools.pypa.io/en/latest | setup.py setup.cfg manage.py hatch_build.py build.py pylintrc .pylintrc .flake8 mypy.ini .mypy.ini .coveragerc .isort.cfg ruff.toml .ruff.toml pytest.ini .pytest.ini pytest.toml pyrightconfig.json buildout.cfg snakefile .flaskenv manifest.in pdm_build.py .pre-commit.py .ansible-lint .gitlint
Ruby | docs.rubocop.org/rubocop/extensions.html | rakefile *.rake guardfile thorfile .rspec .bundle/ config.ru appraisals steepfile .simplecov spec_helper.rb rails_helper.rb test_helper.rb cucumber.yml buildfile .rubocop*.yml extconf.rb rubygems_plugin.rb sorbet/config .standard.yml .erb_lint.yml .erb-lint.yml
PHP | docs.phpunit.de/en/11.5/configuration.html | phpunit.xml* .php-cs-fixer* .php_cs* phpstan*.neon* psalm.xml* rector.php ecs.php castor.php robofile.php phing.xml phakefile php.ini .phan/ infection.json* codeception.yml behat.yml* phpcs.xml* .phpcs.xml* pint.json
Go | golangci-lint.run/docs/configuration | .golangci.* .golangci-lint.* go.env .air.toml air.toml .custom-gcl.yml
Elixir, Erlang | hexdocs.pm/mix/mix.tasks.format.html | .formatter.exs .credo.exs config/*.exs rebar.config.script emakefile rebar rebar3 vm.args
Perl, Lua, R, Julia, Haskell, OCaml | metacpan.org/pod/distribution/ExtUtils-MakeMaker | makefile.pl build.pl .proverc .perlcriticrc .perltidyrc .luacheckrc .busted deps/build.jl setup.hs dune .latexmkrc latexmkrc setup.lhs dune-workspace dist.ini _targets.r
other linters | detekt.dev/docs/introduction/configurations | .swiftlint.yml detekt.yml .scalafix.conf .scalafmt.conf analysis_options.yaml build.yaml .tflint.hcl .clang-tidy .clang-format .clangd checkstyle.xml lombok.config .stylelintignore .eslintignore .prettierignore .editorconfig .npmignore .vercelignore hook/build.dart hook/link.dart dart_test.yaml melos.yaml
virtual machines | developer.hashicorp.com/vagrant/docs/vagrantfile | vagrantfile tiltfile garden.yml brewfile user-data cloud-init.*`,
  dependency_manifest: `
npm, pnpm, Bun, Deno | docs.npmjs.com/cli/configuring-npm/package-json | package.json package.json5 package.yaml .npmrc .yarnrc .yarnrc.yml pnpm-workspace.yaml .pnpmfile.cjs .pnpmfile.mjs .pnpmfile.js bunfig.toml bower.json deno.json deno.jsonc jsr.json import_map.json importmap.json common/config/rush/ vlt.json
Python | packaging.python.org | requirements*.txt requirements*.in *-requirements.txt *.requirements.txt requirements/*.txt requirements/*.in constraints*.txt pyproject.toml setup.cfg pipfile environment.yml environment.yaml pip.conf uv.toml pdm.toml poetry.toml pixi.toml hatch.toml
Cargo | doc.rust-lang.org/cargo/reference/config.html | cargo.toml .cargo/ rust-toolchain rust-toolchain.toml
Go | go.dev/ref/mod | go.mod go.work vendor/modules.txt gopkg.toml glide.yaml
Ruby, PHP | bundler.io/man/gemfile.5.html | gemfile gemfile.* gems.rb *.gemspec composer.json symfony.json
JVM | maven.apache.org/pom.html | pom.xml libs.versions.toml *.versions.toml gradle-wrapper.properties ivy.xml deps.edn mavenfile jitpack.yml *.sbt
NuGet | learn.microsoft.com/nuget/reference | nuget.config directory.packages.props packages.config paket.dependencies paket.references global.json *.*proj
Elixir, Erlang, Gleam | hexdocs.pm/mix | mix.exs rebar.config gleam.toml
Dart, Swift | dart.dev/tools/pub/pubspec | pubspec.yaml pubspec_overrides.yaml package.swift podfile *.podspec cartfile cartfile.private package@swift-*.swift mintfile packages/manifest.json
C and C++ | docs.conan.io/2/reference | conanfile.txt conanfile.py vcpkg.json vcpkg-configuration.json *.wrap
Nix, Bazel, Helm | nix.dev/manual/nix/latest | flake.nix default.nix shell.nix module.bazel *.module.bazel requirements.yaml deps .gclient
others | docs.github.com/code-security/reference/supply-chain-security/dependabot-options-reference | stack.yaml *.cabal cabal.project cabal.config elm.json project.toml description shard.yml cpanfile *.rockspec *.opam dune-project build.zig.zon dub.json dub.sdl requirements.yml galaxy.yml kcl.mod buildozer.spec remappings.txt alire.toml jsonnetfile.json cue.mod/ spack.yaml
versions of tools | github.com/nvm-sh/nvm | .nvmrc .node-version .python-version .ruby-version .java-version .go-version .terraform-version .sdkmanrc .xcode-version .swift-version`,
  lockfile: `
JavaScript | docs.npmjs.com/cli/configuring-npm/package-lock-json | package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml shrinkwrap.yaml bun.lock bun.lockb deno.lock vlt-lock.json
Python | packaging.python.org/en/latest/specifications/pylock-toml | poetry.lock pipfile.lock uv.lock pdm.lock pixi.lock conda-lock.yml conda-lock.yaml pylock.toml pylock.*.toml requirements*.lock
Go, Cargo | go.dev/ref/mod | cargo.lock go.sum go.work.sum gopkg.lock glide.lock
Ruby, PHP | getcomposer.org/doc | gemfile.lock gems.locked *.gemfile.lock composer.lock symfony.lock
JVM, NuGet | docs.gradle.org/current/userguide/dependency_verification.html | gradle.lockfile *.lockfile gradle/verification-metadata.xml maven_install.json packages.lock.json paket.lock project.assets.json
Elixir, Dart, Swift, C++ | hexdocs.pm/mix | mix.lock rebar.lock pubspec.lock package.resolved podfile.lock cartfile.resolved conan.lock
others | github.com/github-linguist/linguist/blob/main/lib/linguist/generated.rb | flake.lock npins/ devenv.lock devbox.lock stack.yaml.lock cabal.project.freeze module.bazel.lock chart.lock requirements.lock renv.lock shard.lock cpanfile.snapshot luarocks.lock .terraform.lock.hcl mise.lock dub.selections.json kcl.mod.lock esy.lock/ mise.*.lock *manifest*.toml *.esy.lock devcontainer-lock.json .devcontainer-lock.json jsonnetfile.lock.json _esy/ rulesync*.lock`,
  vendored: `
hidden in diffs by GitHub | github.com/github-linguist/linguist/blob/main/lib/linguist/vendor.yml | node_modules/ vendor/ vendors/ third_party/ third-party/ 3rdparty/ thirdparty/ bower_components/ godeps/ carthage/ pods/ extern/ external/ externals/ dist/ /deps/ *.min.js *.min.css *-min.js *-min.css jquery*.js config.guess config.sub /dependencies/ site-packages/ *.dist-info/ venv/ .venv/ virtualenv/ cpplint.py
generated | github.com/github-linguist/linguist/blob/main/lib/linguist/generated.rb | *.js.map *.css.map *.pb.go *.pb.cc *.pb.h *_pb2.py *_pb.js *.designer.cs *.g.dart *.generated.* __generated__/ zz_generated.* *.designer.vb *.feature.cs *_tlb.pas *.zep.c *.zep.h *.zep.php .pnp.* cargo.toml.orig htmlcov/ .sqlx/ *.nib *.xcworkspacedata *.xcuserstate`,
  credentials: `
dotenv | dotenvx.com/docs | .env .env.* *.env .env-* .env_* .envs/ .dev.vars .dev.vars.* .rbenv-vars
ssh, PGP | man.openbsd.org/ssh | id_*_sk .ssh/ authorized_keys known_hosts .gnupg/ *.ppk *.asc *.gpg secring.* *_rsa *_dsa *_ecdsa *_ed25519 ssh_host_* deploy_key .authinfo otr.private_key
keys and certificates | github.com/gitleaks/gitleaks/blob/master/config/gitleaks.toml | *.pem *.key *.p8 *.p12 *.pfx *.jks *.keystore *.pvk *.snk *.jwk *.agekey *.mobileprovision *.ovpn *.kdbx *.kdb *.rdp .sops.yaml *.pkcs12 *.keychain *.keychain-db *.agilekeychain *.psafe3 *.kwallet *.bek *.fve *.tpm *.cscfg *.tblk *.keytab *.jceks *.bks *.truststore *.crt *.cer *.der *.mobileconfig keypair keyring
git, curl, packages | git-scm.com/docs/git-credential-store | .netrc _netrc .git-credentials .pypirc auth.json .gem/ .m2/settings.xml .cargo/credentials .cargo/credentials.toml .config/gh/ hub
databases | postgresql.org/docs/current/libpq-pgpass.html | .pgpass .my.cnf .mylogin.cnf .htpasswd .dbshell .snowsql/ .databrickscfg profiles.yml database.yml mongoid.yml .dbeaver-data-sources.xml dbeaver-data-sources.xml *.sqldump sqldump robomongo.json
clouds | docs.aws.amazon.com/cli/latest/userguide/cli-configure-files.html | .aws/ .azure/ .config/gcloud/ .boto .s3cfg .rclone.conf rclone.conf credentials credentials.json credentials.csv application_default_credentials.json service-account*.json service_account*.json client_secret*.json google-services.json googleservice-info.plist local.settings.json *.publishsettings .oci/ .doctl/ .credentials serviceaccount*.json *-firebase-adminsdk-*.json rootkey.csv *accesskeys.csv credentials.xml heroku.json .tugboat knife.rb .chef/
containers, clusters | kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig | .docker/ .dockercfg .dockerconfigjson .kube/ kubeconfig *.kubeconfig kubeconfig.* k3s.yaml talosconfig
infrastructure | developer.hashicorp.com/terraform/language/state/sensitive-data | *.tfstate *.tfstate.* *.tfvars .vault-token .vault_pass* vault_pass* *.vault credentials.tfrc.json
applications | guides.rubyonrails.org/security.html | secrets.env secrets.enc.* *.secret secrets/ master.key *.yml.enc token.json tokens.json wp-config.php localsettings.php .streamlit/secrets.toml appsettings.*.json .erlang.cookie *secret.yml *secret.yaml *secret.json *secrets.yml *secrets.yaml *secrets.json *secrets.toml .secrets .secrets.* .secrets/ *.token local_settings.py settings.local.py config.inc.php secret_token.rb local.properties keystore.properties key.properties signing.properties http-client*.env.json passwords.txt etc/passwd etc/shadow proftpdpasswd cookies.txt *.har *.pcap *.pcapng
editors that upload | github.com/Natizyskunk/vscode-sftp | sftp-config.json sftp.json .ftpconfig .remote-sync.json filezilla.xml recentservers.xml deployment-config.json .idea/webservers.xml .mozilla/ logins.json
histories | gnu.org/software/bash/manual/html_node/Bash-History-Facilities.html | .bash_history .zsh_history .python_history .node_repl_history .psql_history .mysql_history .sqlite_history .rhistory .irb_history`,
} as const;

/** Examples without secrets. */
const EXEMPT = /(?:^|\/)[^/]*\.(?:example|sample|template|dist)$|(?:^|\/)(?:example|sample|template)\.env$/;

/** All patterns, in the order of the table. */
export const WATCHED_NAMES: readonly WatchedName[] = Object.entries(TABLE).flatMap(([category, text]) =>
  text.trim().split("\n").flatMap((line) => {
    const [program = "", source = "", patterns = ""] = line.split(" | ");
    return patterns.split(" ").map((pattern): WatchedName => ({
      category: category as WatchedCategory,
      program,
      source,
      pattern,
    }));
  })
);

const by_name = new Map<string, WatchedName[]>();
const by_folder = new Map<string, WatchedName[]>();
/** Patterns with a star or a slash, each category's as one expression, and one by one to tell which it was. */
const by_path = new Map<WatchedCategory, { any: RegExp; each: [RegExp, WatchedName][] }>();

for (const entry of WATCHED_NAMES) {
  const { pattern, category } = entry;
  if (!/[*/]/.test(pattern)) listOf(by_name, pattern).push(entry);
  else if (/^[^*/]+\/$/.test(pattern)) listOf(by_folder, pattern.slice(0, -1)).push(entry);
  else {
    const expressions = by_path.get(category) ?? { any: /^/, each: [] };
    expressions.each.push([new RegExp(expressionOf(pattern)), entry]);
    by_path.set(category, expressions);
  }
}
for (const expressions of by_path.values()) {
  expressions.any = new RegExp(expressions.each.map(([{ source }]) => source).join("|"));
}

function listOf(map: Map<string, WatchedName[]>, key: string): WatchedName[] {
  const list = map.get(key) ?? [];
  map.set(key, list);
  return list;
}

function expressionOf(pattern: string): string {
  const text = pattern.replace(/^\//, "").replace(/[.+?^${}()|[\]\\]/g, "\\$&").replaceAll("*", "[^/]*");
  return `${pattern.startsWith("/") ? "^" : "(?:^|/)"}${text}${pattern.endsWith("/") ? "" : "$"}`;
}

/** Whether a name is usual for secrets. */
export function isCredentials(path: string): boolean {
  return watchedNames(path).some(({ category }) => category === "credentials");
}

/** What reads or runs a file of this path: the first of each category. */
export function watchedNames(path: string): WatchedName[] {
  const lower = path.toLowerCase();
  const parts = lower.split("/");
  const found = new Map<WatchedCategory, WatchedName>();
  const add = (entry: WatchedName) => {
    if (!found.has(entry.category)) found.set(entry.category, entry);
  };
  by_name.get(parts.at(-1)!)?.forEach(add);
  for (const part of parts.slice(0, -1)) by_folder.get(part)?.forEach(add);
  for (const [category, { any, each }] of by_path) {
    if (!found.has(category) && any.test(lower)) add(each.find(([expression]) => expression.test(lower))![1]);
  }
  if (EXEMPT.test(lower)) found.delete("credentials");
  return [...found.values()];
}
