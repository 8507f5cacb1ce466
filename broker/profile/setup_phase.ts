/**
 * The setup phase and the dependency cache together, as the engine asks for them: the lockfiles of the staged commit
 * name the entry, the commands fill or use it, and the agent gets what it may see of it.
 *
 * @module
 */

import type { Clock } from "../../lib/clock.ts";
import type { CacheMount, CacheUse, DependencyCache } from "../cache/dependency_cache.ts";
import { findLockfiles } from "../cache/lockfiles.ts";
import { cacheEnv } from "../cache/package_managers.ts";
import type { Git } from "../git/git.ts";
import type { SandboxRuntime } from "../sandbox/runtime.ts";
import type { Profile } from "../settings/policies.ts";
import { runSetup, type SetupLimits, type SetupResult } from "./run_setup.ts";

/** What every setup phase of a broker works with. */
export interface SetupPhaseParts {
  cache: DependencyCache;
  git: Git;
  runtime: SandboxRuntime;
  image: string;
  network: string;
  clock: Clock;
  /** Digest of an image, so that a rebuilt one begins new entries; without it, its name stands for it. */
  imageDigest?: (image: string) => Promise<string | undefined>;
  limits?: Partial<SetupLimits>;
}

/** What is set up. */
export interface SetupPhaseRequest {
  task_id: string;
  /** Canonical form of the repository. */
  repo: string;
  profile: Profile;
  /** Absolute; the commands change it. */
  work_dir: string;
  /** The staged git directory. */
  git_dir: string;
  /** The commit that was staged. */
  base_commit: string;
  /** The way out, with the task's password. */
  proxy_url: string;
  /** Where the combined output goes. */
  log_path: string;
  /** `os/arch` of the sandbox; by default the machine's own. */
  platform?: string;
  signal: AbortSignal;
  /** Told each line. */
  onLine(text: string): void;
}

/** What came of it. */
export interface SetupPhaseResult extends SetupResult {
  /** What the agent gets to see of the dependency cache. */
  mounts: CacheMount[];
  /** By which the agent's package managers find it. */
  env: Record<string, string>;
  /** Lets go of the cache; called once nothing has a mount any more. */
  release(): Promise<void>;
}

/**
 * Runs one task's setup phase.
 *
 * @throws As {@linkcode runSetup}, {@linkcode findLockfiles} and {@linkcode DependencyCache.use}; nothing is then held.
 */
export async function runSetupPhase(parts: SetupPhaseParts, request: SetupPhaseRequest): Promise<SetupPhaseResult> {
  const { runtime, image, network, clock, limits } = parts;
  const use = await openCache(parts, request);
  try {
    const { task_id, profile, work_dir, proxy_url, log_path, platform, signal, onLine } = request;
    const result = await runSetup({
      task_id,
      profile,
      work_dir,
      runtime,
      image,
      network,
      proxy_url,
      log_path,
      signal,
      onLine,
      clock,
      cache: use,
      ...limits === undefined ? {} : { limits },
      ...platform === undefined ? {} : { platform },
    });
    const mount = result.passed ? use.agent_mount : undefined;
    return {
      ...result,
      mounts: mount === undefined ? [] : [mount],
      env: mount === undefined ? {} : cacheEnv("agent"),
      release: () => use.release(),
    };
  } catch (error) {
    await use.release();
    throw error;
  }
}

async function openCache(parts: SetupPhaseParts, request: SetupPhaseRequest): Promise<CacheUse> {
  const { cache, git, image, runtime, imageDigest } = parts;
  const { profile, repo, git_dir, base_commit, platform, signal } = request;
  return await cache.use({
    wanted: profile.cache,
    repo,
    lockfiles: profile.cache && cache.enabled ? await findLockfiles(git, { git_dir, commit: base_commit, signal }) : [],
    toolchain: runtime.name,
    arch: platform ?? Deno.build.arch,
    setup_commands: profile.setup,
    image: await imageDigest?.(image) ?? image,
    signal,
  });
}
