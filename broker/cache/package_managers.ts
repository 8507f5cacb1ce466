/**
 * The package managers that the dependency cache knows: their lockfiles, and the variables that point their caches at
 * {@linkcode DEPS}.
 *
 * In the setup phase every cache is written. The agent sees the same folder read-only; of the managers, some can read
 * from such a folder and are configured to; the others fail on one and keep their defaults below HOME.
 */

/** Where a sandbox sees the cache. */
export const DEPS = "/deps";

export interface PackageManager {
  name: string;
  lockfiles: readonly string[];
  setup: Readonly<Record<string, string>>;
  /** Variables by which it reads a cache that it cannot write; absent when it cannot do that. */
  agent?: Readonly<Record<string, string>>;
}

/** Every package manager, in the order of the documentation. */
export const PACKAGE_MANAGERS: readonly PackageManager[] = [
  {
    name: "npm",
    lockfiles: ["package-lock.json", "npm-shrinkwrap.json"],
    setup: { npm_config_cache: `${DEPS}/npm` },
  },
  {
    name: "pnpm",
    lockfiles: ["pnpm-lock.yaml"],
    setup: { npm_config_store_dir: `${DEPS}/pnpm`, pnpm_config_store_dir: `${DEPS}/pnpm` },
  },
  {
    name: "Yarn",
    lockfiles: ["yarn.lock"],
    // The first is Yarn 1's cache, the second the global one of later versions.
    setup: { YARN_CACHE_FOLDER: `${DEPS}/yarn`, YARN_GLOBAL_FOLDER: `${DEPS}/yarn-global` },
  },
  { name: "Bun", lockfiles: ["bun.lock", "bun.lockb"], setup: { BUN_INSTALL_CACHE_DIR: `${DEPS}/bun` } },
  { name: "Deno", lockfiles: ["deno.lock"], setup: { DENO_DIR: `${DEPS}/deno` } },
  { name: "pip", lockfiles: ["pylock.toml", "requirements.lock"], setup: { PIP_CACHE_DIR: `${DEPS}/pip` } },
  { name: "uv", lockfiles: ["uv.lock"], setup: { UV_CACHE_DIR: `${DEPS}/uv` } },
  { name: "Poetry", lockfiles: ["poetry.lock"], setup: { POETRY_CACHE_DIR: `${DEPS}/poetry` } },
  { name: "Pipenv", lockfiles: ["Pipfile.lock"], setup: { PIPENV_CACHE_DIR: `${DEPS}/pipenv` } },
  { name: "PDM", lockfiles: ["pdm.lock"], setup: { PDM_CACHE_DIR: `${DEPS}/pdm` } },
  { name: "Cargo", lockfiles: ["Cargo.lock"], setup: { CARGO_HOME: `${DEPS}/cargo` } },
  {
    name: "Go",
    lockfiles: ["go.sum", "go.work.sum"],
    setup: { GOMODCACHE: `${DEPS}/go` },
    agent: { GOPROXY: `file://${DEPS}/go/cache/download,https://proxy.golang.org,direct` },
  },
  {
    name: "Bundler",
    lockfiles: ["Gemfile.lock", "gems.locked"],
    setup: { BUNDLE_USER_CACHE: `${DEPS}/bundler`, BUNDLE_GLOBAL_GEM_CACHE: "true" },
  },
  {
    name: "Composer",
    lockfiles: ["composer.lock"],
    setup: { COMPOSER_CACHE_DIR: `${DEPS}/composer` },
    agent: { COMPOSER_CACHE_DIR: `${DEPS}/composer`, COMPOSER_CACHE_READ_ONLY: "1" },
  },
  {
    name: "Gradle",
    lockfiles: ["gradle.lockfile", "buildscript-gradle.lockfile"],
    setup: { GRADLE_USER_HOME: `${DEPS}/gradle` },
    agent: { GRADLE_RO_DEP_CACHE: `${DEPS}/gradle/caches` },
  },
  {
    name: "NuGet",
    lockfiles: ["packages.lock.json"],
    setup: { NUGET_PACKAGES: `${DEPS}/nuget` },
    agent: { NUGET_FALLBACK_PACKAGES: `${DEPS}/nuget` },
  },
  { name: "Mix", lockfiles: ["mix.lock"], setup: { HEX_HOME: `${DEPS}/hex` } },
  { name: "Dart", lockfiles: ["pubspec.lock"], setup: { PUB_CACHE: `${DEPS}/pub` } },
];

/** The variables that point package managers at {@linkcode DEPS} in a phase. */
export function cacheEnv(phase: "setup" | "agent"): Record<string, string> {
  return Object.assign({}, ...PACKAGE_MANAGERS.map((manager) => manager[phase] ?? {}));
}

const LOCKFILES: ReadonlySet<string> = new Set(PACKAGE_MANAGERS.flatMap(({ lockfiles }) => lockfiles));

export function isLockfileName(name: string): boolean {
  return LOCKFILES.has(name);
}

/** Whether a file of this name is a lockfile if it has hashes: what `pip-compile --generate-hashes` writes. */
export function isRequirementsName(name: string): boolean {
  return /^requirements[\w.-]*\.txt$/.test(name);
}
